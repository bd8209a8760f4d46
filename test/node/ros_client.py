"""What tests need to talk to the node: client and messages of the traffic kit, and a check of the node's counts."""

from __future__ import annotations

from collections.abc import Callable

from traj_integrator_ros.traffic.messages import floats, sequence, table
from traj_integrator_ros.traffic.ros_client import RosClient

__all__ = ["RosClient", "assert_counted", "floats", "sequence", "table"]


def assert_counted(client: RosClient, act: Callable[[], None], reason: str) -> None:
    """`act` is answered by nothing but one more count of `reason`."""
    before = int(client.counts()[f"rejected.{reason}"])
    client.batches.clear()
    client.trajectories.clear()
    act()
    client.wait_for(lambda: int(client.counts()[f"rejected.{reason}"]) == before + 1, f"one more {reason}", 5.0)
    assert not client.batches and not client.trajectories

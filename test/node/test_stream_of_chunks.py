"""A policy's chunks over DDS: what a controller commands at 1 kHz of the trajectories that arrive is what was meant."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from node_fixtures import JOINTS, PARAMETERS
from preloaded_node import PreloadedNode
from ros_client import RosClient, sequence
from trajectory_msgs.msg import JointTrajectory

from benchmarks.executed.controller import Controller, Message
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.tools.controller_model import scheduled_points
from traj_integrator_ros.traffic.messages import set_stamp, stamp_of
from traj_integrator_ros.traffic.participant import received_ns

pytestmark = pytest.mark.ros
CYCLE_NS, SECOND_NS = 1_000_000, 1_000_000_000
MEANT, LIMIT, JERK_LIMIT = 1.5, 10.0, 100.0
DIRECTIONS = np.array([1.0, -1.0, 0.5])
CHUNK, DT, STREAM_S = 16, 0.05, 2.0
LEAD_S = 0.1
ATTEMPTS = 3


def plan(time_s: np.ndarray) -> np.ndarray:
    """After 0.3 s, from rest within a second to 1 rad/s, with at most 1.5 rad/s^2, and then without an end."""
    time_s = time_s - 0.3
    share = np.clip(time_s, 0, 1)
    return (share**3 - share**4 / 2 + np.maximum(time_s - 1, 0))[:, None] * DIRECTIONS


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, JointTrajectory]]:
    """What arrived, and when, ns: of chunks at 10 to 25 Hz with jitter, sent up to 50 ms after they were observed.

    A machine that stops a process for longer than the lead time makes chunks late, which are not published, or their
    trajectories, which a controller enters in the middle: again.
    """
    for _ in range(ATTEMPTS):
        sent, arrived = streamed(tmp_path_factory.mktemp("stream"))
        late = sum(at_ns > stamp_of(message) + LEAD_S * SECOND_NS for at_ns, message in arrived)
        if len(arrived) == sent and not late:
            return arrived
    pytest.fail(f"{len(arrived)} of {sent} chunks became trajectories in the last of {ATTEMPTS} streams, {late} late")


def streamed(folder: Path) -> tuple[int, list[tuple[int, JointTrajectory]]]:
    """How many chunks a node was sent, and what arrived of them."""
    parameters = PARAMETERS | {
        "start_from": "previous",
        "publish.lead_time": LEAD_S,  # test machines are busy
        "limits.acceleration": [LIMIT] * 3,
        "limits.jerk": [JERK_LIMIT] * 3,
        "limits.start_deviation": 0.0,
        "limits.action": "reject",
        "warmup": [f"1x{CHUNK}"],
    }
    arrived: list[tuple[int, JointTrajectory]] = []

    def keep(message: JointTrajectory, info: Mapping[str, object]) -> None:
        arrived.append((received_ns(info), message))

    random = np.random.default_rng(0)
    node = PreloadedNode(folder, parameters)
    client = RosClient(JOINTS)
    try:
        client.wait_until_active()
        client.subscribe(JointTrajectory, "~/joint_trajectory", keep)
        client.wait_until_connected()
        client.settle_state([0.0] * 3)
        begin_ns, sent = time.time_ns(), 0
        while (into_s := (time.time_ns() - begin_ns) * 1e-9) < STREAM_S:
            observed_ns = time.time_ns()
            message = sequence(plan(into_s + DT * np.arange(1, CHUNK + 1))[None], dt=[DT])
            inference = random.uniform(0, 0.05)
            client.spin(inference)
            set_stamp(message, observed_ns)
            client.sequences.publish(message)
            sent += 1
            client.spin(max(random.uniform(0.04, 0.1) + random.uniform(0, 0.015) - inference, 0.0))
        with suppress(TimeoutError):
            client.wait_for(lambda: len(arrived) == sent, "all trajectories", 2.0)
    finally:
        client.close()
        node.close()
    return sent, arrived


@pytest.fixture(scope="module")
def commanded(stream: list[tuple[int, JointTrajectory]]) -> tuple[np.ndarray, int]:
    """Positions that a controller commands `[cycles, 3]`, and the cycle that the last trajectory starts at."""
    first_ns = stream[0][0] - stream[0][0] % CYCLE_NS
    controller = Controller(State(*np.zeros((3, 3))), first_ns)
    for arrived_ns, trajectory in stream:
        message = Message(*scheduled_points(trajectory))
        controller.receive(message, arrived_ns)
    controller.run(message.stamp_ns + int(message.points.time_ns[-1]) + SECOND_NS // 10)
    return controller.commanded().position, (message.stamp_ns - first_ns) // CYCLE_NS


def test_every_chunk_is_scheduled_ahead(stream: list[tuple[int, JointTrajectory]]) -> None:
    assert len(stream) >= 10
    assert all(stamp_of(message) for _, message in stream)


def test_the_stream_is_commanded_as_the_plan(commanded: tuple[np.ndarray, int]) -> None:
    positions, last = commanded
    acceleration = np.diff(positions[:last], 2, axis=0) * 1e6
    assert np.abs(acceleration).max() <= 1.5 * MEANT
    way = np.diff(positions[last // 2 : last], axis=0) * DIRECTIONS  # once it is on its way
    assert (way > 0).all(), "never against the plan"


def test_a_stream_that_stops_is_braked_within_the_limits(commanded: tuple[np.ndarray, int]) -> None:
    positions, last = commanded
    ending = positions[last + 5 :]
    assert np.abs(np.diff(ending, 2, axis=0)).max() * 1e6 <= LIMIT * 1.001
    assert np.abs(np.diff(ending, 3, axis=0)).max() * 1e9 <= JERK_LIMIT * 1.001
    speed = np.diff(ending, axis=0) * 1e3
    assert np.abs(speed[-50:]).max() <= 1e-9
    assert speed[0] @ DIRECTIONS > 0.5, "it moved when the stream stopped"
    assert (speed * DIRECTIONS >= -1e-6).all(), "no joint turns back"

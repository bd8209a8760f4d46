"""Requirements of a started node, stated once: for nodes started by ROS 2 launch and for bare processes alike.

A check takes the client and the scenario and raises AssertionError. test_launch_*.py run them under launch_testing,
test_processes.py without it, so that the two cannot drift apart.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from ros_client import RosClient

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_ros.client import NODE_NAME, sequence, set_stamp, trajectories_of
from traj_integrator_ros.limits.parameter_files import dotted

REPOSITORY = Path(__file__).resolve().parents[2]
CONFIG = REPOSITORY / "config"
DT_S = 0.02


@dataclass(frozen=True)
class Scenario:
    """One way to start the node."""

    robot: str
    namespace: str = ""
    remappings: tuple[tuple[str, str], ...] = ()

    def parameter_file(self) -> Path:
        return CONFIG / f"{self.robot}.yaml"

    def parameters(self) -> dict[str, object]:
        """Return the parameters of the robot's file by their dotted names."""
        (node,) = yaml.safe_load(self.parameter_file().read_text(encoding="utf-8")).values()
        return dotted(node["ros__parameters"])

    def client(self) -> RosClient:
        name = "/".join(["", *filter(None, self.namespace.split("/")), NODE_NAME])
        rules = [f"{one.replace('~', name)}:={other}" for one, other in self.remappings]
        return RosClient(self.parameters()["joint_names"], name, [word for rule in rules for word in ("-r", rule)])

    def launch_arguments(self) -> dict[str, str]:
        return {"robot": self.robot, "namespace": self.namespace, "device": "cpu"}

    def process_arguments(self) -> list[str]:
        """Return the arguments that the launch file puts behind --ros-args for these launch arguments."""
        return [
            *("-r", "__node:=traj_integrator", "-r", f"__ns:=/{self.namespace}"),
            *("--params-file", str(self.parameter_file()), "-p", "device:=cpu"),
            *(word for name, other in self.remappings for word in ("-r", f"{name}:={other}")),
        ]

    def __str__(self) -> str:
        remapped = ["remapped"] if self.remappings else []
        return "-".join([self.robot, *filter(None, self.namespace.split("/")), *remapped])


SCENARIOS = (
    Scenario("franka"),
    Scenario("ur5e", namespace="left"),
    Scenario(
        "franka",
        namespace="cell/arm",
        remappings=(("joint_states", "/cell/joint_states"), ("~/joint_trajectory", "/arm_controller/joint_trajectory")),
    ),
)
# Checks


def has_the_parameters_of_its_files(client: RosClient, scenario: Scenario) -> None:
    client.wait_until_active()
    expected = {**scenario.parameters(), "device": "cpu"}
    assert client.parameters(list(expected)) == expected


def answers_a_sequence_on_both_topics(client: RosClient, scenario: Scenario) -> None:
    start, actions = _motion(scenario)
    # The robot reports the same state until the published motion is over, and is not braked for that.
    allowed = client.parameter("supervision.deviation")
    assert client.set_atomically(supervision__deviation=0.0) == (True, "")
    with client.periodically(DT_S, lambda: client.publish_state(start, np.zeros_like(start))):
        client.spin(0.2)
        batches, trajectories = len(client.batches), len(client.trajectories)
        sent = sequence(actions, dt=[DT_S], control_space=ActionSequence.POSITION)
        set_stamp(sent, time.time_ns())
        client.sequences.publish(sent)
        client.wait_for(lambda: len(client.batches) > batches, "trajectory batch")
        client.wait_for(lambda: len(client.trajectories) > trajectories, "joint trajectory")
        client.spin(1.0)
    assert client.set_atomically(supervision__deviation=allowed) == (True, "")
    assert (len(client.batches), len(client.trajectories)) == (batches + 1, trajectories + 1)
    assert client.batches[-1].header.stamp == sent.header.stamp
    _check_positions(client.batches[-1], start, actions)


def integrates_for_a_caller(client: RosClient, scenario: Scenario) -> None:
    start, actions = _motion(scenario)
    response = client.integrate(
        sequence(actions, dt=[DT_S], control_space=ActionSequence.POSITION, position=start[None])
    )
    assert response.success, response.message
    _check_positions(response.trajectory, start, actions)


CHECKS = (has_the_parameters_of_its_files, answers_a_sequence_on_both_topics, integrates_for_a_caller)


def _motion(scenario: Scenario, batch: int = 2, horizon: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """A resting start amid the limits, rad `[dof]`, and positions that leave it gently `[batch, horizon, dof]`."""
    parameters = scenario.parameters()
    dof = len(parameters["joint_names"])
    low, high = (np.asarray(parameters.get(f"limits.position_{end}") or [0.0] * dof) for end in ("min", "max"))
    # A joint may turn without end.
    start = (np.clip(low, -2 * np.pi, None) + np.clip(high, None, 2 * np.pi)) / 2
    times = DT_S * np.arange(1, horizon + 1)[:, None]
    actions = start + np.linspace(0.3, 0.1, dof) * times**2 / 2
    return start, np.repeat(actions[None], batch, axis=0)


def _check_positions(batch: TrajectoryBatch, start: np.ndarray, actions: np.ndarray) -> None:
    """Each row after the first is the previous action."""
    position = trajectories_of(batch).position
    np.testing.assert_allclose(position[:, 0], np.broadcast_to(start, position[:, 0].shape), atol=1e-5)
    np.testing.assert_allclose(position[:, 1:], actions[:, : position.shape[1] - 1], atol=1e-5)

"""What must hold of a started node, said once: for nodes that ROS 2 launch starts and for bare processes alike.

A check takes the client and the scenario and raises AssertionError. test_launch_*.py run them under launch_testing,
test_processes.py without it, so that the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_ros.tools.robot import dotted
from traj_integrator_ros.traffic.messages import batch_arrays, sequence
from traj_integrator_ros.traffic.participant import NODE_NAME, START_TIMEOUT_S
from traj_integrator_ros.traffic.ros_client import RosClient

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
        """Return what the launch file puts behind --ros-args for these launch arguments."""
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
OTHER_ROBOTS = tuple(
    Scenario(robot, namespace=robot)
    for robot in sorted({file.stem for file in CONFIG.glob("*.yaml")} - {scenario.robot for scenario in SCENARIOS})
)


# Start-up -----------------------------------------------------------------------------------------------------------


def goes_to_active_by_itself(client: RosClient, scenario: Scenario) -> None:
    client.wait_until_active()


def has_the_parameters_of_its_files(client: RosClient, scenario: Scenario) -> None:
    expected = {**scenario.parameters(), "device": "cpu"}
    assert client.parameters(list(expected)) == expected


def offers_the_interface(client: RosClient, scenario: Scenario) -> None:
    name = client.node_name
    expected = {
        client.states.topic_name: "sensor_msgs/msg/JointState",
        f"{name}/action_sequence": "traj_integrator_interfaces/msg/ActionSequence",
        f"{name}/position_trajectory": "trajectory_msgs/msg/JointTrajectory",
        client.trajectory_subscription.topic_name: "trajectory_msgs/msg/JointTrajectory",
        f"{name}/trajectory_batch": "traj_integrator_interfaces/msg/TrajectoryBatch",
        f"{name}/integrate": "traj_integrator_interfaces/srv/Integrate",
        f"{name}/compute_gradient": "traj_integrator_interfaces/srv/ComputeGradient",
        f"{name}/evaluate": "traj_integrator_interfaces/srv/Evaluate",
        f"{name}/change_state": "lifecycle_msgs/srv/ChangeState",
        "/diagnostics": "diagnostic_msgs/msg/DiagnosticArray",
    }
    client.wait_for(lambda: expected.items() <= client.topics_and_services().items(), f"all of {sorted(expected)}")
    remapped = {name.replace("~", client.node_name) for name, _ in scenario.remappings if name.startswith("~")}
    assert not remapped & client.topics_and_services().keys()


def reports_diagnostics(client: RosClient, scenario: Scenario) -> None:
    counts = client.counts()
    assert counts["lifecycle_state"] == "active", counts


START_UP = (goes_to_active_by_itself, has_the_parameters_of_its_files, offers_the_interface, reports_diagnostics)

# Main job -----------------------------------------------------------------------------------------------------------


def answers_a_sequence_on_both_topics(client: RosClient, scenario: Scenario) -> None:
    motion = _Motion.of(scenario)
    with _measured(client, motion.position[0], motion.velocity[0]):
        batches, trajectories = len(client.batches), len(client.trajectories)
        sent = sequence(motion.actions(batch=3), dt=[DT_S], control_space=ActionSequence.POSITION)
        client.publish_sequence(sent)
        client.wait_for(lambda: len(client.batches) > batches, "trajectory batch")
        client.wait_for(lambda: len(client.trajectories) > trajectories, "joint trajectory")
    assert (len(client.batches), len(client.trajectories)) == (batches + 1, trajectories + 1)
    batch = client.batches[-1]
    assert batch.header.stamp == sent.header.stamp
    _check_positions_and_velocities(batch, motion)


def integrates_for_a_caller(client: RosClient, scenario: Scenario) -> None:
    motion = _Motion.of(scenario)
    response = client.integrate(motion.sequence(batch=2))
    assert response.success, response.message
    _check_positions_and_velocities(response.trajectory, motion)
    acceleration = batch_arrays(response.trajectory)[2]
    first = 1 + _row_of_start(response.trajectory)
    # A quadratic motion comes back exactly from the first step on: no spike where the robot already moves.
    inner = acceleration[:, first : motion.horizon - 3]
    np.testing.assert_allclose(inner, np.broadcast_to(motion.acceleration, inner.shape), atol=0.02)


MAIN_JOB = (answers_a_sequence_on_both_topics, integrates_for_a_caller)

# Recovery -----------------------------------------------------------------------------------------------------------


def traffic_recovers(client: RosClient, scenario: Scenario, kill: Callable[[], None]) -> None:
    """Check that the publishers and clients that were there before `kill` are served again after it."""
    state = _Motion.of(scenario).position[0]
    message = _still(state)

    def send() -> None:
        client.publish_state(state, np.zeros_like(state))
        client.publish_sequence(message)

    with client.periodically(0.05, send):
        before = len(client.batches)
        client.wait_for(lambda: len(client.batches) >= before + 10, "traffic before the kill")
        kill()
        client.spin(0.3)
        stopped = len(client.batches)
        client.wait_for(lambda: len(client.batches) >= stopped + 10, "traffic after the kill", START_TIMEOUT_S)
        client.wait_until_active()
        integrates_for_a_caller(client, scenario)


# Helpers ------------------------------------------------------------------------------------------------------------


def _still(state: np.ndarray) -> ActionSequence:
    """No acceleration for two steps, from the latest joint state on."""
    return sequence(np.zeros((1, 2, len(state))), dt=[DT_S], control_space=ActionSequence.ACCELERATION)


@contextmanager
def _measured(client: RosClient, position: np.ndarray, velocity: np.ndarray) -> Iterator[None]:
    """A robot that reports the same state until what was published for it is over, and is not braked for that."""
    allowed = client.parameters(["supervision.deviation"])["supervision.deviation"]
    assert client.set_atomically(supervision__deviation=0.0) == (True, "")
    with client.periodically(DT_S, lambda: client.publish_state(position, velocity)):
        client.spin(0.2)
        yield
        client.spin(1.0)
    assert client.set_atomically(supervision__deviation=allowed) == (True, "")


@dataclass(frozen=True)
class _Motion:
    """A robot in motion: constant acceleration from a moving start, [horizon, dof], rad and s."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray

    @classmethod
    def of(cls, scenario: Scenario, horizon: int = 24) -> _Motion:
        parameters = scenario.parameters()
        dof = len(parameters["joint_names"])
        low, high = (np.asarray(parameters.get(f"limits.position_{end}") or [0.0] * dof) for end in ("min", "max"))
        t = DT_S * np.arange(horizon)[:, None]
        velocity, acceleration = np.linspace(0.05, 0.15, dof), np.linspace(0.3, 0.1, dof)
        # A joint may turn without end.
        middle = (np.clip(low, -2 * np.pi, None) + np.clip(high, None, 2 * np.pi)) / 2
        position = middle + velocity * t + acceleration * t**2 / 2
        return cls(position, velocity + acceleration * t, acceleration)

    @property
    def horizon(self) -> int:
        return self.position.shape[0]

    @property
    def dof(self) -> int:
        return self.position.shape[1]

    def actions(self, batch: int) -> np.ndarray:
        """Return the positions after the start as actions, the last of which leads beyond the rows."""
        beyond = self.position[-1:] + (self.velocity[-1:] + self.acceleration * DT_S / 2) * DT_S
        return np.repeat(np.concatenate([self.position[1:], beyond])[None], batch, axis=0)

    def sequence(self, batch: int) -> ActionSequence:
        """Return the message with the start state, moving and accelerating."""
        start = {"position": self.position[:1], "velocity": self.velocity[:1], "acceleration": self.acceleration[None]}
        return sequence(self.actions(batch), dt=[DT_S], control_space=ActionSequence.POSITION, **start)


def _check_positions_and_velocities(batch: TrajectoryBatch, motion: _Motion) -> None:
    position, velocity, *_ = batch_arrays(batch)
    start = _row_of_start(batch)
    expected = np.broadcast_to(motion.position, (batch.batch, *motion.position.shape))
    np.testing.assert_allclose(position[:, start : start + motion.horizon], expected, atol=1e-5)
    # Backward differences lie half a step before the sample, central ones on it.
    velocity = velocity[:, start + 1 : motion.horizon - 3]
    lag = np.abs(velocity - motion.velocity[1 : 1 + velocity.shape[1]])
    assert np.all(lag <= np.max(motion.acceleration) * DT_S / 2 + 1e-3), lag.max()


def _row_of_start(batch: TrajectoryBatch) -> int:
    return int(np.argmin(np.abs(np.asarray(batch.time_from_start)[: batch.horizon])))

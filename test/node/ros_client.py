"""A client of one node over DDS: publishes, subscribes and calls, with a ROS context of its own."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence

import numpy as np
import rclpy
from controller_rules import assert_acceptable
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters, SetParametersAtomically
from rclpy.client import Client
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Integrate

START_TIMEOUT_S = 40.0  # a busy machine imports torch in ten seconds and more
TRANSITIONS = {
    "configure": Transition.TRANSITION_CONFIGURE,
    "cleanup": Transition.TRANSITION_CLEANUP,
    "activate": Transition.TRANSITION_ACTIVATE,
    "deactivate": Transition.TRANSITION_DEACTIVATE,
}


class RosClient:
    """Remembers what it receives, and checks every joint trajectory; sends and receives only within its methods."""

    def __init__(self, joint_names: Sequence[str], node_name: str = "/traj_integrator") -> None:
        self.joint_names = list(joint_names)
        self.node_name = node_name
        namespace = node_name.rpartition("/")[0] or "/"
        self.expects_rest = True
        """Whether every trajectory must end at rest; all are checked as they arrive."""
        self.batches: list[TrajectoryBatch] = []
        self.trajectories: list[JointTrajectory] = []
        self.statuses: list[DiagnosticStatus] = []
        self._clients: dict[str, Client] = {}
        self._context = Context()
        rclpy.init(context=self._context)
        self.node = rclpy.create_node("test_client", namespace=namespace, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        qos = QoSProfile(depth=100)
        self.states = self.node.create_publisher(JointState, "joint_states", qos)
        self.sequences = self.node.create_publisher(ActionSequence, f"{node_name}/action_sequence", qos)
        self.plans = self.node.create_publisher(JointTrajectory, f"{node_name}/position_trajectory", qos)
        self.batch_subscription = self.node.create_subscription(
            TrajectoryBatch, f"{node_name}/trajectory_batch", self.batches.append, qos
        )
        self.node.create_subscription(JointTrajectory, f"{node_name}/joint_trajectory", self._keep_trajectory, qos)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._keep_status, qos)

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = 10.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
            self._executor.spin_once(timeout_sec=0.02)

    def spin(self, duration_s: float) -> None:
        deadline = time.monotonic() + duration_s
        while time.monotonic() < deadline:
            self._executor.spin_once(timeout_sec=0.01)

    # Lifecycle and parameters

    def state(self) -> str:
        """Ask until there is an answer: the first is lost where the node has not discovered the client within 0.1 s."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return self.call(GetState, "get_state", GetState.Request(), 3.0).current_state.label
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    def change_state(self, transition: str) -> bool:
        request = ChangeState.Request(transition=Transition(id=self._transition_id(transition)))
        return self.call(ChangeState, "change_state", request, timeout_s=30.0).success

    def wait_until_active(self, timeout_s: float = START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                if self.call(GetState, "get_state", GetState.Request(), 1.0).current_state.label == "active":
                    break
            except AssertionError:
                pass
            assert time.monotonic() < deadline, f"{self.node_name} not active within {timeout_s} s"
        self.wait_until_connected()

    def wait_until_connected(self) -> None:
        publishers = (self.states, self.sequences, self.plans)
        topics = [f"{self.node_name}/trajectory_batch", f"{self.node_name}/joint_trajectory"]
        self.wait_for(
            lambda: (
                all(publisher.get_subscription_count() for publisher in publishers)
                and all(self.node.count_publishers(topic) for topic in topics)
            ),
            "topics connected",
        )
        # The node's side may find us a moment later than we find it.
        self.spin(0.2)

    def set_parameters(self, **values: object) -> list[tuple[bool, str]]:
        """Set parameters one by one; `__` stands for the dot in a name."""
        request = SetParameters.Request(parameters=self._parameter_messages(values))
        results = self.call(SetParameters, "set_parameters", request).results
        return [(result.successful, result.reason) for result in results]

    def set_atomically(self, **values: object) -> tuple[bool, str]:
        request = SetParametersAtomically.Request(parameters=self._parameter_messages(values))
        result = self.call(SetParametersAtomically, "set_parameters_atomically", request).result
        return result.successful, result.reason

    def parameter(self, name: str) -> object:
        response = self.call(GetParameters, "get_parameters", GetParameters.Request(names=[name]))
        value = parameter_value_to_python(response.values[0])
        return list(value) if isinstance(value, array) else value

    def parameter_names(self) -> list[str]:
        return list(self.call(ListParameters, "list_parameters", ListParameters.Request()).result.names)

    def descriptors(self, names: Sequence[str]) -> dict[str, object]:
        request = DescribeParameters.Request(names=list(names))
        found = self.call(DescribeParameters, "describe_parameters", request).descriptors
        return {descriptor.name: descriptor for descriptor in found}

    # Input

    def publish_state(
        self,
        position: Sequence[float],
        velocity: Sequence[float] = (),
        names: Sequence[str] | None = None,
        age_s: float = 0.0,
        stamp_ns: int | None = None,
    ) -> None:
        message = JointState(name=list(self.joint_names if names is None else names))
        message.position, message.velocity = array("d", position), array("d", velocity)
        if stamp_ns is None:
            stamp_ns = time.time_ns() - int(age_s * 1e9)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
        self.states.publish(message)

    def settle_state(self, position: Sequence[float], velocity: Sequence[float] = ()) -> None:
        """Publish a state and give it the time to arrive."""
        self.publish_state(position, velocity)
        self.spin(0.1)

    def answer(self, message: ActionSequence, timeout_s: float = 10.0) -> tuple[TrajectoryBatch, JointTrajectory]:
        """Publish a sequence and return both messages that come of it."""
        self.batches.clear()
        self.trajectories.clear()
        self.sequences.publish(message)
        self.wait_for(lambda: self.batches and self.trajectories, "trajectory", timeout_s)
        return self.batches[-1], self.trajectories[-1]

    def answer_plan(self, message: JointTrajectory) -> JointTrajectory:
        self.trajectories.clear()
        self.plans.publish(message)
        self.wait_for(lambda: self.trajectories, "trajectory")
        return self.trajectories[-1]

    def integrate(self, message: ActionSequence) -> Integrate.Response:
        return self.call(Integrate, "integrate", Integrate.Request(actions=message))

    def compute_gradient(self, request: ComputeGradient.Request) -> ComputeGradient.Response:
        return self.call(ComputeGradient, "compute_gradient", request)

    def call(self, service: type, name: str, request: object, timeout_s: float = 10.0) -> object:
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = self.node.create_client(service, f"{self.node_name}/{name}")
        self.wait_for(client.service_is_ready, f"service {name}", max(timeout_s, START_TIMEOUT_S))
        future = client.call_async(request)
        try:
            self.wait_for(future.done, f"answer of {name}", timeout_s)
        except AssertionError:
            client.remove_pending_request(future)
            raise
        return future.result()

    # Diagnostics

    def status(self, fresh: bool = True) -> DiagnosticStatus:
        """The node's latest status; with `fresh`, one that tells of all that happened before this call."""
        if fresh:
            self.statuses.clear()
            self.wait_for(lambda: len(self.statuses) >= 2, "two diagnostic messages")
        return self.statuses[-1]

    def counts(self) -> dict[str, str]:
        return {pair.key: pair.value for pair in self.status().values}

    def _keep_trajectory(self, message: JointTrajectory) -> None:
        assert_acceptable(message, self.joint_names, at_rest=self.expects_rest)
        self.trajectories.append(message)

    def _keep_status(self, message: DiagnosticArray) -> None:
        self.statuses.extend(s for s in message.status if s.name == f"{self.node_name}: integrator")

    def _transition_id(self, transition: str) -> int:
        if transition == "shutdown":
            return {
                "unconfigured": Transition.TRANSITION_UNCONFIGURED_SHUTDOWN,
                "inactive": Transition.TRANSITION_INACTIVE_SHUTDOWN,
                "active": Transition.TRANSITION_ACTIVE_SHUTDOWN,
            }[self.state()]
        return TRANSITIONS[transition]

    @staticmethod
    def _parameter_messages(values: dict[str, object]) -> list:
        return [
            value.to_parameter_msg()
            if isinstance(value, Parameter)
            else Parameter(name.replace("__", "."), value=value).to_parameter_msg()
            for name, value in values.items()
        ]


def sequence(
    actions: np.ndarray,
    *,
    dt: Sequence[float] = (),
    control_space: int = ActionSequence.DEFAULT,
    joint_names: Sequence[str] = (),
    position: np.ndarray | Sequence = (),
    velocity: np.ndarray | Sequence = (),
    acceleration: np.ndarray | Sequence = (),
    start_index: Sequence[int] = (),
) -> ActionSequence:
    """The message for actions `[batch, horizon, dof]`."""
    batch, horizon, _ = actions.shape
    message = ActionSequence(
        joint_names=list(joint_names), control_space=control_space, batch=batch, horizon=horizon,
        dt=floats(dt), data=floats(actions), start_index=array("I", start_index),
    )  # fmt: skip
    message.start.position, message.start.velocity = floats(position), floats(velocity)
    message.start.acceleration = floats(acceleration)
    return message


def floats(values: object) -> array:
    return array("f", np.ascontiguousarray(values, np.float32).tobytes())


def table(values: array, batch: int, dof: int) -> np.ndarray:
    """A flat message field as `[batch, horizon, dof]`."""
    return np.asarray(values).reshape(batch, -1, dof)


def assert_counted(client: RosClient, act: Callable[[], None], reason: str) -> None:
    """`act` is answered by nothing but one more count of `reason`."""
    before = int(client.counts()[f"rejected.{reason}"])
    client.batches.clear()
    client.trajectories.clear()
    act()
    client.wait_for(lambda: int(client.counts()[f"rejected.{reason}"]) == before + 1, f"one more {reason}", 5.0)
    assert not client.batches and not client.trajectories

"""A ROS 2 client of the integrator node with a context of its own, for checks on a node that runs elsewhere."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import GetState
from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import NodeNameNonExistentError
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Integrate
from traj_integrator_ros.tools.checker import Expectation, check_message

Request = TypeVar("Request")
Response = TypeVar("Response")

# A busy machine imports torch in ten seconds and more.
START_TIMEOUT_S = 60.0
REPLY_TIMEOUT_S = 10.0


class IntegratorClient:
    """Publishes to one node and remembers what it sends; nothing is sent or received outside the methods."""

    def __init__(self, namespace: str, joint_names: Sequence[str], remappings: Mapping[str, str]) -> None:
        """Connect to the node `traj_integrator` in the namespace; the environment says in which domain.

        Every joint trajectory that arrives is checked.

        Args:
            namespace: of the node.
            joint_names: of its robot.
            remappings: what the node was started with; a name may begin with ~.

        """
        self.node_name = "/".join(["", *filter(None, namespace.split("/")), "traj_integrator"])
        rules = [f"{name.replace('~', self.node_name)}:={other}" for name, other in remappings.items()]
        arguments = ["--ros-args", *(word for rule in rules for word in ("-r", rule))]
        self.joint_names = list(joint_names)
        self.batches: list[TrajectoryBatch] = []
        self.trajectories: list[JointTrajectory] = []
        self.diagnostics: list[DiagnosticArray] = []
        self._context = Context()
        rclpy.init(context=self._context)
        self._node = rclpy.create_node(
            "integrator_client", namespace=namespace, context=self._context, cli_args=arguments
        )
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        node, name = self._node, self.node_name
        self._states = node.create_publisher(JointState, "joint_states", QoSProfile(depth=10))
        self._sequences = node.create_publisher(ActionSequence, f"{name}/action_sequence", QoSProfile(depth=10))
        self._plans = node.create_publisher(JointTrajectory, f"{name}/position_trajectory", QoSProfile(depth=10))
        node.create_subscription(TrajectoryBatch, f"{name}/trajectory_batch", self.batches.append, 10)
        output = node.create_subscription(JointTrajectory, f"{name}/joint_trajectory", self._keep_trajectory, 10)
        node.create_subscription(DiagnosticArray, "/diagnostics", self.diagnostics.append, qos_profile_sensor_data)
        self.states_topic, self.output_topic = self._states.topic_name, output.topic_name
        self._get_state = node.create_client(GetState, f"{name}/get_state")
        self._get_parameters = node.create_client(GetParameters, f"{name}/get_parameters")
        self._integrate = node.create_client(Integrate, f"{name}/integrate")
        self._compute_gradient = node.create_client(ComputeGradient, f"{name}/compute_gradient")

    def close(self) -> None:
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float = REPLY_TIMEOUT_S) -> None:
        """Handle messages until the condition holds; AssertionError with `what` when it does not within the time."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {timeout_s:g} s")
            self._executor.spin_once(timeout_sec=0.02)

    def spin(self, duration_s: float) -> None:
        """Handle messages for a while."""
        deadline = time.monotonic() + duration_s
        while time.monotonic() < deadline:
            self._executor.spin_once(timeout_sec=0.02)

    def wait_until_active(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the node answers that it is active and its topics are connected to ours."""
        deadline = time.monotonic() + timeout_s
        state = "no answer"
        while state != "active":
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.node_name} active: not within {timeout_s:g} s, last state: {state}")
            state = self.lifecycle_state(timeout_s=1.0) or "no answer"
        self.wait_for(self._is_connected, f"topics of {self.node_name} connected")

    def lifecycle_state(self, timeout_s: float = REPLY_TIMEOUT_S) -> str | None:
        """Return the label of the lifecycle state, None when the node does not answer in time."""
        try:
            return self._call(self._get_state, GetState.Request(), timeout_s).current_state.label
        except AssertionError:
            return None

    def parameters(self, names: Sequence[str]) -> dict[str, object]:
        """Return the values of the node's parameters as Python objects; None where it has no such parameter."""
        values = self._call(self._get_parameters, GetParameters.Request(names=list(names))).values
        python_values = [parameter_value_to_python(value) for value in values]
        return {
            name: list(value) if isinstance(value, array) else value
            for name, value in zip(names, python_values, strict=True)
        }

    def topics_and_services(self) -> dict[str, str]:
        """Return name and type of all that the node subscribes to, publishes or serves; nothing while it is unknown."""
        name, _, namespace = self.node_name[::-1].partition("/")
        name, namespace = name[::-1], namespace[::-1] or "/"
        try:
            found = [
                *self._node.get_subscriber_names_and_types_by_node(name, namespace),
                *self._node.get_publisher_names_and_types_by_node(name, namespace),
                *self._node.get_service_names_and_types_by_node(name, namespace),
            ]
        except NodeNameNonExistentError:  # its entities are discovered apart from its name
            return {}
        return {topic: types[0] for topic, types in found}

    def integrate(self, actions: ActionSequence) -> Integrate.Response:
        return self._call(self._integrate, Integrate.Request(actions=actions))

    def compute_gradient(self, request: ComputeGradient.Request) -> ComputeGradient.Response:
        return self._call(self._compute_gradient, request)

    def publish_state(self, position: np.ndarray, velocity: np.ndarray) -> None:
        """Publish a joint state of now; rad and rad/s, [dof] each."""
        state = JointState(name=self.joint_names, position=array("d", position), velocity=array("d", velocity))
        state.header.stamp = self._node.get_clock().now().to_msg()
        self._states.publish(state)

    def publish_sequence(self, actions: ActionSequence) -> None:
        """Publish the actions with the stamp of now, which the answers carry too."""
        actions.header.stamp = self._node.get_clock().now().to_msg()
        self._sequences.publish(actions)

    def publish_plan(self, plan: JointTrajectory) -> None:
        self._plans.publish(plan)

    @contextmanager
    def periodically(self, period_s: float, function: Callable[[], None]) -> Iterator[None]:
        """Call the function at the period while messages are handled."""
        timer = self._node.create_timer(period_s, function)
        try:
            yield
        finally:
            self._node.destroy_timer(timer)

    def _keep_trajectory(self, message: JointTrajectory) -> None:
        """Keep what a controller and the robot would take; AssertionError for anything else."""
        findings = check_message(message, Expectation(self.joint_names, complete=True))
        assert not findings, "\n".join(map(str, findings))
        self.trajectories.append(message)

    def _is_connected(self) -> bool:
        publishers = (self._states, self._sequences, self._plans)
        topics = (f"{self.node_name}/trajectory_batch", self.output_topic)
        return all(publisher.get_subscription_count() for publisher in publishers) and all(
            self._node.count_publishers(topic) for topic in topics
        )

    def _call(
        self, client: Client[Request, Response], request: Request, timeout_s: float = REPLY_TIMEOUT_S
    ) -> Response:
        self.wait_for(client.service_is_ready, f"service {client.srv_name}", timeout_s)
        future = client.call_async(request)
        try:
            self.wait_for(future.done, f"answer of {client.srv_name}", timeout_s)
        except AssertionError:
            client.remove_pending_request(future)
            raise
        return future.result()


def sequence_of(actions: np.ndarray, dt_s: float, control_space: int, **start: np.ndarray) -> ActionSequence:
    """Return the message for actions [batch, horizon, dof] and a start state given by rows x dof arrays."""
    batch, horizon, _ = actions.shape
    message = ActionSequence(
        control_space=control_space, batch=batch, horizon=horizon, dt=array("f", [dt_s]), data=floats(actions)
    )
    for name, values in start.items():
        setattr(message.start, name, floats(values))
    return message


def floats(values: np.ndarray) -> array:
    """Return the values, flat, as the array type that messages take without looking at each element."""
    return array("f", np.ascontiguousarray(values, dtype=np.float32).tobytes())


def table(values: Sequence[float], batch: int, dof: int) -> np.ndarray:
    """Return a flat message field as float64 [batch, horizon, dof]."""
    return np.asarray(values, dtype=np.float64).reshape(batch, -1, dof)

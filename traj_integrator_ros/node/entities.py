"""The node's topics and services: names, types, quality of service; and states, read when they are needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSPolicyKind, QoSProfile, ReliabilityPolicy, qos_profile_services_default
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.service import Service
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, Rejection, TrajectoryBatch
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate, Retime, Stop

from ..handling.pipeline import Pipeline
from ..handling.rejection import Rejected
from ..wire.controller_state import ControllerStateReader
from ..wire.readers import JointStateReader
from .accounts import Accounts
from .rclpy_features import NO_EVENTS, SubscriptionEventCallbacks, introspection_state, take, with_message_info

try:  # not a part of every installation of ROS 2: without it, nothing is known about the controller
    from control_msgs.msg import JointTrajectoryControllerState
except ImportError:
    JointTrajectoryControllerState = None

SEQUENCE_DEPTH = 10
_SEQUENCES = QoSProfile(depth=SEQUENCE_DEPTH)
"""Queue of sequences. Small, so that with a planner that is too fast, sequences are lost rather than delayed."""
SUPERVISION_PERIOD_S = 0.01
_STATE_DEPTH = 64
"""All joint states at up to 6 kHz are read; of faster ones, only the newest."""
_CALLS = QoSProfile(depth=64)
"""Further service calls are dropped and never answered: the default of 10 is too small for an optimizer that sends many
calls at once.
"""
ROBOT_DESCRIPTION = "robot_description"
_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""As robot_state_publisher publishes it: once, also for late subscribers."""
_OUTPUT_DEPTH = 10
_REJECTIONS_DEPTH = 100
"""A burst that is refused as a whole."""
_INPUTS = {"action_sequence": ActionSequence, "position_trajectory": JointTrajectory}
_SERVICES = {
    "integrate": Integrate,
    "compute_gradient": ComputeGradient,
    "evaluate": Evaluate,
    "stop": Stop,
    "committed": Committed,
    "retime": Retime,
}


class Entities:
    """Publishers, subscriptions and services of a configured node.

    The qualities of service can be overridden by parameters (`qos_overrides`).

    Args:
        node: the node to create them on.
        supervise: called every 10 ms; reads the waiting states with `StateInputs`.
        inputs: called with serialized messages: "action_sequence" and "position_trajectory".
        services: what answers each service.
        description: called with a String, the robot's URDF; None: nobody needs it.

    Raises:
        rclpy.qos_overriding_options.InvalidQosOverridesError, RuntimeError: an invalid override.

    """

    def __init__(
        self,
        node: LifecycleNode,
        supervise: Callable,
        inputs: Mapping[str, Callable],
        services: Mapping[str, Callable],
        description: Callable | None,
    ) -> None:
        self._node = node
        self._events = NO_EVENTS
        self._services: list[Service] = []
        with ExitStack() as self._owned:
            # Publishers first: input may arrive, and be answered, as soon as its subscription exists.
            self.joint_trajectory = self._publisher(JointTrajectory, "~/joint_trajectory")
            self.trajectory_batch = self._publisher(TrajectoryBatch, "~/trajectory_batch")
            self.rejections = self._publisher(Rejection, "~/rejections", _REJECTIONS_DEPTH)
            self.joint_states = self._polled(JointState, "joint_states")
            self.controller_state: Subscription | None = None
            """None where control_msgs cannot be imported."""
            if JointTrajectoryControllerState is not None:
                self.controller_state = self._polled(JointTrajectoryControllerState, "controller_state")
            # A steady clock: a simulation that pauses does not stop the supervision.
            steady = Clock(clock_type=ClockType.STEADY_TIME)
            timer = node.create_timer(SUPERVISION_PERIOD_S, supervise, clock=steady)
            self._owned.callback(node.destroy_timer, timer)
            # Raw: messages that cannot be decoded would be discarded unnoticed, and decoding into objects is slow.
            self._inputs = {
                topic: self._subscription(kind, f"~/{topic}", with_message_info(inputs[topic]), _SEQUENCES, raw=True)
                for topic, kind in _INPUTS.items()
            }
            if description is not None:
                self._subscription(String, ROBOT_DESCRIPTION, description, _LATCHED)
            for name, service_type in _SERVICES.items():
                service = node.create_service(service_type, f"~/{name}", services[name], qos_profile=_CALLS)
                self._owned.callback(node.destroy_service, service)
                self._services.append(service)
            self._owned = self._owned.pop_all()

    def introspect_services(self, events: str) -> None:
        """Publish requests and responses of the services: "disabled", "metadata" or "contents".

        Raises:
            RuntimeError: this ROS 2 has no service introspection, and `events` is not "disabled".

        """
        if events == self._events:
            return
        state = introspection_state(events)
        for service in self._services:
            service.configure_introspection(self._node.get_clock(), qos_profile_services_default, state)
        self._events = events

    def count_publishers(self, topic: str) -> int:
        """How many publishers there are on action_sequence or position_trajectory."""
        return self._node.count_publishers(self._inputs[topic].topic_name)

    def destroy(self) -> None:
        """Remove them all."""
        self._owned.close()

    def _publisher(self, message_type: type, topic: str, depth: int = _OUTPUT_DEPTH) -> Publisher:
        publisher = self._node.create_lifecycle_publisher(
            message_type, topic, QoSProfile(depth=depth), qos_overriding_options=_overridable()
        )
        self._owned.callback(self._node.destroy_lifecycle_publisher, publisher)
        return publisher

    def _polled(self, message_type: type, topic: str) -> Subscription:
        """A subscription for `_waiting`."""
        # Best effort receives from publishers of either kind.
        states = QoSProfile(depth=_STATE_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
        # Waiting for events of a subscription would wake the executor for its messages, too.
        events = SubscriptionEventCallbacks(use_default_callbacks=False)
        return self._subscription(
            message_type, topic, _never_called, states, callback_group=_PolledGroup(), raw=True, event_callbacks=events
        )

    def _subscription(
        self, message_type: type, topic: str, callback: Callable, qos: QoSProfile, **options: object
    ) -> Subscription:
        # A copy, because rclpy writes overrides into the profile.
        profile = QoSProfile(depth=qos.depth, reliability=qos.reliability, durability=qos.durability)
        subscription = self._node.create_subscription(
            message_type, topic, callback, profile, qos_overriding_options=_overridable(), **options
        )
        self._owned.callback(self._node.destroy_subscription, subscription)
        return subscription


class _PolledGroup(MutuallyExclusiveCallbackGroup):
    """Keeps its subscription out of the executor, which would wake up for every message, at 0.3 ms each.

    Joint states and reports of the controller arrive at up to 1 kHz, so they are read when one is needed, and
    periodically.
    """

    def can_execute(self, entity: object) -> bool:
        """Never."""
        return False


def _never_called(message: bytes) -> None:
    """Stand in for the callback that a subscription must have."""


def create_diagnostics_publisher(node: LifecycleNode) -> Publisher:
    """Create the publisher of /diagnostics, which publishes in every lifecycle state."""
    return node.create_publisher(
        DiagnosticArray, "/diagnostics", QoSProfile(depth=_OUTPUT_DEPTH), qos_overriding_options=_overridable()
    )


class StateInputs:
    """Reads what has arrived on joint_states and controller_state, both of which may come at 1 kHz.

    Args:
        entities: with the subscriptions.
        pipeline: takes the states.
        accounts: count and log what is wrong with a message.
        now_ns: reads the node's clock.

    """

    def __init__(self, entities: Entities, pipeline: Pipeline, accounts: Accounts, now_ns: Callable[[], int]) -> None:
        self._entities, self._pipeline, self._accounts, self._now_ns = entities, pipeline, accounts, now_ns
        self._joint_states = JointStateReader()
        self._reports: ControllerStateReader | None = None
        if entities.controller_state is not None:
            self._reports = ControllerStateReader(JointTrajectoryControllerState.get_fields_and_field_types())

    def poll(self) -> None:
        """Read all that has arrived."""
        with self._accounts.guard("joint_states"):
            for message, _ in _waiting(self._entities.joint_states):
                with self._accounts.guard("joint_states"):
                    state = self._joint_states.read(message)
                    self._pipeline.take_joint_state(
                        state.names, state.position, state.velocity, state.stamp_ns, self._now_ns()
                    )
        if self._reports is not None:
            with self._accounts.guard("controller_state"):
                self._poll_reports(self._reports)

    def _poll_reports(self, reader: ControllerStateReader) -> None:
        """Take the newest report that can be taken: it says everything that the ones before it do."""
        waiting = list(_waiting(self._entities.controller_state))
        refused: list[Rejected] = []
        for message, info in reversed(waiting):
            try:
                received, arrived_ns = reader.read(message), self._now_ns() - _age_ns(info)
                report = self._pipeline.controller_reports.report(
                    received.names, *received.reference, received.stamp_ns or arrived_ns, received.speed_scaling
                )
            except Rejected as rejected:
                refused.append(rejected)
                continue
            self._pipeline.take_controller_state(report, arrived_ns)
            break
        for rejected in refused:
            self._accounts.refused("controller_state", rejected)


def _waiting(subscription: Subscription) -> Iterator[tuple[bytes, object]]:
    """Take the messages in a raw subscription's queue and their info, without blocking; at most as many as it holds."""
    for _ in range(_STATE_DEPTH):
        taken = take(subscription)
        if taken is None:
            return
        yield taken


def _age_ns(info: object) -> int:
    """How long ago a message arrived, ns, by its message info; 0 if that does not say."""
    arrived_ns = info.get("received_timestamp") if hasattr(info, "get") else None
    if not isinstance(arrived_ns, int) or arrived_ns <= 0:
        return 0
    return max(0, time.time_ns() - arrived_ns)


def _overridable() -> QoSOverridingOptions:
    return QoSOverridingOptions(
        [QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH, QoSPolicyKind.RELIABILITY, QoSPolicyKind.DURABILITY]
    )

"""The node's topics and services: names, types, quality of service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSPolicyKind, QoSProfile, ReliabilityPolicy, qos_profile_services_default
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, Rejection, TrajectoryBatch
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate, Retime, Stop

from .rclpy_features import NO_EVENTS, SubscriptionEventCallbacks, introspection_state, take, with_message_info

try:  # not a part of every installation of ROS 2: without it, nothing is known about the controller
    from control_msgs.msg import JointTrajectoryControllerState
except ImportError:
    JointTrajectoryControllerState = None

SEQUENCE_DEPTH = 10
"""Queue of sequences. Small, so that with a planner that is too fast, sequences are lost rather than delayed."""
SUPERVISION_PERIOD_S = 0.01
_STATE_DEPTH = 64
"""All joint states at up to 6 kHz are read; of faster ones, only the newest."""
_SERVICE_DEPTH = 64
"""Queue of service calls. Further calls are dropped and never answered: the default of 10 is too small for an optimizer
that sends many calls at once.
"""
ROBOT_DESCRIPTION = "robot_description"
_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""As robot_state_publisher publishes it: once, also for late subscribers."""
_OUTPUT_DEPTH = 10
_REJECTIONS_DEPTH = 100
"""A burst that is refused as a whole."""


class Callbacks(NamedTuple):
    """The functions that are called with input."""

    supervise: Callable
    """Called every 10 ms; reads waiting joint states with `take_waiting`."""
    action_sequence: Callable
    """Called with the serialized message, like the next one."""
    position_trajectory: Callable
    integrate: Callable
    compute_gradient: Callable
    evaluate: Callable
    stop: Callable
    committed: Callable
    retime: Callable
    robot_description: Callable
    """Called with a String, the robot's URDF."""


class Entities:
    """Publishers, subscriptions and services of a configured node.

    The qualities of service can be overridden by parameters (`qos_overrides`).

    Args:
        node: the node to create them on.
        callbacks: the functions that are called with input.
        description: whether to subscribe to the robot's URDF.

    Raises:
        rclpy.qos_overriding_options.InvalidQosOverridesError, RuntimeError: an invalid override.

    """

    def __init__(self, node: LifecycleNode, callbacks: Callbacks, description: bool) -> None:
        self._node = node
        self._publishers: list[Publisher] = []
        self._subscriptions: list[Subscription] = []
        self._inputs: dict[str, Subscription] = {}
        self._services: list = []
        self._events = NO_EVENTS
        self._timer: Timer | None = None
        try:
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
            self._timer = node.create_timer(SUPERVISION_PERIOD_S, callbacks.supervise, clock=steady)
            sequences = QoSProfile(depth=SEQUENCE_DEPTH)
            # Raw: messages that cannot be decoded would be discarded unnoticed, and decoding into objects is slow.
            for message_type, topic, callback in (
                (ActionSequence, "~/action_sequence", callbacks.action_sequence),
                (JointTrajectory, "~/position_trajectory", callbacks.position_trajectory),
            ):
                subscription = self._subscription(message_type, topic, with_message_info(callback), sequences, raw=True)
                self._inputs[topic.removeprefix("~/")] = subscription
            if description:
                self._subscription(String, ROBOT_DESCRIPTION, callbacks.robot_description, _LATCHED)
            calls = QoSProfile(depth=_SERVICE_DEPTH)
            for service, name, callback in (
                (Integrate, "~/integrate", callbacks.integrate),
                (ComputeGradient, "~/compute_gradient", callbacks.compute_gradient),
                (Evaluate, "~/evaluate", callbacks.evaluate),
                (Stop, "~/stop", callbacks.stop),
                (Committed, "~/committed", callbacks.committed),
                (Retime, "~/retime", callbacks.retime),
            ):
                self._services.append(node.create_service(service, name, callback, qos_profile=calls))
        except BaseException:
            self.destroy()
            raise

    @property
    def controller_state_fields(self) -> Mapping[str, str] | None:
        """Type of each field of the controller's reports by name; None where there are none."""
        if self.controller_state is None:
            return None
        return JointTrajectoryControllerState.get_fields_and_field_types()

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
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
            self._timer = None
        for service in self._services:
            self._node.destroy_service(service)
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        for publisher in self._publishers:
            self._node.destroy_lifecycle_publisher(publisher)
        self._services, self._subscriptions, self._publishers = [], [], []

    def _publisher(self, message_type: type, topic: str, depth: int = _OUTPUT_DEPTH) -> Publisher:
        publisher = self._node.create_lifecycle_publisher(
            message_type, topic, QoSProfile(depth=depth), qos_overriding_options=_overridable()
        )
        self._publishers.append(publisher)
        return publisher

    def _polled(self, message_type: type, topic: str) -> Subscription:
        """A subscription for `take_waiting`."""
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
        self._subscriptions.append(subscription)
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


def take_waiting(subscription: Subscription) -> Iterator[tuple[bytes, object]]:
    """Take the messages in a raw subscription's queue and their info, without blocking; at most as many as it holds."""
    for _ in range(_STATE_DEPTH):
        taken = take(subscription)
        if taken is None:
            return
        yield taken


def _overridable() -> QoSOverridingOptions:
    return QoSOverridingOptions(
        [QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH, QoSPolicyKind.RELIABILITY, QoSPolicyKind.DURABILITY]
    )

"""The node's topics and services: names, types, quality of service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Integrate

from .rclpy_features import NO_EVENTS, SubscriptionEventCallbacks, introspection_state, with_message_info
from .take import take

SEQUENCE_DEPTH = 10
"""Queue of sequences. Small, so that with a planner that is too fast, sequences are lost rather than delayed."""
JOINT_STATE_POLL_S = 0.05
_JOINT_STATE_DEPTH = 64
"""All joint states at up to 1.2 kHz are read; of faster ones, only the newest."""
_SERVICE_DEPTH = 64
"""Queue of service calls. Further calls are dropped and never answered: the default of 10 is too small for an optimizer
that sends many calls at once.
"""
ROBOT_DESCRIPTION = "robot_description"
_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""As robot_state_publisher publishes it: once, also for late subscribers."""
_OUTPUT_DEPTH = 10


class Callbacks(NamedTuple):
    """The functions that are called with input."""

    poll_joint_states: Callable
    """Called every 50 ms, to read waiting joint states with `take_waiting`."""
    action_sequence: Callable
    """Called with the serialized message, like the next one."""
    position_trajectory: Callable
    integrate: Callable
    compute_gradient: Callable
    evaluate: Callable
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
            # Best effort receives from publishers of either kind.
            states = QoSProfile(depth=_JOINT_STATE_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
            self.joint_states = self._subscription(
                JointState,
                "joint_states",
                _never_called,
                states,
                callback_group=_PolledGroup(),
                raw=True,
                # Waiting for events of a subscription would wake the executor for its messages, too.
                event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
            )
            steady = Clock(clock_type=ClockType.STEADY_TIME)
            self._timer = node.create_timer(JOINT_STATE_POLL_S, callbacks.poll_joint_states, clock=steady)
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
            ):
                self._services.append(node.create_service(service, name, callback, qos_profile=calls))
        except BaseException:
            self.destroy()
            raise

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

    def _publisher(self, message_type: type, topic: str) -> Publisher:
        publisher = self._node.create_lifecycle_publisher(
            message_type, topic, QoSProfile(depth=_OUTPUT_DEPTH), qos_overriding_options=_overridable()
        )
        self._publishers.append(publisher)
        return publisher

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

    Joint states arrive at up to 1 kHz and only the newest is used, so they are read when one is needed, and
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


def take_waiting(subscription: Subscription) -> Iterator[bytes]:
    """Take the messages in a raw subscription's queue, without blocking; at most as many as the queue holds."""
    for _ in range(_JOINT_STATE_DEPTH):
        taken = take(subscription)
        if taken is None:
            return
        yield taken[0]


def _overridable() -> QoSOverridingOptions:
    return QoSOverridingOptions(
        [QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH, QoSPolicyKind.RELIABILITY, QoSPolicyKind.DURABILITY]
    )

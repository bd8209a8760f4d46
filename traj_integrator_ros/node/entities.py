"""The node's topics and services: names, types and qualities of service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import InvalidHandle
from rclpy.lifecycle import LifecycleNode
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSPolicyKind, QoSProfile, ReliabilityPolicy, qos_profile_services_default
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.service import Service
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, String
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, Rejection, TrajectoryBatch
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate, Retime, Stop

from . import controller_topic
from .rclpy_features import (
    NO_EVENTS,
    answer_waiting,
    create_deferring_service,
    introspection_state,
    no_event_callbacks,
    with_message_info,
)

try:  # some installations of ROS 2 lack it; then nothing is known about the controller
    from control_msgs.msg import JointTrajectoryControllerState
except ImportError:
    JointTrajectoryControllerState = None

SEQUENCE_DEPTH = 10
"""Queue of sequences. Small, so that with a planner that is too fast, sequences are lost rather than delayed."""
SUPERVISION_PERIOD_S = 0.01
RESTING_PERIOD_S, QUIET_PERIOD_S = 0.05, 0.2
"""Periods of supervision while nothing moves and no input comes, and while no joint states arrive either, s: each time
costs 0.8 ms, most of it in rclpy.
"""
STATE_DEPTH = 64
"""Queue of joint states: at up to 6 kHz (1.2 kHz at rest) all are read; of faster ones, only the newest."""
_CALL_DEPTH = 64
"""Queue of service calls; further ones are dropped and never answered: the default of 10 is too small for an optimizer
that sends many calls at once.
"""
ROBOT_DESCRIPTION = "robot_description"
_OUTPUT_DEPTH = 10
_REJECTIONS_DEPTH = 100
"""Queue of rejections: as many as a burst that is refused as a whole."""
_INPUTS = {"action_sequence": ActionSequence, "position_trajectory": JointTrajectory}
_SERVICES = {
    "stop": Stop,  # first, because the executor serves services in this order
    "integrate": Integrate,
    "compute_gradient": ComputeGradient,
    "evaluate": Evaluate,
    "committed": Committed,
    "retime": Retime,
}
_OVERRIDABLE = (QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH, QoSPolicyKind.RELIABILITY, QoSPolicyKind.DURABILITY)


class Entities:
    """Publishers, subscriptions and services of a configured node.

    The qualities of service can be overridden by parameters (`qos_overrides`).

    Args:
        node: the node to create them on.
        answers: has a method for each input by its name, called with serialized messages and their info; and
            `supervise`, called every 10 ms, or at rest less often.
        services: have `serve`, called with the name of a service and as `create_deferring_service` says; and
            `complete`, which it says, too.
        describe: called with a String, the robot's URDF; None: nobody needs it.
        scaling_topic: where a driver tells its speed scaling; empty: nowhere.

    Raises:
        rclpy.qos_overriding_options.InvalidQosOverridesError, RuntimeError: an invalid override.

    """

    def __init__(
        self, node: LifecycleNode, answers: object, services: object, describe: Callable | None, scaling_topic: str
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
            """Subscription to the reports; None if control_msgs cannot be imported."""
            if JointTrajectoryControllerState is not None:
                self.controller_state = self._polled(JointTrajectoryControllerState, controller_topic.TOPIC)
            self.speed_scaling = self._polled(Float64, scaling_topic) if scaling_topic else None
            # A steady clock: a simulation that pauses does not stop the supervision.
            steady = Clock(clock_type=ClockType.STEADY_TIME)
            self._timer = node.create_timer(SUPERVISION_PERIOD_S, answers.supervise, clock=steady)
            self._period_s = SUPERVISION_PERIOD_S
            self._owned.callback(node.destroy_timer, self._timer)
            self._guard = node.create_guard_condition(answers.supervise)
            self._owned.callback(node.destroy_guard_condition, self._guard)
            # Raw: messages that cannot be decoded would be discarded unnoticed, and decoding into objects is slow.
            self._inputs = {
                name: self._subscription(
                    kind,
                    f"~/{name}",
                    with_message_info(getattr(answers, name)),
                    QoSProfile(depth=SEQUENCE_DEPTH),
                    raw=True,
                )
                for name, kind in _INPUTS.items()
            }
            if describe is not None:
                # The QoS of robot_state_publisher: sent once, also to late subscribers.
                latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
                self._subscription(String, ROBOT_DESCRIPTION, describe, latched)
            for name, kind in _SERVICES.items():
                calls = QoSProfile(depth=_CALL_DEPTH)
                serve = partial(services.serve, name)
                service = create_deferring_service(node, kind, f"~/{name}", serve, calls, services.complete)
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

    def answer_stops(self) -> None:
        """Answer the calls of ~/stop that have arrived, before their turn."""
        answer_waiting(self._services[0])

    def count_publishers(self, topic: str) -> int:
        """Number of publishers on action_sequence or position_trajectory."""
        return self._node.count_publishers(self._inputs[topic].topic_name)

    def follow_controller(self) -> str:
        """Subscribe to the reports of the controller that takes the trajectories, unless a remap says where they are.

        Returns their topic, or "none" while nobody publishes them there.
        """
        node, subscription = self._node, self.controller_state
        if subscription is None:
            return controller_topic.NOBODY
        if node.count_publishers(subscription.topic_name):
            return subscription.topic_name
        found = []
        if not controller_topic.is_remapped(node):
            found = controller_topic.reporting_controllers(node, self.joint_trajectory.topic_name)
        if len(found) != 1:
            return controller_topic.NOBODY + f" (several: {', '.join(found)})" * bool(found)
        try:
            self.controller_state = self._polled(JointTrajectoryControllerState, found[0])
        except RuntimeError:  # a policy of SROS 2 may forbid it
            return f"{controller_topic.NOBODY} ({found[0]} cannot be subscribed to)"
        node.destroy_subscription(subscription)
        return found[0]

    def supervise_every(self, period_s: float) -> None:
        """Have `supervise` called after that time, s, and then periodically; from the executor's thread."""
        if period_s == self._period_s:
            return
        self._period_s = period_s
        with suppress(InvalidHandle):  # it was removed
            self._timer.timer_period_ns = round(period_s * 1e9)
            self._timer.reset()

    def wake(self) -> None:
        """Have the executor call `supervise` soon; from any thread."""
        with suppress(InvalidHandle):  # it was removed
            self._guard.trigger()

    def destroy(self) -> None:
        """Remove all entities."""
        self._owned.close()

    def _publisher(self, message_type: type, topic: str, depth: int = _OUTPUT_DEPTH) -> Publisher:
        publisher = self._node.create_lifecycle_publisher(
            message_type, topic, QoSProfile(depth=depth), qos_overriding_options=QoSOverridingOptions(_OVERRIDABLE)
        )
        self._owned.callback(self._node.destroy_lifecycle_publisher, publisher)
        return publisher

    def _polled(self, message_type: type, topic: str) -> Subscription:
        """A subscription whose messages are taken from its queue."""
        # Best effort receives from reliable publishers, too.
        states = QoSProfile(depth=STATE_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
        events = no_event_callbacks()
        return self._subscription(
            message_type, topic, _never_called, states, callback_group=_PolledGroup(), raw=True, event_callbacks=events
        )

    def _subscription(
        self, message_type: type, topic: str, callback: Callable, qos: QoSProfile, **options: object
    ) -> Subscription:
        subscription = self._node.create_subscription(
            message_type, topic, callback, qos, qos_overriding_options=QoSOverridingOptions(_OVERRIDABLE), **options
        )
        self._owned.callback(self._node.destroy_subscription, subscription)
        return subscription


class _PolledGroup(MutuallyExclusiveCallbackGroup):
    """Keeps its subscription out of the executor, which would wake up for every message, at 0.3 ms each.

    Joint states and reports of the controller arrive at up to 1 kHz, so they are read when one is needed, and
    periodically.
    """

    def can_execute(self, entity: object) -> bool:
        """Never ready, so that the executor does not wake up."""
        return False


def _never_called(message: bytes) -> None:
    """Stand in for the callback that rclpy demands of a subscription."""


def take_waiting(subscription: Subscription, most: int) -> Iterator[tuple[Any, dict[str, object]]]:
    """Take messages and their info from a subscription's queue, without blocking; empty if the subscription is gone."""
    for _ in range(most):
        try:
            with subscription.handle:
                taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
        except InvalidHandle:
            return
        if taken is None:
            return
        yield taken


def create_diagnostics_publisher(node: LifecycleNode) -> Publisher:
    """Create the publisher of /diagnostics, which publishes in every lifecycle state."""
    overridable = QoSOverridingOptions(_OVERRIDABLE)
    depth = QoSProfile(depth=_OUTPUT_DEPTH)
    return node.create_publisher(DiagnosticArray, "/diagnostics", depth, qos_overriding_options=overridable)

"""The node's topics and services: names, types and qualities of service."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSPolicyKind, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, String
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, Rejection, TrajectoryBatch
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate, Retime, Stop

from .accounts import Accounts
from .intake import Intake

try:  # Some installations of ROS 2 lack it; then nothing is known about the controller.
    from control_msgs.msg import JointTrajectoryControllerState
except ImportError:
    JointTrajectoryControllerState = None

if TYPE_CHECKING:
    from .topic_handlers import TopicHandlers

SEQUENCE_DEPTH = 100
"""Depth of the middleware's queues of sequences, of which the node keeps the newest (`MOST_SEQUENCES`). It is large,
because Fast DDS 3 never frees a message that it sent again and that is older than all in a full queue.
"""
SUPERVISION_PERIOD_S = 0.01
RESTING_PERIOD_S = 0.05
"""Period of supervision while nothing moves and no input comes, s: each time costs 0.8 ms, most of it in rclpy."""
QUIET_PERIOD_S = 0.5
"""Period of supervision while no joint states arrive either, s: an idle node costs what its wake-ups cost."""
STATE_DEPTH = 64
"""Depth of the queue of joint states: of those faster than 6 kHz (1.2 kHz at rest), only the newest are read."""
CALL_DEPTH = 1000
"""Depth of the middleware's queue of each service, which the node empties every few milliseconds. Calls that are
displaced from it are never answered; rclpy's default is 10.
"""
ROBOT_DESCRIPTION = "robot_description"
_REPORTS = "controller_state"
"""Topic of the controller's reports; the subscriber of trajectories publishes them on `<name>/controller_state`."""
_REPORT = "control_msgs/msg/JointTrajectoryControllerState"
_NOBODY = "none"
"""Name of that topic in diagnostics while no controller publishes reports."""
_OUTPUT_DEPTH = 10
_LOOKS_EVERY_S = 0.5
"""Shortest time between two looks for a controller, s: each takes a fifth of a status on /diagnostics."""
_REJECTIONS_DEPTH = 100
"""Depth of the queue of rejections: a burst of messages may be refused as a whole."""
_INPUTS = {"action_sequence": ActionSequence, "position_trajectory": JointTrajectory}
_SERVICES = {
    "stop": Stop,
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
        accounts: count requests that cannot be decoded.
        handlers: its `turn` is called when something has arrived and every 10 ms (less often at rest); its `supervise`
            is called after `wake`.
        describe: called with the robot's URDF, a String; None if it is not needed.
        scaling_topic: where a driver publishes its speed scaling; empty if nowhere.

    Raises:
        rclpy.qos_overriding_options.InvalidQosOverridesError, RuntimeError: an invalid override.

    """

    def __init__(
        self,
        node: LifecycleNode,
        accounts: Accounts,
        handlers: TopicHandlers,
        describe: Callable | None,
        scaling_topic: str,
    ) -> None:
        self._node = node
        self._looked_s, self._followed = 0.0, _NOBODY
        """When a controller was looked for last, s of the steady clock, and what was found."""
        with ExitStack() as self._owned:
            # Publishers first: input may arrive, and be answered, as soon as its subscription exists.
            # Only the newest counts. With a depth of 1, Fast DDS asks at once whether it has arrived: see `arrived`.
            self.joint_trajectory = self._publisher(JointTrajectory, "~/joint_trajectory", 1)
            self.trajectory_batch = self._publisher(TrajectoryBatch, "~/trajectory_batch")
            self.rejections = self._publisher(Rejection, "~/rejections", _REJECTIONS_DEPTH)
            self.joint_states = self._polled(JointState, "joint_states")
            self.controller_state: Subscription | None = None
            """Subscription to the reports; None if control_msgs cannot be imported."""
            if JointTrajectoryControllerState is not None:
                self.controller_state = self._polled(JointTrajectoryControllerState, _REPORTS)
            self.speed_scaling = self._polled(Float64, scaling_topic) if scaling_topic else None
            # A steady clock: a simulation that pauses does not stop the supervision.
            steady = Clock(clock_type=ClockType.STEADY_TIME)
            self._timer = node.create_timer(SUPERVISION_PERIOD_S, handlers.turn, clock=steady)
            self._period_s = SUPERVISION_PERIOD_S
            self._owned.callback(node.destroy_timer, self._timer)
            self._guard = node.create_guard_condition(handlers.supervise)
            self._owned.callback(node.destroy_guard_condition, self._guard)
            self.intake = Intake(node, accounts, handlers.turn)
            for name, kind in _INPUTS.items():
                # Raw: messages that cannot be decoded would be discarded unnoticed, and decoding into objects is slow.
                subscription = self._polled(kind, f"~/{name}", QoSProfile(depth=SEQUENCE_DEPTH))
                self.intake.add_topic(name, subscription, partial(_publishers, node, subscription.topic_name))
            if describe is not None:
                # The QoS of robot_state_publisher: sent once, also to late subscribers.
                latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
                self._subscription(String, ROBOT_DESCRIPTION, describe, latched)
            for name, kind in _SERVICES.items():
                service = node.create_service(
                    kind, f"~/{name}", never_called, qos_profile=QoSProfile(depth=CALL_DEPTH), callback_group=_Polled()
                )
                self._owned.callback(node.destroy_service, service)
                self.intake.add_service(name, service, at_once=kind is Stop)
            self.intake.open()
            self._owned.callback(self.intake.close)
            self._owned = self._owned.pop_all()

    def follow_controller(self) -> str:
        """Subscribe to the reports of the controller that takes the trajectories; a remap goes before what is found.

        Returns their topic, or "none" while nobody publishes reports.
        """
        if (now_s := time.monotonic()) > self._looked_s + _LOOKS_EVERY_S:
            self._looked_s, self._followed = now_s, self._find_controller()
        return self._followed

    def _find_controller(self) -> str:
        node, subscription = self._node, self.controller_state
        if subscription is None:
            return _NOBODY
        if node.count_publishers(subscription.topic_name):
            return subscription.topic_name
        remapped = node.resolve_topic_name(_REPORTS) != node.resolve_topic_name(_REPORTS, only_expand=True)
        found = [] if remapped else _reporting_controllers(node, self.joint_trajectory.topic_name)
        if len(found) != 1:
            return _NOBODY + f" (several: {', '.join(found)})" * bool(found)
        try:
            self.controller_state = self._polled(JointTrajectoryControllerState, found[0])
        except RuntimeError:  # A policy of SROS 2 may forbid it.
            return f"{_NOBODY} ({found[0]} cannot be subscribed to)"
        node.destroy_subscription(subscription)
        return found[0]

    def supervise_every(self, period_s: float) -> None:
        """Have `turn` called periodically, s; callable from the executor's thread only."""
        if period_s == self._period_s:
            return
        self._period_s = period_s
        with suppress(InvalidHandle):  # it was removed
            self._timer.timer_period_ns = round(period_s * 1e9)
            self._timer.reset()

    def wake(self) -> None:
        """Have the executor call `supervise` soon; callable from any thread."""
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

    def _polled(self, message_type: type, topic: str, qos: QoSProfile | None = None) -> Subscription:
        """Return a subscription whose messages are taken from its queue."""
        options: dict[str, object] = {"callback_group": _Polled(), "raw": True}
        if qos is None:  # Best effort receives from reliable publishers, too, so that no mismatch is possible.
            qos = QoSProfile(depth=STATE_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
            # Waiting for events would wake the executor for messages, too.
            options["event_callbacks"] = SubscriptionEventCallbacks(use_default_callbacks=False)
        return self._subscription(message_type, topic, never_called, qos, **options)

    def _subscription(
        self, message_type: type, topic: str, callback: Callable, qos: QoSProfile, **options: object
    ) -> Subscription:
        subscription = self._node.create_subscription(
            message_type, topic, callback, qos, qos_overriding_options=QoSOverridingOptions(_OVERRIDABLE), **options
        )
        self._owned.callback(self._node.destroy_subscription, subscription)
        return subscription


class _Polled(MutuallyExclusiveCallbackGroup):
    """Keeps the executor from serving a subscription or service, which would cost 0.3 ms for each message.

    Joint states and reports of the controller arrive at up to 1 kHz, so they are read periodically, and when one is
    needed. For the other inputs, the executor waits by `Intake`.
    """

    def can_execute(self, entity: object) -> bool:
        """Return False, so that the executor does not wake up."""
        return False


def never_called(*_: object) -> None:
    """Stand in for the callback that rclpy demands of a subscription, service or action."""


def create_diagnostics_publisher(node: LifecycleNode) -> Publisher:
    """Create the publisher of /diagnostics, which publishes in every lifecycle state."""
    overridable = QoSOverridingOptions(_OVERRIDABLE)
    depth = QoSProfile(depth=_OUTPUT_DEPTH)
    return node.create_publisher(DiagnosticArray, "/diagnostics", depth, qos_overriding_options=overridable)


def _reporting_controllers(node: LifecycleNode, trajectories: str) -> list[str]:
    """Return the topics of reports of all controllers that subscribe to a topic of trajectories."""
    followers = {
        f"{info.node_namespace.rstrip('/')}/{info.node_name}/{_REPORTS}"
        for info in node.get_subscriptions_info_by_topic(trajectories)
    }
    return sorted(
        topic
        for topic in followers
        if any(one.topic_type == _REPORT for one in node.get_publishers_info_by_topic(topic))
    )


def _publishers(node: LifecycleNode, topic: str) -> int:
    """Count the publishers of a topic; 0 once a signal has ended the context, with which nothing can be counted."""
    try:
        return node.count_publishers(topic)
    except rclpy_implementation.RCLError:
        if node.context.ok():
            raise
        return 0

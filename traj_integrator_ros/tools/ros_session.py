"""A ROS node for as long as a tool needs one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from .command_line import ToolFailure, UserError

if TYPE_CHECKING:
    from rclpy.node import Node
    from rclpy.qos import QoSProfile

POLL_S = 0.02
DESCRIPTION = "robot_description"
DESCRIBED_WITHIN_S = 5.0
"""Longest wait, s, for a latched message such as the URDF."""
NO_ROS = "ROS 2 is needed (source its setup file, or make setup and . .venv/environment.sh)"


class RosSession(AbstractContextManager):
    """A node on a context of its own, until the end of a `with` block; it sends and receives only in its methods.

    `ros_arguments` are --ros-args and what follows; `namespace` is the node's unless they give one. Raises UserError
    for wrong ROS arguments, and ToolFailure without ROS 2.
    """

    def __init__(self, name: str, ros_arguments: Sequence[str] = (), namespace: str | None = None) -> None:
        try:
            import rclpy
            from rclpy.context import Context
            from rclpy.executors import SingleThreadedExecutor
            from rclpy.signals import SignalHandlerOptions
        except ImportError as error:
            raise ToolFailure(f"{NO_ROS}: {error}") from None
        self._context, no_signals = Context(), SignalHandlerOptions.NO
        try:
            rclpy.init(args=["tool", *ros_arguments], context=self._context, signal_handler_options=no_signals)
            self.node: Node = rclpy.create_node(name, namespace=namespace, context=self._context)
        except Exception as error:  # rclpy has several errors for wrong arguments.
            raise UserError(f"--ros-args: {_without_places(error)}") from None
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the domain."""
        self._executor.shutdown(timeout_sec=0)
        self.node.destroy_node()
        self._context.try_shutdown()

    def spin_once(self, timeout_s: float) -> None:
        """Handle the next message, if one comes within this time."""
        self._executor.spin_once(timeout_sec=timeout_s)

    def spin_until(self, done: Callable[[], object], timeout_s: float | None) -> bool:
        """Handle messages until `done()`, or until the time is over (None: no limit); returns whether it is done."""
        deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while not done():
            left = deadline - time.monotonic()
            if left < 0:
                return False
            self.spin_once(min(left, POLL_S))
        return True

    def spin(self, duration_s: float) -> None:
        """Handle messages for a while."""
        self.spin_until(lambda: False, duration_s)

    def resolve(self, topic: str) -> str:
        """Return the full name of a topic after remapping."""
        try:
            return self.node.resolve_topic_name(topic)
        except Exception as error:  # rclpy has several errors for wrong names.
            raise UserError(f"topic: expected a valid name, got {topic!r}: {_without_places(error)}") from None

    def robot_description(self) -> tuple[str, str]:
        """Return the robot's URDF from robot_description, empty if nobody publishes it, and the topic."""
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from std_msgs.msg import String

        topic = self.resolve(DESCRIPTION)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        received: list[String] = []
        subscription = self.node.create_subscription(String, topic, received.append, latched)
        self.spin_until(lambda: received or not self.node.count_publishers(topic), DESCRIBED_WITHIN_S)
        self.node.destroy_subscription(subscription)
        return (received[-1].data if received else ""), topic

    def type_of(self, topic: str, known: tuple[str, ...], timeout_s: float) -> str:
        """Wait for a publisher and return the type of the topic, which must be one of these types.

        Raises ToolFailure if nothing publishes in time, UserError if the type is another.
        """
        name = self.resolve(topic)
        if not self.spin_until(lambda: self.node.count_publishers(name) > 0, timeout_s):
            raise ToolFailure(f"no publisher of {name} (waited {timeout_s:g} s); ROS domain or name differ?")
        types = [info.topic_type for info in self.node.get_publishers_info_by_topic(name)]
        found = next((one for one in types if one in known), None)
        if found is None:
            raise UserError(f"topic {name}: expected {' or '.join(known)}, got {', '.join(sorted(set(types)))}")
        return found

    def qos_for(self, topic: str, depth: int = 100) -> QoSProfile:
        """Return a profile that matches the publishers of a topic, with the guarantees that all of them give."""
        from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

        found = [info.qos_profile for info in self.node.get_publishers_info_by_topic(self.resolve(topic))]
        loses = any(profile.reliability is ReliabilityPolicy.BEST_EFFORT for profile in found)
        keeps = found and all(profile.durability is DurabilityPolicy.TRANSIENT_LOCAL for profile in found)
        return QoSProfile(
            depth=depth,
            reliability=ReliabilityPolicy.BEST_EFFORT if loses else ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if keeps else DurabilityPolicy.VOLATILE,
        )


def _without_places(error: Exception) -> str:
    """Return the text of an error of rclpy without the places in source files that it names."""
    return re.sub(r",? at \S+:\d+", "", str(error))

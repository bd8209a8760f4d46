"""What the node says of itself on /diagnostics."""

from __future__ import annotations

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from .records import NodeCounts

_STABLE_FOR = 3
"""Messages in a row with the same counts: nothing is on its way any more."""


class Watch:
    """Listens to the node traj_integrator of this ROS domain; nothing is received outside `spin`."""

    def __init__(self) -> None:
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node("soak")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)
        self.message = ""
        """The latest status in words."""
        self._latest: NodeCounts | None = None
        self._same = 0

    def spin(self, duration_s: float) -> None:
        """Receive for at most so long."""
        self._executor.spin_once(timeout_sec=duration_s)

    def unsettle(self) -> None:
        """From here on, wait anew for counts that do not change."""
        self._same = 0

    def settled(self) -> NodeCounts | None:
        """The node's counts once they have stopped to change; None before."""
        return self._latest if self._same >= _STABLE_FOR else None

    @property
    def counts(self) -> NodeCounts:
        """The latest counts."""
        return self._latest or NodeCounts()

    def close(self) -> None:
        """Leave ROS."""
        self._executor.shutdown(timeout_sec=0)
        self._node.destroy_node()
        rclpy.try_shutdown()

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {item.key: item.value for item in status.values}
            if "lifecycle_state" not in values:
                continue
            self.message = status.message
            counts = NodeCounts.of_values(values)
            self._same = self._same + 1 if counts == self._latest else 0
            self._latest = counts

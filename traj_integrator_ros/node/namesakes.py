"""Other nodes with the same name: ROS lets them run side by side, and each of them answers every sequence."""

from __future__ import annotations

import time

from rclpy.node import Node

_EVERY_S = 1.0
_GONE_AFTER_S = 25.0
"""A killed node remains in the graph until DDS drops it, after 20 s."""


class Namesakes:
    """Counts the other living nodes that have a node's full name.

    Args:
        node: whose name it is.
        gone_after_s: a node counts once it has been in the graph for this time.

    """

    def __init__(self, node: Node, gone_after_s: float = _GONE_AFTER_S) -> None:
        self._node = node
        self._gone_after_s = gone_after_s
        self._name = (node.get_name(), node.get_namespace())
        self._since: float | None = None
        self._next = 0.0
        self._count = 0

    def count(self) -> int:
        """Return their number; the graph is examined once a second."""
        now = time.monotonic()
        if now < self._next:
            return self._count
        self._next = now + _EVERY_S
        others = self._node.get_node_names_and_namespaces().count(self._name) - 1
        if others < 1:
            self._since = None
        elif self._since is None:
            self._since = now
        lasting = self._since is not None and now - self._since >= self._gone_after_s
        self._count = others if lasting else 0
        return self._count

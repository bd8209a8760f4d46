"""`ros2 run traj_integrator_ros monitor`: integrator nodes live in the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..motions.extras import require
from .command_line import ToolFailure, ToolParser, positive, run_tool
from .node_view import RATE_WINDOW_S, NodeView, Rate, is_integrator, one_line, panel
from .ros_session import RosSession

if TYPE_CHECKING:
    from diagnostic_msgs.msg import DiagnosticArray
    from rich.console import Group

NAME = "monitor"
REFRESH_S = 0.25
EXAMPLES = (
    (NAME, "all integrator nodes of this ROS domain, until Ctrl-C"),
    (f"{NAME} --node /left/traj_integrator", "one of them, and the rates of its topics"),
    (f"{NAME} --once", "one line for each, for scripts: fails if there is none"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Watch until Ctrl-C; returns 0, or 1 where no node was heard within the timeout."""
    parser = ToolParser(
        NAME,
        "Shows rates, latency, rejections by reason, device and lifecycle state of integrator nodes, from\n"
        "/diagnostics and their topics. On a terminal it is a live view, else a line for each node every second.",
        EXAMPLES,
        uses_ros=True,
    )
    parser.option("--node", "full name of the node to watch (default: all)", "NAME")
    parser.flag("--once", "print one line for each node and end")
    parser.option("--timeout", "longest wait for a node (default: %(default)s)", "S", positive, 10.0)
    return run_tool(NAME, lambda: _monitor(parser.parse(arguments)))


def _monitor(options: argparse.Namespace) -> int:
    with RosSession(NAME, options.ros_arguments) as session:
        watch = _Watch(session, options.node)
        if not session.spin_until(lambda: watch.views, options.timeout):
            which = f"of {options.node} " if options.node else ""
            heard = f"nothing {which}on /diagnostics within {options.timeout:g} s"
            raise ToolFailure(f"{heard}; ROS domain or name differ?")
        if options.once:
            session.spin(RATE_WINDOW_S)  # rates, and other nodes
            watch.print_lines()
            return 0
        session.spin(REFRESH_S)
        try:
            if sys.stdout.isatty():
                _show_live(session, watch)
            while True:
                session.spin(1.0)
                watch.print_lines()
        except KeyboardInterrupt:
            return 0


def _show_live(session: RosSession, watch: _Watch) -> None:
    require("rich", "the live view (without it: monitor --once, or monitor | cat)")
    from rich.live import Live

    with Live(watch.group(), auto_refresh=False, screen=True) as live:
        while True:
            session.spin(REFRESH_S)
            live.update(watch.group(), refresh=True)


class _Watch:
    """What is heard of the nodes."""

    def __init__(self, session: RosSession, only: str | None) -> None:
        from diagnostic_msgs.msg import DiagnosticArray

        self.views: dict[str, NodeView] = {}
        self._session = session
        self._only = "/" + only.strip("/") if only else None
        session.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)

    def print_lines(self) -> None:
        """Print a line for each node."""
        for view in self.views.values():
            print(one_line(view))
        sys.stdout.flush()

    def group(self) -> Group:
        """All views for the terminal."""
        from rich.console import Group

        return Group(*map(panel, self.views.values()))

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {entry.key: entry.value for entry in status.values}
            name = status.name.partition(":")[0]
            if not is_integrator(values) or self._only not in (None, name):
                continue
            view = self.views.setdefault(name, NodeView(name))
            self._listen(name, view.topics)
            level = status.level[0] if isinstance(status.level, bytes) else status.level
            view.update(values, status.message, level)

    def _listen(self, name: str, rates: dict[str, Rate]) -> None:
        """Count messages on a node's topics, unread; called repeatedly, since topics are discovered gradually.

        Not trajectory_batch, which is published only while it has subscribers: watching must not cause work.
        """
        from rclpy.node import NodeNameNonExistentError
        from rclpy.qos import QoSProfile, ReliabilityPolicy
        from sensor_msgs.msg import JointState
        from trajectory_msgs.msg import JointTrajectory

        from traj_integrator_interfaces.msg import ActionSequence

        node, (namespace, _, base) = self._session.node, name.rpartition("/")
        try:
            inputs = node.get_subscriber_names_and_types_by_node(base, namespace or "/")
            outputs = node.get_publisher_names_and_types_by_node(base, namespace or "/")
        except NodeNameNonExistentError:  # its diagnostics may come before its name is known
            return
        qos = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
        for message_type, found in ((JointState, inputs), (ActionSequence, inputs), (JointTrajectory, outputs)):
            wanted = f"{message_type.__module__.split('.')[0]}/msg/{message_type.__name__}"
            for topic in (topic for topic, types in found if wanted in types and topic not in rates):
                rates[topic] = Rate()
                node.create_subscription(message_type, topic, rates[topic].count, qos, raw=True)


if __name__ == "__main__":
    sys.exit(main())

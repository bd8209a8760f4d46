"""`ros2 run traj_integrator_ros monitor`: a line for each integrator node, once a second."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .command_line import ToolFailure, ToolParser, positive, run_tool
from .ros_session import RosSession

if TYPE_CHECKING:
    from diagnostic_msgs.msg import DiagnosticArray

NAME = "monitor"
EXAMPLES = (
    (NAME, "all integrator nodes of this ROS domain, until Ctrl-C"),
    (f"{NAME} --node /left/traj_integrator", "one of them, and the rates of its topics"),
    (f"{NAME} --once", "one line for each, for scripts: fails if there is none"),
)
LEVELS = {0: "OK", 1: "WARN", 2: "ERROR", 3: "STALE"}
SILENT_AFTER_S = 5.0
"""Time, s, after which a silent node is told to be gone."""
RATE_WINDOW_S = 2.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Watch until Ctrl-C; returns 0, or 1 if no node was heard within the timeout."""
    parser = ToolParser(
        NAME,
        "Prints rates, latency, rejections by reason, device and lifecycle state of integrator nodes, from\n"
        "/diagnostics and their topics: a line for each node every second.",
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
            session.spin(RATE_WINDOW_S)  # Rates, and other nodes.
            watch.print_lines()
            return 0
        try:
            while True:
                session.spin(1.0)
                watch.print_lines()
        except KeyboardInterrupt:
            return 0


class _Watch:
    """Messages heard from the nodes."""

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

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {entry.key: entry.value for entry in status.values}
            name = status.name.partition(":")[0]
            if not is_integrator(values) or self._only not in (None, name):
                continue
            view = self.views.setdefault(name, NodeView(name))
            self._listen(name, view.topics)
            view.update(values, status.message, status.level[0])

    def _listen(self, name: str, rates: dict[str, Rate]) -> None:
        """Count messages on a node's topics without reading them; called repeatedly, as topics are discovered.

        trajectory_batch is left out: it is computed only while it has subscribers, and watching must not cause work.
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
        except NodeNameNonExistentError:  # Its diagnostics may come before its name is known.
            return
        qos = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
        for message_type, found in ((JointState, inputs), (ActionSequence, inputs), (JointTrajectory, outputs)):
            wanted = f"{message_type.__module__.split('.')[0]}/msg/{message_type.__name__}"
            for topic in (topic for topic, types in found if wanted in types and topic not in rates):
                rates[topic] = Rate()
                node.create_subscription(message_type, topic, rates[topic].count, qos, raw=True)


class Rate:
    """Counts messages per second."""

    def __init__(self) -> None:
        self._counts: list[tuple[float, int]] = [(time.monotonic(), 0)]
        self._total = 0

    def count(self, message: bytes) -> None:
        """Count one message."""
        self._total += 1

    def per_second(self) -> float:
        """Return the rate over about RATE_WINDOW_S."""
        now = time.monotonic()
        self._counts.append((now, self._total))
        while len(self._counts) > 2 and now - self._counts[1][0] > RATE_WINDOW_S:
            self._counts.pop(0)
        since, before = self._counts[0]
        return (self._total - before) / max(now - since, 1e-3)


@dataclass
class NodeView:
    """One integrator node: its latest status, and the rates of messages on its topics."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    level: int = 0
    received_at: float = 0.0
    topics: dict[str, Rate] = field(default_factory=dict)

    def update(self, values: Mapping[str, str], message: str, level: int) -> None:
        """Take a status."""
        self.values, self.message, self.level, self.received_at = dict(values), message, level, time.monotonic()


def is_integrator(values: Mapping[str, str]) -> bool:
    """Return whether a status on /diagnostics is one of this package's node."""
    return {"lifecycle_state", "backend", "sequences", "published"} <= values.keys()


def one_line(view: NodeView) -> str:
    """Format a view as one line of plain text."""
    values, level, silent_s = view.values, LEVELS.get(view.level, "?"), time.monotonic() - view.received_at
    if silent_s > SILENT_AFTER_S:
        level = f"silent for {silent_s:.0f} s"
    why = f" ({view.message})" if view.level else ""
    rates = " ".join(f"{topic}={rate.per_second():.0f}/s" for topic, rate in view.topics.items())
    counts = [(int(count), key.partition(".")[2]) for key, count in values.items() if key.startswith("rejected.")]
    rejected = " ".join(f"{reason}={n}" for n, reason in sorted(counts, key=lambda one: -one[0]) if n) or "none"
    p50, p99, service_p50, service_p99 = (
        _measured(values[f"{kind}_latency_{share}_ms"], "ms")
        for kind in ("sequence", "service")
        for share in ("p50", "p99")
    )
    return (
        f"{view.name} {level}{why} {values['lifecycle_state']} device={values['device']} backend={values['backend']} "
        f"sequences={values['sequences']} published={values['published']} p50={p50} p99={p99} "
        f"service_calls={values['service_calls']} service_p50={service_p50} service_p99={service_p99} "
        f"state_age={_measured(values['state_age_s'], 's')} {rates} rejected: {rejected}"
    )


def _measured(value: str, unit: str) -> str:
    """Format a value of the diagnostics with its unit, or "none" before the first measurement."""
    return value if value == "none" else f"{value}{unit}"


if __name__ == "__main__":
    sys.exit(main())

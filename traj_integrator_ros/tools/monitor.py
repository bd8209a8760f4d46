"""`ros2 run traj_integrator_ros monitor`: a live view of integrator nodes in the terminal."""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..motions.extras import require
from .command_line import ToolFailure, ToolParser, positive, run_tool
from .ros_session import RosSession

if TYPE_CHECKING:
    from diagnostic_msgs.msg import DiagnosticArray
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table

NAME = "monitor"
REFRESH_S = 0.25
EXAMPLES = (
    (NAME, "all integrator nodes of this ROS domain, until Ctrl-C"),
    (f"{NAME} --node /left/traj_integrator", "one of them, and the rates of its topics"),
    (f"{NAME} --once", "one line for each, for scripts: fails if there is none"),
)
LEVELS = {0: ("OK", "green"), 1: ("WARN", "yellow"), 2: ("ERROR", "red"), 3: ("STALE", "magenta")}
SILENT_AFTER_S = 5.0
"""Time, s, after which a silent node is shown as gone."""
RATE_WINDOW_S = 2.0
HISTORY = 60
BARS = "▁▂▃▄▅▆▇█"
COUNTED = {"sequences": "received", "published": "answered", "service_calls": "service calls", "rejected": "rejected"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Watch until Ctrl-C; returns 0, or 1 if no node was heard within the timeout."""
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
            session.spin(RATE_WINDOW_S)  # Rates, and other nodes.
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

    def group(self) -> Group:
        """Return the views of all nodes for the terminal."""
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
    """One integrator node: its latest status, the previous one, and a history of its latency."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    level: int = 0
    received_at: float = 0.0
    rates: dict[str, float] = field(default_factory=dict)
    """Counts per second between the last two statuses."""
    topics: dict[str, Rate] = field(default_factory=dict)
    """Rates of messages on its topics."""
    latencies_ms: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def update(self, values: Mapping[str, str], message: str, level: int, now: float | None = None) -> None:
        """Take a status; `now` is monotonic time, s."""
        now = time.monotonic() if now is None else now
        passed = now - self.received_at
        if self.values and passed > 0:
            self.rates = {
                key: max(0, int(value) - int(self.values.get(key, value))) / passed
                for key, value in values.items()
                if value.isdecimal()
            }
        self.values, self.message, self.level, self.received_at = dict(values), message, level, now
        if values.get("sequence_latency_p99_ms", "none") != "none":
            self.latencies_ms.append(float(values["sequence_latency_p99_ms"]))

    def silent_for(self) -> float:
        """Return the time since the last status, s."""
        return time.monotonic() - self.received_at

    def counts(self, kind: str) -> dict[str, int]:
        """Return the counts above 0 by reason, the largest first; `kind` is "rejected" or "warned"."""
        prefix = f"{kind}."
        found = {key[len(prefix) :]: int(value) for key, value in self.values.items() if key.startswith(prefix)}
        return dict(sorted(((reason, n) for reason, n in found.items() if n), key=lambda item: -item[1]))

    def latencies(self, kind: str) -> tuple[str, str]:
        """Return median and 99th percentile of the latency, ms; `kind` is "sequence" or "service"."""
        return self.values[f"{kind}_latency_p50_ms"], self.values[f"{kind}_latency_p99_ms"]


def is_integrator(values: Mapping[str, str]) -> bool:
    """Return whether a status on /diagnostics is one of this package's node."""
    return {"lifecycle_state", "backend", "sequences", "published"} <= values.keys()


def one_line(view: NodeView) -> str:
    """Format a view as one line of plain text."""
    values, level = view.values, LEVELS.get(view.level, ("?", ""))[0]
    why = f" ({view.message})" if view.level else ""
    rates = " ".join(f"{topic}={rate.per_second():.0f}/s" for topic, rate in view.topics.items())
    rejected = " ".join(f"{reason}={n}" for reason, n in view.counts("rejected").items()) or "none"
    p50, p99 = (_measured(value, "ms") for value in view.latencies("sequence"))
    service_p50, service_p99 = (_measured(value, "ms") for value in view.latencies("service"))
    return (
        f"{view.name} {level}{why} {values['lifecycle_state']} device={values['device']} backend={values['backend']} "
        f"sequences={values['sequences']} published={values['published']} p50={p50} p99={p99} "
        f"service_calls={values['service_calls']} service_p50={service_p50} service_p99={service_p99} "
        f"state_age={_measured(values['state_age_s'], 's')} {rates} rejected: {rejected}"
    )


def panel(view: NodeView) -> Panel:
    """Format a view as a panel for the terminal."""
    from rich.columns import Columns
    from rich.panel import Panel
    from rich.text import Text

    values, age = view.values, view.values["state_age_s"]
    label, color = LEVELS.get(view.level, ("?", "white"))
    silent = view.silent_for()
    if silent > SILENT_AFTER_S:
        label, color = f"silent for {silent:.0f} s", "red"
    node = [
        ("device", values["device"]),
        ("backend", values["backend"]),
        ("joint state", "none yet" if age == "none" else f"{1e3 * float(age):.0f} ms old"),
    ]
    for kind in ("sequence", "service"):
        p50, p99 = view.latencies(kind)
        node.append((f"{kind} latency", "none yet" if p50 == "none" else f"p50 {p50} ms, p99 {p99} ms"))
    node.append(("p99 over time", bars(view.latencies_ms)))
    rates = [(topic, f"{rate.per_second():.1f}", "") for topic, rate in view.topics.items()]
    for key, name in COUNTED.items():
        rates.append((name, f"{view.rates[key]:.1f}" if key in view.rates else "", values.get(key, "")))
    reasons = [(f"[red]{reason}[/]", str(n)) for reason, n in view.counts("rejected").items()]
    for reason, n in view.counts("warned").items():
        reasons.append((f"[yellow]{reason}[/] (published nevertheless)", str(n)))
    tables = [
        _table(("node", ""), node),
        _table(("rate", "1/s", "total"), rates),
        _table(("rejected because", "count"), reasons or [("[green]nothing[/]", "")]),
    ]
    title = Text.assemble((view.name, "bold"), "  ", (values["lifecycle_state"], "bold"), "  ", (label, color))
    shown = Columns(tables, padding=(0, 4))
    return Panel(shown, title=title, title_align="left", subtitle=view.message, border_style=color)


def bars(values: deque[float]) -> str:
    """Format a history as small bars, the highest of which is the largest value."""
    top = max(values, default=0.0)
    if top <= 0:
        return ""
    return "".join(BARS[min(len(BARS) - 1, int(value / top * len(BARS)))] for value in values)


def _measured(value: str, unit: str) -> str:
    """Format a value of the diagnostics with its unit, or "none" before the first measurement."""
    return value if value == "none" else f"{value}{unit}"


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number and head else "left")
    for row in rows:
        table.add_row(*row)
    return table


if __name__ == "__main__":
    sys.exit(main())

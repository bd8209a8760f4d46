"""The measurements of a soak: clients' rows by second, the node's own counts, its memory. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from traj_integrator_ros.traffic.ledger import NodeCounts

FAULTS_KEPT = 100


@dataclass
class ClientRecord:
    """The sum of one client's rows; latencies with the second, since the beginning, in which they were reported."""

    counts: dict[str, int] = field(default_factory=dict)
    sending_s: float = 0.0
    """Time during which it sent, s."""
    peaks: dict[str, float] = field(default_factory=dict)
    """Largest values that it has measured."""
    open: int = 0
    """Number of unanswered messages in the last row."""
    faults: list[str] = field(default_factory=list)
    """The first faults."""
    fault_count: int = 0
    latency_rows: list[tuple[float, np.ndarray]] = field(default_factory=list)

    def add(self, row: dict, at_s: float) -> None:
        """Add a row that came `at_s` after the beginning."""
        for name, value in row.items():
            if name == "latencies_ms":
                self.latency_rows.append((at_s, np.array(value, np.float32)))
            elif name == "peaks":
                for what, peak in value.items():
                    self.peaks[what] = max(peak, self.peaks.get(what, 0.0))
            elif name == "faults":
                self.fault_count += len(value)
                self.faults += value[: max(0, FAULTS_KEPT - len(self.faults))]
            elif name == "open":
                self.open = value
            elif name == "sending_s":
                self.sending_s += value
            else:
                self.counts[name] = self.counts.get(name, 0) + value

    @property
    def rate_hz(self) -> float:
        """Messages or calls sent in a second; NaN if none were."""
        sent = self.counts.get("sent", 0) + self.counts.get("called", 0)
        return sent / self.sending_s if self.sending_s else np.nan

    def latencies_ms(self, begin_s: float = 0.0, end_s: float = np.inf) -> np.ndarray:
        """All latencies reported from `begin_s` until `end_s`."""
        chosen = [values for at_s, values in self.latency_rows if begin_s <= at_s < end_s]
        return np.concatenate(chosen) if chosen else np.zeros(0, np.float32)


@dataclass(frozen=True)
class NodeSample:
    """The node's process at a time since the beginning, s: bytes, and CPU time since its start, s."""

    at_s: float
    resident: int
    anonymous: int
    shared: int
    cpu_s: float
    machine_cpu_s: float = 0.0
    """CPU time that all processes of the machine have used since its start, s."""


@dataclass
class Record:
    """One soak, as it was measured."""

    warmup_s: float
    """Before the time that counts for memory and latency."""
    duration_s: float
    """Of that time."""
    rates_hz: dict[str, float]
    """Requested rates by client."""
    chunks: bool = False
    """Whether the planner is a policy that streams chunks, and the robot executes the node's trajectories."""
    clients: dict[str, ClientRecord] = field(default_factory=dict)
    counts: NodeCounts = field(default_factory=NodeCounts)
    """The node's, since the beginning."""
    samples: list[NodeSample] = field(default_factory=list)
    exit_code: int = 0
    """The node's, at the end."""
    end: str = ""
    """Why the soak ended early; "" if it did not."""

    @property
    def window_s(self) -> float:
        """Length of the first and the last window, which are compared: a minute, or half of a shorter time."""
        return min(60.0, self.duration_s / 2)

    @property
    def windows(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """First and last window, s since the beginning."""
        end_s = self.warmup_s + self.duration_s
        return (self.warmup_s, self.warmup_s + self.window_s), (end_s - self.window_s, end_s)

    def busy_cores(self) -> tuple[float, float]:
        """Cores that all processes of the machine kept busy in the first and in the last window; NaN without any."""
        busy = []
        for begin_s, end_s in self.windows:
            inside = [sample for sample in self.samples if begin_s <= sample.at_s < end_s]
            used_s = inside[-1].machine_cpu_s - inside[0].machine_cpu_s if inside else np.nan
            busy.append(used_s / (inside[-1].at_s - inside[0].at_s) if len(inside) > 1 else np.nan)
        return tuple(busy)

    def p99_ms(self, client: str) -> tuple[float, float]:
        """99th percentile of a client's latencies in the first and in the last window; NaN without any."""
        first, last = (self.clients[client].latencies_ms(*window) for window in self.windows)
        return tuple(float(np.percentile(values, 99)) if values.size else np.nan for values in (first, last))

    def resident_mib(self) -> tuple[float, float]:
        """Median of the node's resident memory in the first and in the last window; NaN without any."""
        medians = []
        for begin_s, end_s in self.windows:
            values = [sample.resident for sample in self.samples if begin_s <= sample.at_s < end_s]
            medians.append(float(np.median(values)) / 2**20 if values else np.nan)
        return tuple(medians)

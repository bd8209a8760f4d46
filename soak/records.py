"""The measurements of a soak: counts of clients, the node's own counts, and its memory; without ROS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kit.ledger import NodeCounts
from kit.node_process import NodeProcess

Ends = tuple[float, float]
"""A figure of the first and of the last window."""


@dataclass
class ClientRecord:
    """Latest counts of a client, and its latencies, each with the second in which it was reported."""

    counts: dict[str, int] = field(default_factory=dict)
    sending_s: float = 0.0
    """Time during which the client sent, s."""
    faults: dict[str, int] = field(default_factory=dict)
    """Faults and their counts."""
    latency_rows: list[tuple[float, np.ndarray]] = field(default_factory=list)

    def add_latencies(self, new_s: Sequence[float], at_s: float) -> None:
        """Take latencies of the last second, `at_s` after the beginning."""
        if new_s:
            self.latency_rows.append((at_s, 1e3 * np.array(new_s, np.float32)))

    @property
    def rate_hz(self) -> float:
        """Messages or calls sent in a second; NaN if none were."""
        sent = self.counts.get("sent", 0) + self.counts.get("called", 0)
        return sent / self.sending_s if self.sending_s else np.nan


class NodeSample(NamedTuple):
    """The node's process at a time since the beginning, s: bytes in memory, and CPU time since its start, s."""

    at_s: float
    resident: int
    cpu_s: float


def sample_node(node: NodeProcess, at_s: float) -> NodeSample:
    """Memory and CPU time of the node. Raises OSError if it has ended."""
    return NodeSample(at_s, node.memory_bytes("VmRSS"), node.cpu_s())


@dataclass
class Record:
    """The measurements of one soak."""

    warmup_s: float
    """Duration of the warm-up, s, which does not count for memory and latency."""
    duration_s: float
    """Duration after the warm-up, s."""
    rates_hz: dict[str, float]
    """Requested rates by client."""
    clients: dict[str, ClientRecord] = field(default_factory=dict)
    counts: NodeCounts = field(default_factory=NodeCounts)
    """The node's counts since the beginning."""
    samples: list[NodeSample] = field(default_factory=list)
    exit_code: int = 0
    """The node's exit code."""
    stops_s: list[float] = field(default_factory=list)
    """Times from calls of ~/stop under load until their answers were sent, s; infinite where none came."""
    load: float = 1.0
    """Rates as multiples of the usual ones."""
    beside: bool = False
    """True if another process kept the node's core busy."""
    priority: bool = False
    """True if the node went before processes of ordinary priority."""
    end: str = ""
    """Why the soak ended early; "" if it did not."""

    @property
    def is_overloaded(self) -> bool:
        """Return whether there are too few cores for the load, so that rates and latencies are not judged."""
        return self.load > 1 or self.beside

    @property
    def window_s(self) -> float:
        """Length of the first and the last window, which are compared: a minute, or half of a shorter time."""
        return min(60.0, self.duration_s / 2)

    @property
    def windows(self) -> tuple[Ends, Ends]:
        """First and last window, s since the beginning."""
        end_s = self.warmup_s + self.duration_s
        return (self.warmup_s, self.warmup_s + self.window_s), (end_s - self.window_s, end_s)

    def node_cores(self) -> float:
        """Cores that the node kept busy; NaN without any samples."""
        if len(self.samples) < 2:
            return np.nan
        first, last = self.samples[0], self.samples[-1]
        return (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s)

    def latencies_ms(self, client: str) -> np.ndarray:
        """All latencies of a client after the warm-up."""
        return _together([row for row in self.clients[client].latency_rows if row[0] >= self.warmup_s])

    def p99_ms(self, client: str) -> Ends:
        """99th percentile of a client's latencies in the first and in the last window; NaN without any."""
        rows = self.clients[client].latency_rows
        return self._ends(rows, lambda rows: np.percentile(_together(rows), 99))

    def resident_mib(self) -> Ends:
        """Median of the node's resident memory in the first and in the last window; NaN without any."""
        return self._ends(self.samples, lambda rows: np.median([row.resident for row in rows]) / 2**20)

    def _ends(self, rows: Sequence, figure: Callable[[list], float]) -> Ends:
        """A figure of the rows, which begin with their time, in the first and in the last window."""
        chosen = ([row for row in rows if begin_s <= row[0] < end_s] for begin_s, end_s in self.windows)
        return tuple(float(figure(rows)) if rows else np.nan for rows in chosen)


def _together(rows: list[tuple[float, np.ndarray]]) -> np.ndarray:
    return np.concatenate([values for _, values in rows]) if rows else np.zeros(0, np.float32)

"""The measurements of a soak: of its clients, the node's own counts, and its memory; without ROS."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

Ends = tuple[float, float]
"""A figure of the first and of the last window."""


class Client:
    """What is measured of a client since the last `reset`; times are of one clock, s.

    Args:
        counts: names of what it counts; "sent", "answered" and "unknown" are counted here.

    """

    def __init__(self, *counts: str) -> None:
        self._names = counts
        self.reset()

    def reset(self) -> None:
        """Begin anew: nothing is on its way any more."""
        self.counts, self.faults = Counter(dict.fromkeys(self._names, 0)), Counter()
        """Counts, and faults in words with their counts."""
        self.at_s = 0.0
        """Time during which the client has sent, s."""
        self._open: dict[int, tuple[object, float]] = {}
        self._at_s, self._took_s = array("f"), array("f")

    @property
    def open(self) -> int:
        """Number of answers that are still expected."""
        return len(self._open)

    @property
    def rate_hz(self) -> float:
        """Messages or calls sent in a second; NaN if none were."""
        return self.counts["sent"] / self.at_s if self.at_s else np.nan

    def send(self, key: int, about: object, now_s: float) -> None:
        """Record a message that is about to be sent; its key is its own."""
        self._open[key] = about, now_s
        self.counts["sent"] += 1

    def answer(self, key: int, now_s: float) -> object | None:
        """Record an answer and return what it is about; None (and counted) if it is unknown or came before."""
        if key not in self._open:
            self.counts["unknown"] += 1
            return None
        about, sent_s = self._open.pop(key)
        self.counts["answered"] += 1
        self.take(now_s - sent_s)
        return about

    def take(self, *took_s: float) -> None:
        """Record latencies."""
        self._took_s.extend(took_s)
        self._at_s.extend([self.at_s] * len(took_s))

    def latencies_ms(self, begin_s: float, end_s: float = np.inf) -> np.ndarray:
        """Latencies recorded between two times since the beginning."""
        at_s = np.asarray(self._at_s)
        return 1e3 * np.asarray(self._took_s)[(begin_s <= at_s) & (at_s < end_s)]


@dataclass(frozen=True)
class NodeCounts:
    """Counts of the node since its start, from /diagnostics."""

    sequences: int = 0
    published: int = 0
    service_calls: int = 0
    rejected: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)
    brakes: int = 0
    """Trajectories that answer no sequence: the node had to stop the robot."""
    batches: int = 0
    """Sequences that were answered by a batch, whatever happened to the row for the robot."""

    @classmethod
    def of_values(cls, values: Mapping[str, str]) -> NodeCounts:
        """The counts among the values of a diagnostic status."""
        reasons = {key.partition(".")[2]: int(value) for key, value in values.items() if key.startswith("rejected.")}
        names = ("sequences", "published", "service_calls", "rejected")
        others = (int(values.get(name, 0)) for name in ("supervision_brakes", "batches_published"))
        return cls(*(int(values[name]) for name in names), reasons, *others)

    @property
    def batches_alone(self) -> int:
        """Sequences whose batch was published, but whose row was refused for the robot."""
        return max(self.batches - self.published, 0)

    @property
    def refused(self) -> int:
        """Sequences that the node received and did not answer at all."""
        return self.sequences - self.published - self.batches_alone

    def since(self, before: NodeCounts) -> NodeCounts:
        """The counts since `before`."""
        reasons = Counter(self.by_reason)
        reasons.subtract(before.by_reason)
        numbers = {name: value - getattr(before, name) for name, value in vars(self).items() if isinstance(value, int)}
        return NodeCounts(**numbers, by_reason={reason: count for reason, count in sorted(reasons.items()) if count})


class NodeSample(NamedTuple):
    """The node's process at a time since the beginning, s: bytes in memory, and CPU time since its start, s."""

    at_s: float
    resident: int
    cpu_s: float


@dataclass
class Record:
    """The measurements of one soak."""

    warmup_s: float
    """Duration of the warm-up, s, which does not count for memory and latency."""
    duration_s: float
    """Duration after the warm-up, s."""
    rates_hz: dict[str, float]
    """Requested rates by client."""
    clients: dict[str, Client] = field(default_factory=dict)
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

    def node_cores(self) -> float:
        """Cores that the node kept busy; NaN without any samples."""
        if len(self.samples) < 2:
            return np.nan
        first, last = self.samples[0], self.samples[-1]
        return (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s)

    def latencies_ms(self, client: str) -> np.ndarray:
        """All latencies of a client after the warm-up."""
        return self.clients[client].latencies_ms(self.warmup_s)

    def p99_ms(self, client: str) -> Ends:
        """99th percentile of a client's latencies in the first and in the last window; NaN without any."""
        return self._ends(self.clients[client].latencies_ms, lambda values: np.percentile(values, 99))

    def resident_mib(self) -> Ends:
        """Median of the node's resident memory in the first and in the last window; NaN without any."""

        def within(begin_s: float, end_s: float) -> np.ndarray:
            return np.array([one.resident / 2**20 for one in self.samples if begin_s <= one.at_s < end_s])

        return self._ends(within, np.median)

    def _ends(self, within: Callable[[float, float], np.ndarray], figure: Callable[[np.ndarray], float]) -> Ends:
        """A figure of the values in the first and in the last window."""
        begins_s = self.warmup_s, self.warmup_s + self.duration_s - self.window_s
        values = (within(begin_s, begin_s + self.window_s) for begin_s in begins_s)
        return tuple(float(figure(chosen)) if len(chosen) else np.nan for chosen in values)

"""Counts of what was sent and answered, and the node's own counts; without ROS."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

About = TypeVar("About")


class Ledger(Generic[About]):
    """Sequences that were sent, by their stamps; every stamp is unique. Times are of one clock, s.

    One thread may send and read while another one answers.
    """

    def __init__(self) -> None:
        self._open: dict[int, tuple[About, float]] = {}
        self._latencies_s: deque[float] = deque()
        self.sent = self.answered = 0
        """Numbers of messages sent and answered so far."""
        self.unknown_answers = 0
        """Answers to messages that we did not send, or that had been answered before."""

    @property
    def open(self) -> int:
        """Number of answers that are still expected."""
        return len(self._open)

    def send(self, stamp: int, about: About, now_s: float) -> None:
        """Record a message that is about to be sent."""
        self._open[stamp] = about, now_s
        self.sent += 1

    def answer(self, stamp: int, now_s: float) -> About | None:
        """Record an answer and return its message; None (and counted) if it is unknown or was answered before."""
        if stamp not in self._open:
            self.unknown_answers += 1
            return None
        about, sent_s = self._open.pop(stamp)
        self._latencies_s.append(now_s - sent_s)
        self.answered += 1
        return about

    def new_latencies_s(self) -> list[float]:
        """Times from sending to answer, for answers since the last call."""
        return [self._latencies_s.popleft() for _ in range(len(self._latencies_s))]


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

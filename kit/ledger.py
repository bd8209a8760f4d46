"""Keeps count of everything sent: answered, rejected, sent while the node was down, or lost; and of what the node
counts itself. Knows no ROS.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

SEEN_WITHIN_S = 2.0
"""Most time between the moments when a restarted node discovers us and when we discover it, s."""
_LATEST = 500
About = TypeVar("About")


@dataclass
class Sent(Generic[About]):
    """One message: what it was about, when it was sent, s, and how long the answer took, s."""

    about: About
    at_s: float
    answer_expected: bool = True
    latency_s: float | None = None


@dataclass(frozen=True)
class Balance:
    """The outcomes of all messages; sent = answered + rejected + node_down + lost + missed."""

    sent: int
    answered: int
    rejected: int
    node_down: int
    lost: int
    missed: int = 0
    """Answers that were lost on their way to us."""


class Ledger(Generic[About]):
    """What was sent, by its stamp; every stamp is unique. Times are of one clock. Safe to use from several threads."""

    def __init__(self) -> None:
        self._sent: dict[int, Sent[About]] = {}
        self._forgotten = 0
        self.answered = 0
        """How many were answered so far."""
        self.open = 0
        """How many answers are still expected."""
        self.unknown_answers = 0
        """Answers to no message of ours, or to one that was answered before."""
        self._latencies_s: list[float] = []
        self._restarts: list[float] = []
        self._lock = threading.Lock()

    def send(self, stamp: int, about: About, now_s: float, answer_expected: bool = True) -> None:
        """Record a message that is about to be sent; no answer is expected if it has to be rejected."""
        with self._lock:
            self._sent[stamp] = Sent(about, now_s, answer_expected)
            self.open += answer_expected

    def answer(self, stamp: int, now_s: float) -> About | None:
        """Record an answer and return what it is about; None (and counted) if it is unknown or was answered before."""
        with self._lock:
            sent = self._sent.get(stamp)
            if sent is None or sent.latency_s is not None:
                self.unknown_answers += 1
                return None
            sent.latency_s = now_s - sent.at_s
            self._latencies_s.append(sent.latency_s)
            self.answered += 1
            self.open -= sent.answer_expected
            return sent.about

    def restarted(self, now_s: float) -> None:
        """Record that a new node was discovered: it cannot answer messages that were sent before."""
        with self._lock:
            self._restarts.append(now_s)

    def in_flight(self, now_s: float, within_s: float = 2.0) -> int:
        """Number of unanswered messages that were sent within this time; older ones are not waited for."""
        with self._lock:
            recent = list(itertools.islice(reversed(self._sent.values()), _LATEST))
        return sum(s.answer_expected and s.latency_s is None and now_s - s.at_s < within_s for s in recent)

    @property
    def sent(self) -> int:
        """How many were sent so far."""
        return self._forgotten + len(self._sent)

    def latencies_s(self, after_first_s: float = 0.0) -> list[float]:
        """Time from sending to the answer of everything answered, or answered since `forget_answered`.

        Without messages sent within a time after the first one that is kept.
        """
        with self._lock:
            if after_first_s <= 0:
                return list(self._latencies_s)
            sent = list(self._sent.values())
        return [s.latency_s for s in sent if s.latency_s is not None and s.at_s >= sent[0].at_s + after_first_s]

    def forget_answered(self) -> list[float]:
        """Keep the counts only of what has been answered, so that memory does not grow; returns its latencies, s."""
        with self._lock:
            latencies, self._latencies_s = self._latencies_s, []
            left = {stamp: sent for stamp, sent in self._sent.items() if sent.latency_s is None}
            self._forgotten += len(self._sent) - len(left)
            self._sent = left
            return latencies

    def balance(self, refused: int) -> Balance:
        """The outcomes of all messages, given the number of sequences that the node says it rejected."""
        with self._lock:
            sent = list(self._sent.values())
            down = len({id(s) for restart in self._restarts for s in _sent_without_node(sent, restart)})
        unanswered = sum(s.latency_s is None for s in sent)
        left = unanswered - down
        rejected = min(left, refused)
        return Balance(self.sent, self.sent - unanswered, rejected, down, left - rejected)


def _sent_without_node(sent: list[Sent], restart_s: float) -> list[Sent]:
    """The unbroken runs of unanswered messages that lead up to a restart, or end around it."""
    runs = [list(run) for _, run in itertools.groupby(sent, key=lambda s: s.latency_s is None)]
    found = []
    for run, following in itertools.zip_longest(runs, runs[1:]):
        silent_until_s = following[0].at_s if following else restart_s
        begins_before = run[0].at_s <= restart_s + SEEN_WITHIN_S
        if run[0].latency_s is None and begins_before and silent_until_s >= restart_s - SEEN_WITHIN_S:
            found += run
    return found


@dataclass(frozen=True)
class NodeCounts:
    """What the node has counted since its start, from /diagnostics."""

    sequences: int = 0
    published: int = 0
    service_calls: int = 0
    rejected: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)
    brakes: int = 0
    """Trajectories that answer no sequence: the node had to stop the robot."""
    batches: int = 0
    """Sequences that were answered by a batch, whatever became of the row for the robot."""

    @classmethod
    def of_values(cls, values: Mapping[str, str]) -> NodeCounts:
        """The counts among the values of a diagnostic status."""
        reasons = {key.partition(".")[2]: int(value) for key, value in values.items() if key.startswith("rejected.")}
        names = ("sequences", "published", "service_calls", "rejected")
        others = (int(values.get(name, 0)) for name in ("supervision_brakes", "batches_published"))
        return cls(*(int(values[name]) for name in names), reasons, *others)

    @property
    def batches_alone(self) -> int:
        """Sequences that had their batch, and were refused for the robot."""
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

    def plus(self, before: NodeCounts, now: NodeCounts) -> NodeCounts:
        """These, and what was counted from `before` to `now`: a node that was restarted counts from zero again."""
        new = now if now.sequences < before.sequences else now.since(before)
        return new.since(NodeCounts().since(self))


def violations(
    balance: Balance, unknown_answers: int, *, trajectories: int | None = None, node: NodeCounts | None = None
) -> list[str]:
    """Disagreements between the counts of planner, controller and node, one line each; empty if they agree.

    Args:
        balance: the outcomes of the planner's sequences.
        unknown_answers: trajectory batches that answer no sequence of the planner.
        trajectories: joint trajectories that the controller received or knows it missed; None if it cannot know, for
            example because the node was restarted.
        node: the node's own counts; None if others used it at the same time.

    """
    answered, found = balance.answered + balance.missed, []
    if balance.lost:
        found.append(f"{balance.lost} sequences lost: neither answered nor counted as rejected")
    if unknown_answers:
        found.append(f"{unknown_answers} trajectory batches that answer no sequence of ours, or one twice")
    if trajectories is not None and trajectories != answered:
        found.append(f"{trajectories} joint trajectories for {answered} answered sequences")
    if node is not None:
        sequences = "sequences that the node counted", balance.sent, node.sequences
        found += differences(sequences, ("trajectory batches published", node.published + node.batches_alone, answered))
    return found


def differences(*lines: tuple[str, int, int]) -> list[str]:
    """A line for each (what, expected, got) that differs."""
    return [f"{what}: expected {expected}, got {got}" for what, expected, got in lines if expected != got]

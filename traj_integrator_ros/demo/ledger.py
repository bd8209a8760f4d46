"""Keeps count of every sequence sent: answered, rejected, sent while the node was down, or lost. Knows no ROS."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field

from .windows import Window

SEEN_WITHIN = 2.0
"""A restarted node hears us, and is seen by us, at most this long [s] before or after the other."""


@dataclass
class Sent:
    """One sequence: what was sent, when [s, monotonic clock], and when the answer came."""

    window: Window
    at: float
    answer_expected: bool = True
    latency: float | None = None


@dataclass(frozen=True)
class Balance:
    """Where the sequences went; sent = answered + rejected + node_down + lost."""

    sent: int
    answered: int
    rejected: int
    node_down: int
    lost: int


class NodeCounts:
    """What the node has counted since the demo began, added up over its restarts: a new node counts from zero again."""

    def __init__(self) -> None:
        self._before: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self._begun = False

    def update(self, received: int, published: int, rejected: dict[str, int]) -> None:
        """Take the node's latest counts: sequences received, those answered, rejections of any input by reason."""
        now = Counter({**{f"reason:{reason}": count for reason, count in rejected.items()}})
        now.update(received=received, published=published)
        if not self._begun:
            self._before.subtract(now)
            self._begun = True
        elif received < self._now["received"]:
            self._before.update(self._now)
        self._now = now

    @property
    def refused(self) -> int:
        """Sequences that the node received and did not answer by a trajectory."""
        total = self._total()
        return total["received"] - total["published"]

    @property
    def by_reason(self) -> dict[str, int]:
        """Reasons for which input was rejected, with their counts."""
        reasons = {key.partition(":")[2]: count for key, count in self._total().items() if key.startswith("reason:")}
        return {reason: count for reason, count in sorted(reasons.items()) if count > 0}

    def _total(self) -> Counter[str]:
        total = Counter(self._before)
        total.update(self._now)
        return total


@dataclass
class Ledger:
    """The sequences of the demo by their stamp [ns]; every stamp is unique. Safe to use from several threads."""

    _sent: dict[int, Sent] = field(default_factory=dict)
    _answered: int = 0
    _unknown: int = 0
    _restarts: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, stamp: int, window: Window, now: float, answer_expected: bool = True) -> None:
        """Note a sequence that is about to be sent; nobody waits for the answer to one that has to be rejected."""
        with self._lock:
            self._sent[stamp] = Sent(window, now, answer_expected)

    def answer(self, stamp: int, now: float) -> Window | None:
        """Note an answer and return the window it belongs to; None (and counted) where none does or it came before."""
        with self._lock:
            sent = self._sent.get(stamp)
            if sent is None or sent.latency is not None:
                self._unknown += 1
                return None
            sent.latency = now - sent.at
            self._answered += 1
            return sent.window

    def restarted(self, now: float) -> None:
        """Note that a new node has been seen: it cannot answer what was sent before it was there."""
        with self._lock:
            self._restarts.append(now)

    def in_flight(self, now: float, within: float = 2.0) -> int:
        """Sequences not answered yet, of those sent less than `within` s ago: older ones hold up nobody."""
        with self._lock:
            recent = list(self._sent.values())[-500:]
        return sum(s.answer_expected and s.latency is None and now - s.at < within for s in recent)

    @property
    def sent(self) -> int:
        """Sequences sent so far."""
        return len(self._sent)

    @property
    def answered(self) -> int:
        """Sequences answered so far."""
        return self._answered

    @property
    def unknown_answers(self) -> int:
        """Answers to no sequence of ours, or to one that was answered before."""
        return self._unknown

    def latencies(self) -> list[float]:
        """Time from sending to the answer [s] of every answered sequence."""
        with self._lock:
            return [s.latency for s in self._sent.values() if s.latency is not None]

    def balance(self, refused: int) -> Balance:
        """Where everything went, given how many sequences the node says it refused."""
        with self._lock:
            sent = list(self._sent.values())
            down = len({id(s) for restart in self._restarts for s in self._sent_to_nobody(sent, restart)})
        unanswered = sum(s.latency is None for s in sent)
        open_ = unanswered - down
        rejected = min(open_, refused)
        return Balance(len(sent), len(sent) - unanswered, rejected, down, open_ - rejected)

    def _sent_to_nobody(self, sent: list[Sent], restart: float) -> list[Sent]:
        """The unbroken runs of unanswered sequences that lead up to a restart, or end around it."""
        runs = [list(run) for _, run in itertools.groupby(sent, key=lambda s: s.latency is None)]
        found = []
        for run, following in itertools.zip_longest(runs, runs[1:]):
            silent_until = following[0].at if following else restart
            if run[0].latency is None and run[0].at <= restart + SEEN_WITHIN and silent_until >= restart - SEEN_WITHIN:
                found += run
        return found

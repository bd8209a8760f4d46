"""The planner's side: sends action sequences and matches the trajectory batches that answer them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch

from ..wire.sequence_gaps import SequenceGaps
from .ledger import Ledger
from .messages import SECOND_NS, Template, set_stamp, stamp_of
from .participant import Participant, received_ns

DEPTH = 1000
"""Depth of our queue: answers that displace each other in it would not be losses of the node."""
About = TypeVar("About")


class Planner(Generic[About]):
    """Gives each sequence a unique stamp, the time of sending, which identifies its answer.

    `check` is called with what a sequence is about, and with the answer; it returns what is wrong with it, or "".
    """

    def __init__(self, participant: Participant, check: Callable[[About, TrajectoryBatch], str]) -> None:
        self.ledger: Ledger[About] = Ledger()
        self.faults: Counter[str] = Counter()
        self.missed = 0
        """Answers that were lost on their way to us."""
        self._check = check
        self._gaps = SequenceGaps()
        self._last_stamp_ns = 0
        self.publisher = participant.publisher(ActionSequence, "~/action_sequence", DEPTH)
        self.subscription = participant.subscribe(TrajectoryBatch, "~/trajectory_batch", self._on_batch, DEPTH)

    def send(
        self,
        message: ActionSequence | Template,
        about: About,
        answer_expected: bool = True,
        observed_ns: int | None = None,
    ) -> None:
        """Publish a sequence; no answer is expected to one that has to be rejected.

        `observed_ns`: the stamp, where that is another time than that of sending; later than all before.
        """
        now_ns = time.time_ns()
        stamp_ns = self._last_stamp_ns = max(observed_ns or now_ns, self._last_stamp_ns + 1)
        if isinstance(message, Template):
            message = message.stamped(stamp_ns)
        else:
            set_stamp(message, stamp_ns)
        self.ledger.send(stamp_ns, about, now_ns / SECOND_NS, answer_expected)
        self.publisher.publish(message)

    def counts(self) -> dict[str, int]:
        """Sequences sent and answered, answers that were lost on their way, and that answer nothing."""
        ledger = self.ledger
        return {
            "sent": ledger.sent,
            "answered": ledger.answered,
            "missed": self.missed,
            "unknown": ledger.unknown_answers,
        }

    def in_flight(self, within_s: float = 2.0) -> int:
        """How many sequences of this time are not answered yet."""
        return self.ledger.in_flight(time.time(), within_s)

    def _on_batch(self, message: TrajectoryBatch, info: Mapping[str, object]) -> None:
        self.missed += self._gaps.missed_before(info)
        about = self.ledger.answer(stamp_of(message), received_ns(info) / SECOND_NS)
        if about is not None and (fault := self._check(about, message)):
            self.faults[fault] += 1

"""The controller's side: every joint trajectory is checked as by joint_trajectory_controller, and beyond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from trajectory_msgs.msg import JointTrajectory

from ..tools.checker import Expectation, Finding, check_message
from ..wire.sequence_gaps import SequenceGaps
from .participant import Participant, received_ns

DEPTH = 1000


class Controller:
    """Checks what the node publishes for controllers.

    `expectation` returns the rules for a trajectory that arrived at a time, ns since the epoch; `accept` is called with
    every trajectory that keeps them, and `describe` returns a finding in words, under which it is counted.
    """

    def __init__(
        self,
        participant: Participant,
        expectation: Callable[[int], Expectation],
        accept: Callable[[JointTrajectory], None] = lambda message: None,
        describe: Callable[[Finding], str] = str,
    ) -> None:
        self.received = self.missed = self.unfit = 0
        self.faults: Counter[str] = Counter()
        self._expectation, self._accept, self._describe = expectation, accept, describe
        self._gaps = SequenceGaps()
        self.subscription = participant.subscribe(JointTrajectory, "~/joint_trajectory", self._on_trajectory, DEPTH)

    def _on_trajectory(self, message: JointTrajectory, info: Mapping[str, object]) -> None:
        self.missed += self._gaps.missed_before(info)
        self.received += 1
        findings = check_message(message, self._expectation(received_ns(info)))
        self.unfit += bool(findings)
        for finding in findings:
            self.faults[f"joint_trajectory: {self._describe(finding)}"] += 1
        if not findings:
            self._accept(message)

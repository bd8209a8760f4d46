"""The outcomes of messages: counted by reason, timed, and logged without flooding the log."""

from __future__ import annotations

import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Hashable
from enum import Enum
from types import TracebackType

import numpy as np
from rclpy.node import Node

from ..requests.goals import Ended
from ..requests.rejection import Rejected, RejectionReason

_LONGEST_LINE = 500
_LATENCIES_KEPT = 1000
QUIET_S = 5.0
_KEYS_KEPT = 256


class Output(str, Enum):
    """Outputs that follow a message, by the names of their topics; each is accepted or rejected by itself."""

    BOTH = "both"
    BATCH = "trajectory_batch"
    ROW = "joint_trajectory"


OUTPUTS_OF = {"action_sequence": Output.BOTH, "position_trajectory": Output.ROW}
"""Outputs that are refused together with a message on a topic."""


class Accounts:
    """Counts since the start of the process, and the corresponding lines of a node's log."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.rejected: Counter[RejectionReason] = Counter()
        self.warned: Counter[RejectionReason] = Counter()
        """Violations of limits that were executed nevertheless."""
        self.sequences = self.published = self.service_calls = 0
        """Number of sequences and plans received, of those that gave a trajectory, and of calls of services."""
        self.goals: Counter[Ended] = Counter()
        """Number of action goals by how they ended."""
        self.answered: Counter[Output] = Counter()
        self.refused_for: Counter[Output] = Counter()
        """Numbers of accepted and refused messages for each output."""
        self.sequence_latency, self.service_latency = LatencyRing(), LatencyRing()
        """Durations of sequences and calls that succeeded, s."""
        self.warn = ThrottledLog(self._log_warning)
        """Logs a line at level warning; lines with the same key are throttled."""
        self._error = ThrottledLog(self._log_error)

    def guard(self, source: str, part: str = "") -> Guard:
        """Confine errors to the input that caused them: count and log them, and keep the reason.

        Args:
            source: topic or service of the input.
            part: the refused part, which follows "rejected" in the log; empty for the whole input.

        """
        return Guard(self, source, part)

    def refused(self, source: str, rejected: Rejected, part: str = "") -> str:
        """Count and log input that was rejected; return its reason in one line. `part` as for `guard`."""
        self.rejected[rejected.reason] += 1
        self.warn((source, part, rejected.reason), f"{source} rejected{part}, {rejected}")
        return str(rejected)

    def failure(self, source: str, error: Exception) -> str:
        """Count and log an unexpected error with its traceback; return its reason in one line."""
        # Strings that are not UTF-8 raise an error when rclpy decodes a message, before any callback.
        malformed = isinstance(error, UnicodeDecodeError)
        reason = RejectionReason.MALFORMED_MESSAGE if malformed else RejectionReason.INTERNAL_ERROR
        self.rejected[reason] += 1
        line = f"{reason.value}: {type(error).__name__}: {one_line(error)}"
        if malformed:
            self.warn((source, reason), f"{source} rejected, {line}")
        elif self._node.context.ok():  # Without a context, the process is ending, and publishers are gone.
            self._error((source, type(error)), f"{source} failed, {line}\n{traceback.format_exc()}")
        return line

    def lost(self, source: str, count: int) -> str:
        """Count messages that newer ones displaced from the queue; return the reason in one line."""
        reason = RejectionReason.QUEUE_OVERFLOW
        self.rejected[reason] += count
        line = f"{count} pushed out of the queue by newer ones"
        self.warn((source, reason), f"{source}: {line}")
        return f"{reason.value}: {line}"

    def let_through(self, finding: Rejected) -> None:
        """Count and log what rejects no input: violations of limits, doubted states, goals that are missed."""
        self.warned[finding.reason] += 1
        of_robot = finding.reason in (RejectionReason.CONTRADICTORY_STATE, RejectionReason.DEVIATION)
        self.warn(("warned", finding.reason), str(finding) if of_robot else f"published in spite of {finding}")

    # Two places, because rclpy keeps one severity for each place that logs.

    def _log_warning(self, line: str) -> None:
        self._node.get_logger().warning(line)

    def _log_error(self, line: str) -> None:
        self._node.get_logger().error(line)


class Guard:
    """The context manager of `Accounts.guard`; not a generator, since every message passes through three of them."""

    __slots__ = ("_accounts", "_part", "_source", "reason", "waits")

    def __init__(self, accounts: Accounts, source: str, part: str) -> None:
        self._accounts, self._source, self._part = accounts, source, part
        self.reason = ""
        """Why the input was rejected, in one line; empty if it was accepted."""
        self.waits = False
        """True while it is undecided whether the input is rejected."""

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Rejected):
            self.reason = self._accounts.refused(self._source, error, self._part)
        elif isinstance(error, Exception):
            self.reason = self._accounts.failure(self._source, error)
        else:
            return False
        return True


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line of at most 500 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}..."


class ThrottledLog:
    """Logs the first line of each key at once, and then at most one every 5 s, with the number of suppressed lines."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._last: dict[Hashable, float] = {}
        self._left_out: dict[Hashable, int] = {}

    def __call__(self, key: Hashable, line: str) -> None:
        """Log a line, or count it as suppressed."""
        now = time.monotonic()
        if now - self._last.get(key, -QUIET_S) < QUIET_S:
            self._left_out[key] = self._left_out.get(key, 0) + 1
            return
        if len(self._last) >= _KEYS_KEPT:
            self._last.clear()
            self._left_out.clear()
        self._last[key] = now
        left_out = self._left_out.pop(key, 0)
        self._log(f"{line} ({left_out} more like it since the last such line)" if left_out else line)


class LatencyRing:
    """Keeps the last 1000 latencies and gives their percentiles."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_LATENCIES_KEPT)
        self._known: dict[tuple[float, ...], list[float | None]] = {}
        """Percentiles since the last latency was added."""

    def add(self, seconds: float) -> None:
        """Add one latency, s."""
        self._seconds.append(seconds)
        self._known.clear()

    def percentiles_ms(self, *percents: float) -> list[float | None]:
        """Return percentiles of the stored latencies, ms, interpolated linearly; None for each if there are none."""
        if not self._seconds:
            return [None] * len(percents)
        if percents not in self._known:
            ordered = np.sort(np.fromiter(self._seconds, float))  # np.percentile took a fifth of a status
            ranks = np.array(percents) / 100 * (len(ordered) - 1)
            self._known[percents] = (1e3 * np.interp(ranks, np.arange(len(ordered)), ordered)).tolist()
        return self._known[percents]

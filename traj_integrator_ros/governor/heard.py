"""Whether the controller is there, from the arrival of its reports. Knows no ROS."""

from __future__ import annotations

from collections import deque

import numpy as np

from ..execution.tolerances import NANOSECOND_S
from ..requests.rejection import Rejected, RejectionReason
from .controller_reports import ControllerReport, rests

ARRIVES_S = 0.5
"""Longest time, s, in which a message arrives, even on a busy machine. After that, replaced motions are over, and a
silent controller is off.
"""
_SILENT_S = 0.05
_SILENT_PERIODS = 6.0
"""Periods without a report after which the controller is silent, if they are longer than `_SILENT_S`: a few reports may
be lost, or wait for a busy machine.
"""
_OVERDUE_PERIODS = 1.2
"""Periods after which a report is overdue, in addition to its jitter and `_OVERDUE_S`."""
_OVERDUE_S = 4e-3
"""Time, s, for which a thread may wait for its turn before it reads a report."""
_SET_BACK_S = 1.0
"""Time, s, by which a stamp is older than the last one if the clock was set back, and not only the report late."""
_LEARNED = 0.1
"""Weight of the newest interval between reports in the usual one."""
_USUALLY = 0.95
"""Share of reports that arrive in the usual time."""


class Heard:
    """The newest report of the controller, and when reports arrive. All times are ns of the robot's clock."""

    def __init__(self) -> None:
        self.report: ControllerReport | None = None
        """The newest report."""
        self.period_s = 0.0
        """Usual time from one report to the next, s; 0 if unknown."""
        self.received_ns = 0
        """When the last report arrived, ns; 0 if none has."""
        self._ages_s: deque[float] = deque(maxlen=256)
        """Ages of reports at their arrival, s."""

    def take(self, report: ControllerReport, now_ns: int, count: int) -> bool:
        """Take the newest of `count` reports; returns False if it is older than the last one."""
        gap_s = np.inf if self.report is None else (report.stamp_ns - self.report.stamp_ns) * NANOSECOND_S
        if -_SET_BACK_S < gap_s <= 0:
            return False
        if 0 < gap_s < np.inf:
            gap_s, usual_s = gap_s / count, self.period_s
            self.period_s += _LEARNED * (min(gap_s, 2 * usual_s) - usual_s) if usual_s else gap_s
        self.report, self.received_ns = report, now_ns
        self._ages_s.append(max((now_ns - report.stamp_ns) * NANOSECOND_S, 0.0))
        return True

    def way_s(self, share: float = _USUALLY) -> float:
        """Return the time, s, in which a share of the last reports has arrived."""
        ages_s = sorted(self._ages_s) or [0.0]
        return ages_s[int(share * (len(ages_s) - 1))]

    def quiet_s(self, now_ns: int) -> float:
        """Return the time since the last report, s."""
        return (now_ns - self.received_ns) * NANOSECOND_S

    def is_silent(self, now_ns: int) -> bool:
        """Return whether the controller has stopped reporting, or has sent no valid report for 0.5 s."""
        most = max(_SILENT_S, _SILENT_PERIODS * self.period_s) if self.report else ARRIVES_S
        return self.received_ns > 0 and self.quiet_s(now_ns) > most

    def is_off(self, now_ns: int) -> bool:
        """Return whether the controller has been silent for so long that it counts as off."""
        return self.is_silent(now_ns) and self.quiet_s(now_ns) > ARRIVES_S

    def is_overdue(self, now_ns: int) -> bool:
        """Return whether the next report is overdue: the controller may have stopped."""
        if self.report is None or not self.period_s:
            return False
        jitter = self.way_s() - self.way_s(0.0)
        return self.quiet_s(now_ns) > _OVERDUE_PERIODS * self.period_s + jitter + _OVERDUE_S

    def moves(self) -> bool:
        """Return whether the controller reports a motion."""
        return self.report is not None and not rests(self.report.reference)

    def unavailable(self, now_ns: int) -> Rejected:
        """Return the rejection of sequences while the controller is silent."""
        return Rejected(
            RejectionReason.CONTROLLER_UNAVAILABLE,
            f"controller_state: expected reports of the controller, got none for {self.quiet_s(now_ns):.3f} s; it is "
            "off, and would not take a trajectory",
        )

"""What was commanded, by an exact replay of what arrived, and what must hold of it.

Velocity, acceleration and jerk are differences of commanded positions from cycle to cycle: a jump is in them, too.
"""

from __future__ import annotations

import numpy as np

RATE_SLACK, JERK_SLACK = 1e-3, 5e-3
"""Relative slack of limits. Knots of points less than 1 us apart become one, which moves a
change of jerk: by 2 us of twice its limit, 4e-3 of it in a cycle of 1 ms, and by less than 1e-3 of the others.
"""
POSITION_SLACK_RAD = 1e-6
"""Limits are float64 in the node, rows of sequences float32: 2.4e-7 of an angle of 4 rad, and as much of its start."""
REST_RAD_S = 1e-6
"""Speed that differences of positions near 3 rad have by their own rounding, 4e-16 / 1 ms, is far below."""


class Judged:
    """What is said of a run: mixed into what has `_replayed`, `judge_rate`, `judged_from`, `limits`, `refused`."""

    def __init__(self) -> None:
        self.fails: list[str] = []
        self.figures: list[str] = []

    def check(self, good: bool, text: str) -> bool:
        """Note what holds or fails, with its figures."""
        (self.figures if good else self.fails).append(text)
        return good

    def rates(self, t0: float | None = None, t1: float | None = None) -> tuple[np.ndarray, ...]:
        """Times, positions and their three differences within [t0, t1]: `[n, dof]` each, of equal length."""
        t, p = self.played()
        t0 = self.judged_from if t0 is None else t0
        differences = [p]
        for _ in range(3):
            differences.append(np.diff(differences[-1], axis=0) * self.judge_rate)
        n = len(differences[3])
        keep = np.ones(n, bool)
        if t0 is not None:
            keep &= t[3:] >= t0
        if t1 is not None:
            keep &= t[3:] <= t1
        return tuple(x[len(x) - n :][keep] for x in (t, *differences))

    def within(
        self, t0: float | None = None, t1: float | None = None, limits: dict | None = None, what: str = ""
    ) -> None:
        """All given limits are kept, the command is finite, and the controller refused nothing."""
        limits = self.limits if limits is None else limits
        t, p, *rates = self.rates(t0, t1)
        if not len(t):
            self.check(False, f"{what}nothing was commanded")
            return
        self.check(bool(np.isfinite(p).all()), "finite")
        for name, x, slack in zip("vaj", rates, (RATE_SLACK, RATE_SLACK, JERK_SLACK), strict=True):
            if limits.get(name) is None:
                continue
            ratio = np.abs(x) / np.asarray(limits[name], float)
            i = np.unravel_index(ratio.argmax(), ratio.shape)
            self.check(ratio[i] <= 1 + slack, f"{what}{name} {ratio[i]:.4g}x limit at {t[i[0]]:.3f} s joint {i[1]}")
        for name, sign in (("lo", -1), ("hi", 1)):
            if limits.get(name) is not None:
                beyond = float((sign * (p - np.asarray(limits[name]))).max())
                if beyond > POSITION_SLACK_RAD:
                    self.check(False, f"{what}{beyond:.4g} beyond position limit {name}")
        if self.refused:
            self.check(False, f"controller refused {len(self.refused)}: {self.refused[0]}")

    def rests(self, at: float | None = None, what: str = "") -> bool:
        """The command rests in the end, or from a time on."""
        v = self.rates(at)[2]
        speed = np.abs(v[-20:] if at is None else v).max(initial=0.0)
        when = "at the end" if at is None else f"after {at:.2f} s"
        return self.check(speed < REST_RAD_S, f"{what}{when} speed {speed:.2g} rad/s")

    def ends_at(self, place: object, tolerance: float = 1e-6, what: str = "") -> bool:
        """The last command is a goal."""
        off = np.abs(self.played()[1][-1] - place).max()
        return self.check(off <= tolerance, f"{what}ends {off:.3g} away from the goal")

    def back(
        self, sign: object = 1, t0: float | None = None, t1: float | None = None, allowed: float = 1e-3, what: str = ""
    ) -> bool:
        """The command goes forward, or in the direction of `sign`, alone."""
        p = self.rates(t0, t1)[1] * np.asarray(sign)
        back = (np.maximum.accumulate(p, axis=0) - p).max()
        return self.check(back <= allowed, f"{what}goes back {back * 1e3:.2f} mrad")

    def jump(self, t0: float | None = None, t1: float | None = None) -> tuple[float, float]:
        """The largest step of the command in a cycle, rad, and when."""
        t, p, *_ = self.rates(t0, t1)
        d = np.abs(np.diff(p, axis=0))
        i = np.unravel_index(d.argmax(), d.shape)
        return float(d[i]), float(t[i[0] + 1])

    def played(self) -> tuple[np.ndarray, np.ndarray]:
        """Times and commanded positions of each cycle, from what has arrived so far."""
        known = (self.next, len(self.arrivals))
        if self._played is None or self._played[0] != known:
            self._played = (known, self.replayed())
        return self._played[1]

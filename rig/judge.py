"""Rules for commands, cycle by cycle, of the rig's player and of simulated streams.

Velocity, acceleration and jerk are differences of commanded positions from cycle to cycle: a jump is in them, too. A
motion is judged by its limits, continuity, rest, goals and holds, by as much as quantization, transport and the
cycle explain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

RATE_SLACK = 1e-3
"""Tolerance of limits of velocity and acceleration, relative."""
JERK_SLACK = 5e-3
"""Tolerance of limits of jerk, relative. Knots less than 1 us apart are merged, which moves a change of jerk, of at
most twice the limit, by up to 2 us: 4e-3 of the limit in a cycle of 1 ms.
"""
SLACKS = {"v": RATE_SLACK, "a": RATE_SLACK, "j": JERK_SLACK}
POSITION_SLACK_RAD = 1e-6
"""Tolerance of position limits, rad: rows are float32, which rounds an angle of 4 rad by 2.4e-7 rad, as its start."""
REST_RAD_S = 1e-6
"""Speed that counts as rest; rounding of positions near 3 rad gives 4e-16 / 1 ms, far less."""
RESTING_CYCLES = 20
"""Number of cycles in which rest is judged: longer than a cycle of a controller of 100 Hz."""
GOAL_RAD = 1e-6
"""Tolerance of a goal, rad, as for limits of position."""
JUMP = 3.0
"""Factor on the largest value of a plan if there is no limit: splines change it by less, since the node chooses their
ends, and a jump changes it by more: 1 urad, or 1 mrad/s, in a cycle of 1 ms is a jerk of 1,000 rad/s^3.
"""


class Finding(NamedTuple):
    """The largest value of a quantity, and where it is."""

    quantity: str
    """Quantity: v, a, j, lo or hi."""
    value: float
    """Share of its limit; for positions the distance beyond it, rad."""
    most: float
    """Largest allowed value."""
    cycle: int
    joint: int

    @property
    def good(self) -> bool:
        """True if the value keeps its limit."""
        return self.value <= self.most


def differences(positions: np.ndarray, rate: float) -> list[np.ndarray]:
    """Positions `[T, D]` and their three differences at a rate, Hz, by the last cycle of each: `[T - 3, D]`, T > 3."""
    found = [positions]
    for _ in range(3):
        found.append(np.diff(found[-1], axis=0) * rate)
    return [part[len(part) - len(found[3]) :] for part in found]


def held_against(parts: list[np.ndarray], limits: Mapping[str, object]) -> Iterator[Finding]:
    """The largest of each of `differences` with a limit: v, a, j (0 or more), lo, hi, numbers or `[D]`."""
    position, *rates = parts
    for (name, slack), values in zip(SLACKS.items(), rates, strict=True):
        if limits.get(name) is not None:
            yield _largest(name, np.abs(values) / np.maximum(np.asarray(limits[name], float), 1e-12), 1 + slack)
    for name, sign in (("lo", -1.0), ("hi", 1.0)):
        if limits.get(name) is not None:
            yield _largest(name, sign * (position - np.asarray(limits[name])), POSITION_SLACK_RAD)


def _largest(name: str, values: np.ndarray, most: float) -> Finding:
    cycle, joint = np.unravel_index(int(values.argmax()), values.shape)
    return Finding(name, float(values[cycle, joint]), most, int(cycle), int(joint))


def last_speed(velocity: np.ndarray) -> float:
    """The largest speed in the last cycles, rad/s."""
    return float(np.abs(velocity[-RESTING_CYCLES:]).max(initial=0.0))


def way_back(positions: np.ndarray) -> np.ndarray:
    """Return the largest distance by which positions `[T, D]` go back from their furthest place, `[D]`."""
    return (np.maximum.accumulate(positions, axis=0) - positions).max(axis=0)


class Judged:
    """Judges a run: a mixin for classes with `played`, the times and commanded positions of cycles at a rate, Hz."""

    limits: Mapping[str, object] | None = None
    judged_from: float | None = None
    """Time from which on a run is judged, s; None: the begin."""

    def __init__(self, rate: int = 1000) -> None:
        self.judge_rate = rate
        self.fails: list[str] = []
        self.figures: list[str] = []
        self.unfit: list[tuple[float, str]] = []
        """Messages that the controller refused: times, s, and reasons."""

    def check(self, good: bool, text: str) -> bool:
        """Record whether a requirement holds, with its figures."""
        (self.figures if good else self.fails).append(text)
        return good

    def rates(self, t0: float | None = None, t1: float | None = None) -> tuple[np.ndarray, ...]:
        """Return times, positions and their three differences within [t0, t1], `[n, dof]` each."""
        t, p = self.played()
        t0 = self.judged_from if t0 is None else t0
        t, *parts = t[3:], *differences(p, self.judge_rate)
        keep = (t >= (-np.inf if t0 is None else t0)) & (t <= (np.inf if t1 is None else t1))
        return t[keep], *(part[keep] for part in parts)

    def within(
        self, t0: float | None = None, t1: float | None = None, limits: dict | None = None, what: str = ""
    ) -> None:
        """Check that all given limits are kept, that the command is finite, and that the controller refused nothing."""
        t, *parts = self.rates(t0, t1)
        if not len(t):
            self.check(False, f"{what}nothing was commanded")
            return
        self.check(bool(np.isfinite(parts[0]).all()), "finite")
        for found in held_against(parts, (self.limits if limits is None else limits) or {}):
            place = f"at {t[found.cycle]:.3f} s joint {found.joint}"
            if found.quantity in SLACKS:
                self.check(found.good, f"{what}{found.quantity} {found.value:.4g}x limit {place}")
            elif not found.good:
                self.check(False, f"{what}{found.value:.4g} beyond position limit {found.quantity} {place}")
        if self.unfit:
            self.check(False, f"controller refused {len(self.unfit)}: {self.unfit[0]}")

    def rests(self, at: float | None = None) -> bool:
        """Check that the command rests at the end, or from a time on."""
        v = self.rates(at)[2]
        speed = last_speed(v) if at is None else float(np.abs(v).max(initial=0.0))
        when = "at the end" if at is None else f"after {at:.2f} s"
        return self.check(speed < REST_RAD_S, f"{when} speed {speed:.2g} rad/s")

    def ends_at(self, place: object, tolerance: float = GOAL_RAD) -> bool:
        """Check that the last command is at a goal."""
        off = np.abs(self.played()[1][-1] - place).max()
        return self.check(off <= tolerance, f"ends {off:.3g} away from the goal")

    def back(self, sign: object = 1, t0: float | None = None, allowed: float = 1e-3) -> bool:
        """Check that the command goes only in the direction of `sign`, and back by no more than `allowed`, rad."""
        back = way_back(self.rates(t0)[1] * np.asarray(sign)).max()
        return self.check(back <= allowed, f"goes back {back * 1e3:.2f} mrad")

    def good(self, forward: object = None, t0: float | None = None) -> None:
        """Check that limits are kept, that the end is at rest, and, with a direction, that nothing goes back."""
        self.within(t0)
        self.rests()
        if forward is not None:
            self.back(forward, t0)

    def steps(self, t0: float | None = None, most: float = 2.1e-3) -> bool:
        """Check that no step of the command from cycle to cycle is larger than this, rad."""
        t, p, *_ = self.rates(t0)
        d = np.abs(np.diff(p, axis=0)).max(axis=1)
        return self.check(d.max() < most, f"largest step {d.max() * 1e3:.2f} mrad at {t[d.argmax() + 1]:.2f} s")

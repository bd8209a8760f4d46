"""A speed slider, pauses and protective stops, in which the controller's clock is slower than the robot's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..rig import LIM, Rig
from ..senders import share_of_way
from .live import case

_REPORTS_HZ = 100
"""Rate of the reports, as in UR's driver."""
_SPAN = 0.8
"""Duration of a plan, s."""
_ENDS = np.array([0.4, -0.3])
"""Distances that a plan covers, rad."""
_MOST_RAD = 1e-3
_TOLD_S = 0.025
"""Time, s, after a step of the slider in which messages may not take it into account: a period of the reports, and the
transport of report and message.
"""
_SLACK = 1.02
"""Factor on limits in the motion's own time: the clock is rounded to nanoseconds, since it advances by parts of cycles.
"""


class Scaled(Rig):
    """A rig whose controller has a slider."""

    def __init__(self, **options: object) -> None:
        self.scales: list[tuple[float, float]] = [(0.0, 1.0)]
        super().__init__(rate=500, reports_hz=_REPORTS_HZ, warm=False, **options)

    def slide(self, scale: float) -> None:
        """Move the slider."""
        self.scales.append(((self._ns - self._begin_ns) * 1e-9, scale))
        self.robot.scaling = scale

    def motion(self, t0: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return times of the rig, times of the controller's clock, s, and positions, while that clock runs."""
        t, p = self.played()
        begins, values = np.array(self.scales).T
        scale = values[np.searchsorted(begins, t[1:] - self.robot.period * 1e-9 + 1e-9, side="right") - 1]
        advance = np.floor(scale * self.robot.period) * 1e-9
        clock = np.concatenate([[0.0], np.cumsum(advance)])
        keep = (t >= t0) & np.concatenate([[True], advance > 0])
        return t[keep], clock[keep], p[keep]

    def scaled_well(self, t0: float, *, most_jump: float = 1e-6) -> None:
        """Check that nothing is refused or braked, and limits are kept in the motion's own time.

        After a step of the slider that is not reported yet, the command may jump in one cycle. Of such a jump, only the
        distance is judged.
        """
        self.rests()
        refused = {reason for reason in self.rejections if reason != "superseded"}
        self.check(not refused, f"rejected {self.reasons()}")
        self.check(self.diag("supervision_brakes") == "0", f"braked {self.diag('supervision_brakes')} times")
        self.check(not self.unfit, f"controller refused {self.unfit[:1]}")
        t, clock, p = self.motion(t0)
        step = np.diff(clock)[:, None]
        velocity = np.diff(p, axis=0) / step
        usual = np.median(np.stack([velocity[:-2], velocity[1:-1], velocity[2:]]), axis=0)
        jumps = np.abs((velocity[1:-1] - usual) * step[1:-1]).max(axis=1)
        jumps = (jumps - np.abs(usual).max(initial=0.0) * self.untold(t[2:-1])).max(initial=0.0)
        self.check(jumps <= most_jump, f"jumps by {jumps * 1e3:.3g} mrad, expected {most_jump * 1e3:g}")
        for name, rate in (("v", usual), ("a", np.diff(velocity, axis=0) / ((step[1:] + step[:-1]) / 2))):
            if name == "v" or most_jump < 1e-5:
                largest = np.abs(rate).max(initial=0.0) / np.max(self.limits[name])
                self.check(largest <= _SLACK, f"{name} {largest:.4g}x limit in the motion's time")

    def untold(self, t: np.ndarray) -> np.ndarray:
        """Return the motion's time less the time that messages assume while a step is not reported yet, s."""
        off = np.zeros(len(t))
        for (_, before), (moved, scale) in zip(self.scales[:-1], self.scales[1:], strict=True):
            since = t + self.robot.period * 1e-9 - moved
            off += abs(scale - before) * np.where((since > 0) & (since < _TOLD_S), since, 0.0)
        return off

    def follows_plan(self, t0: float, at: Callable[[np.ndarray], np.ndarray]) -> None:
        """Check that every command is a position of the plan, whatever its time."""
        _, _, p = self.motion(t0)
        plan = at(np.arange(0.0, _SPAN + 0.1, 1e-4))
        off = max(np.abs(plan - one).max(axis=1).min() for one in p)
        self.check(off <= _MOST_RAD, f"{off * 1e3:.3g} mrad off the plan")


def _plan(times: np.ndarray) -> np.ndarray:
    return share_of_way(times / _SPAN)[:, None] * _ENDS


def _send_plan(rig: Scaled) -> float:
    """Send the plan; returns the time."""
    begin, times = rig.now, np.linspace(0, _SPAN, 33)[1:]
    rig.plan(times, _plan(times))
    return begin


_PLANS = {
    "scaled-goal-0.1": (0.1, ((0.5, 0.1),), 8.0),
    "scaled-steps": (1.0, tuple((0.17, scale) for scale in (0.3, 0.7, 0.1, 1.0, 0.5)), 1.8),
    "scaled-pause": (1.0, ((0.4, 0.0), (2.0, 0.3)), 2.2),
}
"""Speed at which a plan begins, times, s, after which the slider is moved, and the time until the end, s."""


@case(*_PLANS)
def plan(name: str) -> Iterator[Rig]:
    """A plan is executed at a scaled speed, in steps of the slider or with a pause, along its path and to its end."""
    rig, (first, slides, last) = Scaled(limits=LIM, start_from="measured"), _PLANS[name]
    rig.slide(first)
    rig.go(0.3)
    begin = _send_plan(rig)
    for seconds, scale in slides:
        rig.go(seconds)
        if seconds > 1.0:
            waits = [d for d in rig.diagnostics if d["t"] > rig.now - 1.0]
            rig.check(all(d["level"] == 1 and "paused" in d["message"] for d in waits), f"at 0: {rig.diag()}")
        elif first < 1.0:
            rig.check(f"({100 * first:.0f} %)" in rig.diag("controller"), f"controller {rig.diag('controller')}")
        rig.slide(scale)
    rig.go(last)
    rig.scaled_well(begin)
    rig.follows_plan(begin, _plan)
    rig.ends_at(_ENDS)
    yield rig


@case("scaled-stop")
def stop(name: str) -> Iterator[Rig]:
    """A stop at 0.3 needs the distance and the time that the answer says."""
    rig = Scaled(limits=LIM, start_from="measured")
    begin = _send_plan(rig)
    rig.go(0.3)
    rig.slide(0.3)
    rig.go(0.2)
    place, called = rig.place, rig.now
    answer = rig.stop()
    rig.go(1.5)
    went = rig.place - place
    rig.check(bool(answer and answer.success), "answered")
    off = np.abs(np.array(answer.distance) - went).max()
    rig.check(off < 0.05 * np.abs(went).max() + 1e-3, f"went {went[0]:.4g}, answered {answer.distance[0]:.4g}")
    t, p = rig.played()
    took = t[1:][np.abs(np.diff(p, axis=0)).max(axis=1) > 1e-9][-1] - called
    rig.check(abs(answer.duration - took) < 0.05, f"took {took:.3f} s, answered {answer.duration:.3f}")
    rig.scaled_well(begin, most_jump=_MOST_RAD)
    yield rig


@case("scaled-policy")
def policy(name: str) -> Iterator[Rig]:
    """A policy goes on by the clock while the slider is at 0 for 1.5 s: afterwards it is followed again."""
    rig = Scaled()
    speed = 0.4
    begin, send = rig.now, rig.ramping(speed)
    rig.go(1.0, 0.1, send)
    rig.slide(0.0)
    rig.go(1.5, 0.1, send)
    rig.slide(1.0)
    rig.go(1.0, 0.1, send)
    place, again = rig.place[0], rig.now
    rig.go(1.0, 0.1, send)
    went = (rig.place[0] - place) / (rig.now - again)
    rig.check(went > 0.9 * speed, f"at {went:.3f} rad/s, the policy's {speed:g}")
    rig.go(1.5)
    rig.scaled_well(begin, most_jump=_MOST_RAD)
    yield rig

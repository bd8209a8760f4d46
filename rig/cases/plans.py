"""Plans that are old, plans of a single point, and plans without limits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kit.controller import SECOND

from ..rig import LIM, Rig
from ..senders import share_of_way
from .table import case


@case("stale-0.3", "stale-1", "stale-1.5")
def stale(name: str) -> Iterator[Rig]:
    """A plan with an old stamp is refused, or executed within limits to its end and never backwards."""
    by = float(name[6:])
    for mode in ("measured", "previous"):
        rig = Rig(limits=LIM, start_from=mode)
        t = np.linspace(0, 1.6, 33)[1:]
        points = 0.8 * share_of_way(t / 1.6)[:, None] * [1, -1]
        t0, what = rig.now, f"{mode}: "
        rig.plan(t, points, rig.clock() - round(by * SECOND))
        rig.go(3.0 if by < 1.2 else 8.0)  # the rest of the plan is slow, and the robot does not hurry to its end
        p = rig.played()[1][-1000:]
        if len(rig.arrivals) > rig.warmed and np.ptp(p, axis=0).max() + np.abs(p[-1]).max() > 1e-9:
            rig.good([1, -1], t0, what)
            rig.ends_at([0.8, -0.8], what=what)
        else:
            rig.check(bool(rig.rejections) or not rig.reports, f"{what}not executed ({list(rig.reasons())})")
        yield rig


@case("goal-1")
def goal_1(name: str) -> Iterator[Rig]:
    """One point at 1 s is reached exactly and at 1 s plus the lead; the motion takes all of that time."""
    rig = Rig(limits=LIM, warm=False, start_from="measured")
    t0 = rig.now
    rig.plan([1.0], [[0.3, -0.3]])
    rig.go(2.0)
    rig.good(forward=[1, -1])
    rig.ends_at([0.3, -0.3])
    t, p = rig.played()
    there = t[np.argmax(np.abs(p - [0.3, -0.3]).max(axis=1) < 1e-5)] - t0
    # Without reports, the controller bridges to the start first.
    rig.check(0.9 < there < (1.15 if rig.reports else 1.4), f"there after {there:.3f} s")
    yield rig


@case("only-names")
def only_names(name: str) -> Iterator[Rig]:
    """No parameter but joint_names is given: nothing is published, and diagnostics say why."""
    rig = Rig(limits=None)
    for _ in range(3):
        rig.sequence(np.ones((16, 2)), 0.04)
        rig.plan([1.0], [[0.1, 0.1]])
        rig.go(0.4)
    rig.check(not rig.arrivals, f"published {len(rig.arrivals)}")
    rig.check("no_limits" in rig.reasons(), f"{rig.reasons()}")
    answer = rig.stop()
    rig.check(bool(answer and answer.success), "stop answers")
    yield rig

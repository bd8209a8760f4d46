"""Plans and goals: old ones, single points, noise, ends and huge steps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ..intentions import minimum_jerk, ramp
from ..loop import NS
from ..planner import ACC, VEL
from ..rig import FREE, Rig
from .table import case


@case("stale-0.3", "stale-1", "stale-1.5")
def stale(name: str) -> Iterator[Rig]:
    """A plan with an old stamp is refused, or executed within limits to its end and never backwards."""
    by = float(name[6:])
    for mode in ("measured", "previous"):
        rig = Rig(start_from=mode)
        t = np.linspace(0, 1.6, 33)[1:]
        points = np.stack([minimum_jerk(t, 1.6, 0.8), -minimum_jerk(t, 1.6, 0.8)], -1)
        t0, what = rig.t, f"{mode}: "
        rig.traj(t, points, rig.clock() - round(by * NS))
        rig.go(3.0 if by < 1.2 else 8.0)  # the rest of the plan is slow, and the robot does not hurry to its end
        p = rig.played()[1][-1000:]
        if len(rig.arrivals) > rig.warmed and np.ptp(p, axis=0).max() + np.abs(p[-1]).max() > 1e-9:
            rig.good([1, -1], t0, what)
            rig.ends_at([0.8, -0.8], what=what)
        else:
            rig.check(bool(rig.rejections) or not rig.reports, f"{what}not executed ({list(rig.reasons())})")
        yield rig


@case("goal-0")
def goal_0(name: str) -> Iterator[Rig]:
    """One point at time 0, and 0.09, 0.008 or 0.5 rad away, is reached exactly and within limits."""
    rig = Rig()
    place = 0.0
    for d in (0.09, 0.008, 0.5):
        rig.traj([0.0], [[place + d, 0.0]])
        rig.go(2.0)
        off = abs(rig.place[0] - place - d)
        place = rig.place[0]
        refused = d > 0.1 and abs(off - d) < 1e-9 and "start_mismatch" in rig.reasons()
        rig.check(off < 1e-6 or refused, f"{d} rad away: ends {off:.2g} away {rig.reasons()}")
    rig.good(forward=1)
    yield rig


@case("goal-1")
def goal_1(name: str) -> Iterator[Rig]:
    """One point at 1 s is reached exactly and at 1 s plus the lead; the motion takes all of that time."""
    rig = Rig(warm=False)
    t0 = rig.t
    rig.traj([1.0], [[0.3, -0.3]])
    rig.go(2.0)
    rig.good(forward=[1, -1])
    rig.ends_at([0.3, -0.3])
    t, p = rig.played()
    there = t[np.argmax(np.abs(p - [0.3, -0.3]).max(axis=1) < 1e-5)] - t0
    # Without reports, the controller bridges to the start first.
    rig.check(0.9 < there < (1.15 if rig.reports else 1.4), f"there after {there:.3f} s")
    yield rig


@case("noisy-plan")
def noisy_plan(name: str) -> Iterator[Rig]:
    """A plan with noise of 1 mrad rests at its end: it is passed by little, with only velocity and position limits."""
    rig = Rig(limits={"v": 2.0, "a": None, "j": None, "lo": -2.9, "hi": 2.9})
    random_, t = np.random.default_rng(4), 0.02 * np.arange(1, 101)
    worst, speed, refused, sign, runs = 0.0, 0.0, 0, 1, []
    for _ in range(12):
        base = (0.0 if sign > 0 else 0.4) + minimum_jerk(t, 1.7, sign * 0.4)
        q = base[:, None] + random_.normal(scale=1e-3, size=(100, 2))
        n, t0 = len(rig.arrivals), rig.t
        rig.traj(t, q)
        rig.go(2.6)
        if len(rig.arrivals) == n:
            refused += 1
            continue
        runs.append((t0, rig.t, q, sign))
        sign = -sign
    for t0, t1, q, sign in runs:
        _, p, v, *_ = rig.rates(t0, t1)
        beyond = (sign * p - np.maximum(sign * q[-1], (sign * q).max(axis=0))).max()
        worst = max(worst, beyond, np.abs(p[-1] - q[-1]).max())
        speed = max(speed, np.abs(v).max())
    rig.check(worst < 3e-3, f"ends or goes {worst * 1e3:.2f} mrad beyond the last point")
    rig.check(speed < 0.9, f"speed {speed:.2f} (plan 0.44) rad/s")
    rig.check(not refused, f"{refused} of 12 refused")
    rig.within()
    yield rig


@case("first-50hz")
def first_50hz(name: str) -> Iterator[Rig]:
    """The first stamped messages of a stream of velocities at 50 Hz begin at rest and keep the limits."""
    limits = {"v": 2.0, "a": 7.5, "j": 3750.0, "lo": None, "hi": None}
    rig = Rig(limits=limits, start_from="previous", warm=False)
    for v in (0.1, 0.3, 0.3):
        n = len(rig.arrivals)
        rig.go(0.4, 0.02, partial(rig.seq, np.full((25, 2), v), 0.02, VEL))
        rig.check(len(rig.arrivals) > n + 3, f"{len(rig.arrivals) - n} published at {v} rad/s")
        rig.go(1.5)
    rig.good(forward=1)
    yield rig


@case("only-names")
def only_names(name: str) -> Iterator[Rig]:
    """No parameter but joint_names is given: nothing is published, and diagnostics say why."""
    rig = Rig(limits=None)
    for _ in range(3):
        rig.seq(np.ones((16, 2)), 0.04)
        rig.traj([1.0], [[0.1, 0.1]])
        rig.go(0.4)
    rig.check(not rig.arrivals, f"published {len(rig.arrivals)}")
    rig.check("no_limits" in rig.reasons(), f"{rig.reasons()}")
    answer = rig.stop()
    rig.check(bool(answer and answer.success), "stop answers")
    yield rig


@case("joint-rests")
def joint_rests(name: str) -> Iterator[Rig]:
    """One joint decelerates until it rests while the other one moves on, without jerk limits."""
    rig, spans = Rig(limits={"v": 2.0, "a": 10.0, "j": None, "lo": None, "hi": None}), []
    for dt, h, a in ((0.05, 3, 0.6), (0.02, 6, 1.0), (0.0625, 8, 1.5), (0.1, 4, 0.8), (0.05, 5, 2.0), (0.01, 20, 1.2)):
        n, t0 = len(rig.arrivals), rig.t
        rig.seq(np.stack([np.full(2 * h, 0.3), np.r_[np.full(h, a), np.full(h, -a)]], -1), dt, ACC)
        rig.go(2 * h * dt + 0.9)
        if rig.check(len(rig.arrivals) > n, f"dt {dt}: answered"):
            spans.append((dt, t0, rig.t))
    for dt, t0, t1 in spans:
        p = rig.rates(t0, t1)[1][:, 1]
        back = (np.maximum.accumulate(p) - p).max()
        rig.check(back < 1e-3, f"dt {dt}: back {back * 1e3:.2f} mrad")
    rig.good()
    yield rig


@case("past-position")
def past_position(name: str) -> Iterator[Rig]:
    """The planner is 0.1 rad behind the robot, which goes back no further than that, within limits."""
    rig = Rig(limits=FREE, start_from="previous")
    t0 = rig.t + 0.1
    rig.go(1.5, 0.1, rig.ramping(0.5, begin=t0, dt=0.04))
    left = ramp(rig.t - t0, 0.5)
    rig.go(2.0)
    t1, place = rig.t, rig.place[0]
    rig.go(2.0, 0.1, rig.ramping(0.5, begin=t1, dt=0.04, off=left))
    rig.go(1.5)
    rig.good()
    back, behind = place - rig.rates(t1)[1].min(), place - left
    rig.check(back < behind + 2e-3, f"goes back {back * 1e3:.1f} mrad, the planner is {1e3 * behind:.1f} behind")
    yield rig


@case("huge-dt")
def huge_dt(name: str) -> Iterator[Rig]:
    """Sequences have steps of 10 s or 1000 s, or one short step among long ones."""
    rig = Rig(limits=FREE, start_from="previous")
    rig.seq(0.2 * np.arange(1, 4), 10.0)
    rig.go(3.0)
    rig.seq(np.array([1.0, 2.0, 3.0]) * 100, 1000.0)
    rig.go(1.5)
    rig.stop()
    rig.go(1.0)
    x = rig.place[0]
    rig.seq(x + np.array([0.1, 0.1001, 0.5, 0.5, 0.5]), [1.0, 1e-3, 1.5, 0.2, 0.2])
    rig.go(4.5)
    rig.good()
    rig.ends_at([x + 0.5] * 2, 1e-5)
    rig.figures.append(f"{len(rig.arrivals)} published, {rig.reasons()}")
    yield rig

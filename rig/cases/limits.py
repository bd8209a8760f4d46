"""Limits: near them, beyond them, changed in motion."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from std_msgs.msg import String

from ..intentions import ramp
from ..planner import VEL
from ..rig import FREE, Rig
from .table import case


@case("parameters-in-motion")
def parameters_in_motion(name: str) -> Iterator[Rig]:
    """lead_time, fade_time and velocity limits (below the present speed) change in motion."""
    rig = Rig(limits=FREE, start_from="previous")
    t0 = rig.t + 0.1

    def send():
        return rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, 21), 1.0, 0.8), 0.05)

    rig.go(1.5, 0.1, send)
    said = []
    for change in (
        {"publish__lead_time": 0.1},
        {"publish__fade_time": 0.05},
        {"publish__lead_time": 0.03},
        {"publish__lead_time": 0.02},
    ):
        said += rig.set(**change) or [(False, "no answer")]
        rig.go(0.4, 0.1, send)
    lowered = rig.t
    said += rig.set(limits__velocity=[0.4, 0.4]) or [(False, "no answer")]
    rig.go(2.0, 0.1, send)
    rig.go(9.0)
    rig.parameters["publish__lead_time"] = 0.1
    rig.check(all(ok for ok, _ in said), f"set: {[why for ok, why in said if not ok]}")
    rig.within()
    rig.rests()
    rig.back([1, 1])
    _t, _p, v, *_ = rig.rates(lowered + 1.0)
    rig.check(
        np.abs(v).max() <= 0.4004,
        f"1 s after the limit was lowered to 0.4: {np.abs(v).max():.3f} rad/s; {rig.reasons()}",
    )
    yield rig


@case("urdf-in-motion")
def urdf_in_motion(name: str) -> Iterator[Rig]:
    """A URDF with lower limits arrives in motion, 0.6 rad before its position limit: the arm stays inside."""
    rig = Rig(limits=None, start_from="previous", limits__urdf="topic", limits__assumed_velocity=2.0)
    t0 = rig.t + 0.1

    def send():
        return rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, 21), 1.0, 0.8), 0.05)

    rig.go(1.8, 0.1, send)
    place = rig.robot._state.position[0]
    hi = place + 0.6
    limit = f'<limit lower="-3" upper="{hi}" velocity="0.5" effort="1" acceleration="4" jerk="100"/>'
    joints = "".join(
        f'<link name="l{i}"/><joint name="joint{i}" type="revolute"><parent link="base"/><child link="l{i}"/>'
        f'<axis xyz="0 0 1"/>{limit}</joint>'
        for i in range(2)
    )
    rig.description.publish(String(data=f'<?xml version="1.0"?><robot name="r"><link name="base"/>{joints}</robot>'))
    told = rig.t
    rig.go(3.0, 0.1, send)
    rig.go(1.5)
    rig.rests()
    t, p, v, _a, _j = rig.rates(told)
    rig.check(p.max() <= hi + 1e-6, f"position limit {hi - p.max():+.4f} rad left")
    late = t > told + 1.0
    rig.check(np.abs(v[late]).max() <= 0.5005, f"speed 1 s later {np.abs(v[late]).max():.3f} rad/s (limit 0.5)")
    rig.within(limits={"v": 2.0, "a": 16.0, "j": 256.0}, what="assumed at first: ")
    rig.figures.append(f"{rig.reasons()}, origin {rig.diag('limits')[:60]}")
    yield rig


@case("near-limit", "near-limit-velocity")
def near_limit(name: str) -> Iterator[Rig]:
    """A stream drives a joint towards its position limit: never beyond, within limits, and back again."""
    rig = Rig(start=[2.3, 0.0], limits={"v": 2.0, "a": 10.0, "j": 200.0, "lo": -2.9, "hi": 2.9}, start_from="previous")
    t0 = rig.t + 0.1
    x = 0.05 * np.arange(1, 17)

    def one(y):
        return np.stack([y, 0 * y], -1)

    if name == "near-limit":
        rig.go(2.5, 0.1, lambda: rig.seq(one(2.3 + ramp(rig.t - t0 + x, 0.8)), 0.05))
    else:
        rig.go(2.5, 0.1, lambda: rig.seq(one(np.full(16, 0.8)), 0.05, VEL))
    rig.go(1.0)
    place = rig.robot._state.position[0]
    n, t1 = len(rig.arrivals), rig.t
    if name == "near-limit":
        rig.go(1.5, 0.1, lambda: rig.seq(one(place - ramp(rig.t - t1 + x, 0.5)), 0.05))
    else:
        rig.go(1.5, 0.1, lambda: rig.seq(one(np.full(16, -0.5)), 0.05, VEL))
    rig.go(1.5)
    rig.within()
    rig.rests()
    rig.check(
        len(rig.arrivals) > n,
        f"came back by {len(rig.arrivals) - n} messages; nearest {2.9 - place:.4f} rad, {rig.reasons()}",
    )
    yield rig


@case("outside-limit")
def outside_limit(name: str) -> Iterator[Rig]:
    """The robot already is 0.05 rad beyond its limit, as after a tighter one: it can be moved in, not out."""
    rig = Rig(start=[2.95, 0.0], limits={"v": 2.0, "a": 10.0, "j": 200.0, "lo": -2.9, "hi": 2.9})
    rig.traj([1.0], [[3.0, 0.0]])
    rig.go(1.5)
    out = rig.robot._state.position[0]
    n = len(rig.arrivals)
    rig.traj([1.0], [[2.5, 0.0]])
    rig.go(2.0)
    rig.check(out <= 2.95 + 1e-6, f"outwards it went {out - 2.95:.4f} rad")
    rig.check(len(rig.arrivals) > n, f"inwards: {len(rig.arrivals) - n} published, {rig.reasons()}")
    if len(rig.arrivals) > n:
        rig.ends_at([2.5, 0.0])
    rig.within(limits={"v": 2.0, "a": 10.0, "j": 200.0})
    rig.rests()
    yield rig


@case("droop")
def droop(name: str) -> Iterator[Rig]:
    """An arm that hangs 20 mrad low: holding does not sink, and motions begin without a jump."""
    for desired in (True, False):
        rig = Rig(
            limits=FREE,
            start_from="previous",
            arm={"droop": [-0.02, 0.0]},
            desired=desired,
            warm=False,
        )
        label = f"interpolate_from_desired_state {desired}: "
        for _k in range(4):
            rig.go(0.5, 0.1, partial(rig.seq, np.zeros((4, 2)), 0.05, VEL))
            rig.go(1.2)
        _t, p = rig.played()
        d, _when = rig.jump()
        rig.check(
            abs(p[-1, 0]) < (1e-6 if rig.reports and desired else 0.0205), f"{label}sank {-p[-1, 0] * 1e3:.1f} mrad"
        )
        rig.check(d < 2.1e-3, f"{label}step {d * 1e3:.2f} mrad")
        rig.within(what=label)
        rig.rests(what=label)
        yield rig

"""Motions near limits and beyond them, and limits that change during a motion."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from std_msgs.msg import String

from ..intentions import ramp
from ..planner import VEL
from ..rig import FREE, Rig
from .table import case

_NARROW = {"v": 2.0, "a": 10.0, "j": 200.0, "lo": -2.9, "hi": 2.9}


@case("parameters-in-motion")
def parameters_in_motion(name: str) -> Iterator[Rig]:
    """During a motion, lead_time and bandwidth change, and velocity limits are set below the present speed."""
    rig = Rig(limits=FREE, start_from="previous")
    send, said = rig.ramping(1.0, 0.8, 20), []
    rig.go(1.5, 0.1, send)
    for parameter, value in (("lead_time", 0.1), ("bandwidth", 5.0), ("lead_time", 0.03), ("lead_time", 0.02)):
        said += rig.set(**{f"publish__{parameter}": value})
        rig.go(0.4, 0.1, send)
    lowered = rig.t
    said += rig.set(limits__velocity=[0.4, 0.4])
    rig.go(2.0, 0.1, send)
    rig.go(9.0)
    rig.parameters["publish__lead_time"] = 0.1
    rig.check(not said, f"set: {said}")
    rig.good(forward=1)
    speed = np.abs(rig.rates(lowered + 1.0)[2]).max()
    rig.check(speed <= 0.4004, f"1 s after the limit was lowered to 0.4: {speed:.3f} rad/s; {rig.reasons()}")
    yield rig


@case("urdf-in-motion")
def urdf_in_motion(name: str) -> Iterator[Rig]:
    """A URDF with lower limits arrives during a motion, 0.6 rad before its position limit, which the arm keeps."""
    rig = Rig(limits=None, start_from="previous", limits__urdf="topic", limits__assumed_velocity=2.0)
    send = rig.ramping(1.0, 0.8, 20)
    rig.go(1.8, 0.1, send)
    hi = rig.place[0] + 0.6
    limit = f'<limit lower="-3" upper="{hi}" velocity="0.5" effort="1" acceleration="4" jerk="100"/>'
    joints = "".join(
        f'<link name="l{i}"/><joint name="joint{i}" type="revolute"><parent link="base"/><child link="l{i}"/>'
        f'<axis xyz="0 0 1"/>{limit}</joint>'
        for i in range(2)
    )
    rig.description.publish(String(data=f'<?xml version="1.0"?><robot name="r"><link name="base"/>{joints}</robot>'))
    arrived = rig.t
    rig.go(3.0, 0.1, send)
    rig.go(1.5)
    rig.rests()
    t, p, v, *_ = rig.rates(arrived)
    rig.check(p.max() <= hi + 1e-6, f"position limit {hi - p.max():+.4f} rad left")
    speed = np.abs(v[t > arrived + 1.0]).max()
    rig.check(speed <= 0.5005, f"speed 1 s later {speed:.3f} rad/s (limit 0.5)")
    rig.within(limits={"v": 2.0, "a": 16.0, "j": 256.0}, what="assumed at first: ")
    rig.figures.append(f"{rig.reasons()}, origin {rig.diag('limits')[:60]}")
    yield rig


@case("near-limit", "near-limit-velocity")
def near_limit(name: str) -> Iterator[Rig]:
    """A stream drives a joint to its position limit and back: the joint never passes it, and keeps the other limits."""
    rig = Rig(start=[2.3, 0.0], limits=_NARROW, start_from="previous")

    def towards(speed: float, begin: float) -> None:
        times = rig.t - begin + 0.05 * np.arange(1, 17)
        velocities = name == "near-limit-velocity"
        column = np.full(16, speed) if velocities else place + ramp(times, speed)
        rig.seq(np.stack([column, 0 * column], -1), 0.05, *[VEL] * velocities)

    place = 2.3
    rig.go(2.5, 0.1, partial(towards, 0.8, rig.t + 0.1))
    rig.go(1.0)
    place, n = rig.place[0], len(rig.arrivals)
    rig.go(1.5, 0.1, partial(towards, -0.5, rig.t))
    rig.go(1.5)
    rig.good()
    back = len(rig.arrivals) - n
    rig.check(back > 0, f"came back by {back} messages; nearest {2.9 - place:.4f} rad, {rig.reasons()}")
    yield rig


@case("outside-limit")
def outside_limit(name: str) -> Iterator[Rig]:
    """The robot is 0.05 rad beyond its limit, as if that had been lowered: it can be moved back, not further out."""
    rig = Rig(start=[2.95, 0.0], limits=_NARROW)
    rig.traj([1.0], [[3.0, 0.0]])
    rig.go(1.5)
    out, n = rig.place[0], len(rig.arrivals)
    rig.traj([1.0], [[2.5, 0.0]])
    rig.go(2.0)
    rig.check(out <= 2.95 + 1e-6, f"outwards it went {out - 2.95:.4f} rad")
    if rig.check(len(rig.arrivals) > n, f"inwards: {len(rig.arrivals) - n} published, {rig.reasons()}"):
        rig.ends_at([2.5, 0.0])
    rig.within(limits=FREE)
    rig.rests()
    yield rig


@case("droop")
def droop(name: str) -> Iterator[Rig]:
    """An arm sags by 20 mrad: it does not sink further while it holds, and motions begin without a jump."""
    for desired in (True, False):
        arm = {"droop": [-0.02, 0.0]}
        rig = Rig(limits=FREE, start_from="previous", arm=arm, desired=desired, warm=False)
        label = f"interpolate_from_desired_state {desired}: "
        for _ in range(4):
            rig.go(0.5, 0.1, partial(rig.seq, np.zeros((4, 2)), 0.05, VEL))
            rig.go(1.2)
        sunk = -rig.played()[1][-1, 0]
        rig.check(abs(sunk) < (1e-6 if rig.reports and desired else 0.0205), f"{label}sank {sunk * 1e3:.1f} mrad")
        rig.steps(what=label)
        rig.good(what=label)
        yield rig

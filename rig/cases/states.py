"""Joint states that are wrong, late, reordered or absent."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from builtin_interfaces.msg import Time

from ..intentions import ramp, stream, way
from ..loop import doubles
from ..rig import FREE, Rig
from .stops import one_old_state
from .table import case


@case("nan-velocity")
def nan_velocity(name: str) -> Iterator[Rig]:
    """joint_states with NaN for velocities, as joint_state_broadcaster says where a joint has none."""
    rig = Rig(limits=FREE, start_from="previous")
    t0 = rig.t + 0.1

    def send():
        return rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, 17), 0.5), 0.05)

    rig.go(1.5, 0.1, send)
    bad = rig.t

    def nan(m):
        m.velocity = doubles([math.nan] * 2)
        return m

    rig.filter = nan
    rig.go(2.5, 0.1, send)
    rig.within()
    _t, _p, v, *_ = rig.rates(bad + 1.0)
    rests = np.abs(v).max() < 1e-6
    level = max(d["level"] for d in rig.diagnostics if d["t"] > bad + 0.8)
    supervised = rests or not any(
        d.get("state_age_s", "0") not in ("none",) and float(d["state_age_s"]) > 0.6
        for d in rig.diagnostics
        if d["t"] > bad + 0.8 and d.get("state_age_s") != "none"
    )
    rig.check(supervised, f"moves on without joint states that count: {not supervised}")
    rig.check(not rests or level >= 1, f"at rest: {rests}, level {level}, '{rig.diag()[:80]}'")
    rig.filter = None
    rig.go(1.0)
    rig.rests()
    yield rig


@case("no-states")
def no_states(name: str) -> Iterator[Rig]:
    """joint_states never come (a wrong name): does the node move an arm that it cannot see?"""
    rig = Rig(limits=FREE, start_from="previous", listen_states=False)
    t0 = rig.t + 0.1
    rig.go(2.0, 0.1, lambda: rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, 17), 0.5), 0.05))
    rig.go(1.0)
    level = max((d["level"] for d in rig.diagnostics if d["t"] > t0 + 0.5), default=-1)
    rig.check(
        not rig.arrivals,
        f"{len(rig.arrivals)} trajectories published without any joint state; level {level} '{rig.diag()[:70]}', "
        f"{rig.reasons()}",
    )
    if rig.arrivals:
        rig.within()
        rig.rests()
    yield rig


@case("zero-stamp")
def zero_stamp(name: str) -> Iterator[Rig]:
    """joint_states without stamps."""
    rig = Rig(limits=FREE, start_from="previous", arm={"lag": 0.02})

    def unstamped(m):
        m.header.stamp = Time()
        return m

    rig.filter = unstamped
    at = way(8, 2, 1.8, 8.0, 120.0, -1.5, 1.5, 3.0, [0, 0], begin=rig.t + 0.3)
    t0 = rig.t
    k = stream(rig, at, 4.0)
    rig.go(2.0)
    t, p, *_ = rig.rates(t0 + 1.0, t0 + 4.0)
    rig.check(len(rig.arrivals) - rig.warmed >= k, f"{len(rig.arrivals) - rig.warmed} of {k} published {rig.reasons()}")
    rig.check(np.abs(p - at(t)[0]).max() < 3e-3, f"error {np.abs(p - at(t)[0]).max() * 1e3:.2f} mrad")
    rig.within()
    rig.rests()
    yield rig


@case("slow-states")
def slow_states(name: str) -> Iterator[Rig]:
    """joint_states at 20 Hz, 50 ms late, of an arm that lags by 60 ms, at up to 1.8 rad/s: no false alarm."""
    rig = Rig(
        limits=FREE,
        start_from="previous",
        states_hz=20,
        states_delay=0.05,
        arm={"lag": 0.06},
    )
    at = way(18, 2, 1.8, 6.0, 100.0, -2.0, 2.0, 4.0, [0, 0], begin=rig.t + 0.3)
    t0 = rig.t
    k = stream(rig, at, 5.0)
    rig.go(2.0)
    t, p, *_ = rig.rates(t0 + 1.0, t0 + 5.0)
    rig.check(len(rig.arrivals) - rig.warmed >= k, f"{len(rig.arrivals) - rig.warmed} of {k} published {rig.reasons()}")
    rig.check(np.abs(p - at(t)[0]).max() < 3e-3, f"error {np.abs(p - at(t)[0]).max() * 1e3:.2f} mrad")
    rig.within()
    rig.rests()
    yield rig


@case("old-state")
def old_state(name: str) -> Iterator[Rig]:
    """One joint state with a stamp 0.2 s old (a second publisher) in motion at 0.8 rad/s; the stream goes on."""
    rig = Rig(limits=FREE, start_from="previous")
    t0 = rig.t + 0.1

    def send():
        return rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, 17), 0.8, 0.8), 0.05)

    rig.go(1.6, 0.1, send)

    one_old_state(rig)
    at = rig.t
    rig.go(2.5, 0.1, send)
    rig.go(1.5)
    d, when = rig.jump(at)
    rig.check(d < 2.1e-3, f"largest step of the command {d * 1e3:.2f} mrad in one cycle, {when - at:.2f} s after")
    rig.within()
    rig.rests()
    _t, _p, v, *_ = rig.rates(at, at + 2.5)
    rig.figures.append(f"slowest {v[:, 0].min():.2f} rad/s after; {rig.reasons()}")
    yield rig

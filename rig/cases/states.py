"""Joint states that are wrong, old or absent."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from sensor_msgs.msg import JointState

from ..loop import doubles
from ..rig import Rig
from .live import case, streaming
from .stops import one_old_state


@case("nan-velocity")
def nan_velocity(name: str) -> Iterator[Rig]:
    """Velocities in joint_states are NaN, as joint_state_broadcaster sends them for a joint that has none."""
    rig, send = streaming(0.5, 1.5)
    bad = rig.now

    def nan(m: JointState) -> JointState:
        m.velocity = doubles([math.nan] * 2)
        return m

    rig.filter = nan
    rig.go(2.5, 0.1, send)
    rig.within()
    rests = np.abs(rig.rates(bad + 1.0)[2]).max() < 1e-6
    level = max(rig.levels(bad + 0.8))
    ages = [d.get("state_age_s", "none") for d in rig.diagnostics if d["t"] > bad + 0.8]
    unseen = not rests and any(age != "none" and float(age) > 0.6 for age in ages)
    rig.check(not unseen, f"moves on without joint states that count: {unseen}")
    rig.check(not rests or level >= 1, f"at rest: {rests}, level {level}, '{rig.diag()[:80]}'")
    rig.filter = None
    rig.go(1.0)
    rig.rests()
    yield rig


@case("no-states")
def no_states(name: str) -> Iterator[Rig]:
    """No joint_states come, as with a wrong name: the node must not move an arm that it cannot see."""
    rig = Rig(states_hz=0)
    since = rig.now + 0.6
    rig.go(2.0, 0.1, rig.ramping(0.5))
    rig.go(1.0)
    published, level = len(rig.arrivals), max(rig.levels(since))
    said = f"level {level} '{rig.diag()[:70]}', {rig.reasons()}"
    rig.check(not published, f"{published} trajectories published without any joint state; {said}")
    yield rig


@case("old-state")
def old_state(name: str) -> Iterator[Rig]:
    """At 0.8 rad/s, a second publisher sends one joint state with a stamp 0.2 s old; the stream goes on."""
    rig, send = streaming(0.8, 1.6, 0.8)
    one_old_state(rig)
    at = rig.now
    rig.go(2.5, 0.1, send)
    rig.go(1.5)
    rig.steps(at)
    rig.good()
    rig.figures.append(f"slowest {rig.rates(at, at + 2.5)[2][:, 0].min():.2f} rad/s after; {rig.reasons()}")
    yield rig

"""Streams of chunks with noise, lags and inference, and controllers of other rates."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from ..rig import Rig
from ..senders import policy, way
from .live import case

_MEANT = 1.2, 4.0, 60.0
"""Velocity, acceleration and jerk of plans."""
_EXACT = {"bias": 0.0, "noise": 0.0, "jitter": 0.015}
"""Chunks without errors, up to 15 ms late."""
_LAGGING = {"lag": 0.04}
_ARMS = {
    "chunks-lag": {"lag": [0.026, 0.074], "droop": [0.01, -0.02]},
    "chunks-noise": {"lag": 0.02, "noise": 1e-4, "quantization": 1e-4},
}


@case("chunks", "chunks-inference", "chunks-lag", "chunks-noise")
def chunks(name: str) -> Iterator[Rig]:
    """Chunks at 10 Hz with jitter: acceleration and jerk, and the deviation from the intended motion."""
    rig = Rig(arm=_ARMS.get(name))
    at, t0 = way(5, _MEANT, 1.0, 4.0, [0, 0], rig.now + 0.3), rig.now
    sent = policy(rig, at, 5.0, inference=0.15 * (name == "chunks-inference"), **_EXACT)
    rig.go(2.5)
    *_, a, j = rig.follows(at, sent - 2, t0 + 1.2, t0 + 5.0, 3e-3)
    more = np.abs(a).max() / 4.0, np.abs(j).max() / 60.0
    rig.check(more[0] < 1.25, f"a {more[0]:.2f}x meant")
    rig.check(more[1] < 2.0, f"j {more[1]:.2f}x meant")
    rig.good()
    yield rig


@case("policy")
def pausing(name: str) -> Iterator[Rig]:
    """A policy sends chunks at 10 Hz for half a minute, 150 ms late and with pauses, to joints that lag by 40 ms."""
    rig, random_ = Rig(7, publish__lead_time=0.05, arm=_LAGGING), random.Random(4)
    for seed in range(6):
        at = way(seed, (0.5, 2.0, 20.0), 0.3, 3.0, rig.place, rig.now + 0.3)
        policy(rig, at, random_.uniform(2.0, 6.0), inference=0.15, **_EXACT)
        rig.go(random_.uniform(1.0, 2.0))
    rig.go(1.0)
    rig.good()
    yield rig


@case("period-2ms", "period-10ms")
def period(name: str) -> Iterator[Rig]:
    """The controller runs at 500 or 100 Hz, and the motion is judged at its cycles."""
    rate = 1000 // int(name[7:-2])
    rig = Rig(rate=rate, states_hz=rate)
    at, t0 = way(6, _MEANT, 1.0, 4.0, [0, 0], rig.now + 0.3), rig.now
    sent = policy(rig, at, 5.0, inference=0.0, **_EXACT)
    rig.go(2.5)
    a = np.abs(rig.follows(at, sent, t0 + 1.2, t0 + 5.0)[3]).max()
    rig.check(a < 5.0, f"a {a / 4:.2f}x meant")
    rig.good()
    statuses = {d.get("controller") for d in rig.diagnostics if d["t"] > t0 + 0.5}
    rig.check(not statuses & {"other", "restarted", "late", "blending"}, f"controller: {sorted(map(str, statuses))}")
    yield rig

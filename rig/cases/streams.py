"""Streams of chunks: rates, noise, lags, periods, joints."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from ..intentions import ramp, stream, way
from ..loop import NS, doubles
from ..rig import FREE, Rig
from .table import case


@case("chunks", "chunks-inference", "chunks-lag", "chunks-noise", "chunks-blend")
def chunks(name: str) -> Iterator[Rig]:
    """Chunks at 10 Hz with jitter: acceleration, jerk and error relative to what is meant."""
    arm = {
        "chunks-lag": {"lag": 0.04, "droop": [0.01, -0.02]},
        "chunks-noise": {"lag": 0.02, "noise": 1e-4, "quantization": 1e-4},
    }.get(name, {})
    blend = name == "chunks-blend"
    rig = Rig(
        limits=FREE,
        start_from="previous",
        arm=arm,
        hard=not blend,
        **({"publish__lead_in": False} if blend else {}),
    )
    at = way(5, 2, 1.2, 4.0, 60.0, -1.0, 1.0, 4.0, [0, 0], begin=rig.t + 0.3)
    t0 = rig.t
    k = stream(rig, at, 5.0, inference=0.15 if name == "chunks-inference" else 0.0)
    rig.go(2.5)
    t, p, _v, a, j = rig.rates(t0 + 1.2, t0 + 5.0)
    _, aa, jj = np.abs(a).max(), np.abs(a).max() / 4.0, np.abs(j).max() / 60.0
    error = np.abs(p - at(t)[0]).max()
    rig.check(
        len(rig.arrivals) - rig.warmed >= k - 2, f"{len(rig.arrivals) - rig.warmed} of {k} published {rig.reasons()}"
    )
    # Blending repeats a cycle at each replacement, which no sender can mend: shown, not judged.
    rig.check(aa < 1.25 or blend, f"a {aa:.2f}x meant")
    rig.check(jj < 2.0 or blend, f"j {jj:.2f}x meant")
    rig.check(error < 3e-3 or blend, f"error {error * 1e3:.2f} mrad")
    if not blend:
        rig.within()
    rig.rests()
    yield rig


@case("end")
def end(name: str) -> Iterator[Rig]:
    """Chunks end while the robot moves: a stop within the limits, at rest, not backwards."""
    rig = Rig(limits=FREE, start_from="previous")
    t0 = rig.t

    def at(x):
        return np.stack([np.repeat(ramp(np.asarray(x) - t0 - 0.3, 1.0, 0.8)[:, None], 2, 1)] * 3)

    stream(rig, at, 1.5, horizon=12)
    rig.go(2.0)
    rig.within()
    rig.rests()
    rig.back([1, 1], allowed=1e-4)
    yield rig


# Dangers of our own


@case("period-2ms", "period-8ms", "period-10ms")
def period(name: str) -> Iterator[Rig]:
    """A controller of 500, 125 or 100 Hz, judged at its own cycles."""
    rate = {"period-2ms": 500, "period-8ms": 125, "period-10ms": 100}[name]
    rig = Rig(
        limits=FREE,
        start_from="previous",
        rate=rate,
        states_hz=rate,
        judge=rate,
    )
    at = way(6, 2, 1.2, 4.0, 60.0, -1.0, 1.0, 4.0, [0, 0], begin=rig.t + 0.3)
    t0 = rig.t
    k = stream(rig, at, 5.0)
    rig.go(2.5)
    t, p, _v, a, _j = rig.rates(t0 + 1.2, t0 + 5.0)
    error = np.abs(p - at(t)[0]).max()
    rig.check(len(rig.arrivals) - rig.warmed >= k, f"{len(rig.arrivals) - rig.warmed} of {k} published {rig.reasons()}")
    rig.check(error < 3e-3, f"error {error * 1e3:.2f} mrad")
    rig.check(np.abs(a).max() < 5.0, f"a {np.abs(a).max() / 4:.2f}x meant")
    rig.within()
    rig.rests()
    statuses = {d.get("controller") for d in rig.diagnostics if d["t"] > t0 + 0.5}
    rig.check(not statuses & {"other", "restarted", "late", "blending"}, f"controller: {sorted(map(str, statuses))}")
    yield rig


@case("reordered")
def reordered(name: str) -> Iterator[Rig]:
    """joint_states name their joints in another order each time, with others among them."""
    rig = Rig(3, limits=FREE, start_from="previous")
    random_ = random.Random(2)

    def shuffle(m):
        order = list(range(5))
        random_.shuffle(order)
        names, p, v = [*m.name, "finger", "wheel"], [*m.position, 0.02, 99.0], [*m.velocity, 0.0, 7.0]
        m.name, m.position, m.velocity = (
            [names[i] for i in order],
            doubles([p[i] for i in order]),
            doubles([v[i] for i in order]),
        )
        return m

    rig.filter = shuffle
    at = way(7, 3, 1.2, 4.0, 60.0, -1.0, 1.0, 3.0, [0] * 3, begin=rig.t + 0.3)
    t0 = rig.t
    k = stream(rig, at, 4.0)
    rig.go(2.0)
    t, p, *_ = rig.rates(t0 + 1.0, t0 + 4.0)
    rig.check(len(rig.arrivals) - rig.warmed >= k, f"{len(rig.arrivals) - rig.warmed} of {k} published {rig.reasons()}")
    rig.check(np.abs(p - at(t)[0]).max() < 3e-3, f"error {np.abs(p - at(t)[0]).max() * 1e3:.2f} mrad")
    rig.within()
    rig.rests()
    yield rig


@case("replan-20hz-noise", "replan-50hz-noise", "replan-50hz-noise-lead-50ms", "replan-50hz-noise-lead-auto")
def replan_noise(name: str) -> Iterator[Rig]:
    """Positions replanned at 20 or 50 Hz, each plan off by a constant of its own of 1 mrad, 7 joints."""
    dof, rate = 7, int(name[7:9])
    rig = Rig(
        dof,
        limits={"v": 2.0, "a": 10.0, "j": 500.0, "lo": None, "hi": None},
        start_from="previous",
        publish__lead_time=0.05 if "lead-50ms" in name else 0.02,
        publish__lead_time_auto="lead-auto" in name,
    )
    at = way(16, dof, 1.0, 3.0, 40.0, -1.0, 1.0, 4.0, [0] * dof, begin=rig.t + 0.3)
    t0, random_ = rig.t, np.random.default_rng(6)

    def send():
        now = rig.now()
        rig.seq(
            at(now / NS + 0.04 * np.arange(1, 26))[0] + random_.normal(scale=1e-3, size=dof), 0.04, stamp=rig.clock(now)
        )

    rig.go(4.0, 1 / rate, send)
    rig.go(2.0)
    t, p, _v, a, _j = rig.rates(t0 + 1.0, t0 + 4.0)
    rig.check(np.abs(p - at(t)[0]).max() < 8e-3, f"error {np.abs(p - at(t)[0]).max() * 1e3:.2f} mrad")
    rig.within()
    rig.rests()
    rig.figures.append(
        f"a {np.abs(a).max() / 3:.2f}x meant, rms {np.sqrt((a**2).mean() / (at(t)[2] ** 2).mean()):.2f}x, "
        f"{len(rig.arrivals)} published {rig.reasons()}, p99 {rig.diag('sequence_latency_p99_ms')} ms, "
        f"lead {rig.diag('lead_time_ms')} ms"
    )
    yield rig


@case("joints-16")
def joints_16(name: str) -> Iterator[Rig]:
    """16 joints, chunks at 10 Hz."""
    dof = 16
    rig = Rig(dof, limits=FREE, start_from="previous")
    at = way(17, dof, 1.2, 4.0, 60.0, -1.0, 1.0, 4.0, [0] * dof, begin=rig.t + 0.3)
    t0 = rig.t
    k = stream(rig, at, 5.0)
    rig.go(2.5)
    t, p, _v, a, _j = rig.rates(t0 + 1.2, t0 + 5.0)
    rig.check(len(rig.arrivals) - rig.warmed >= k, f"{len(rig.arrivals) - rig.warmed} of {k} published {rig.reasons()}")
    rig.check(np.abs(p - at(t)[0]).max() < 3e-3, f"error {np.abs(p - at(t)[0]).max() * 1e3:.2f} mrad")
    rig.check(np.abs(a).max() < 5.0, f"a {np.abs(a).max() / 4:.2f}x meant")
    rig.within()
    rig.rests()
    rig.figures.append(f"p99 {rig.diag('sequence_latency_p99_ms')} ms")
    yield rig


@case("glitch")
def glitch(name: str) -> Iterator[Rig]:
    """A policy's chunk is 0.4 rad off for one message in a stream: within limits, and back on the way."""
    rig = Rig(limits=FREE, start_from="previous")
    t0 = rig.t + 0.1
    k = [0]

    def send():
        k[0] += 1
        rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, 17), 0.3) + (0.4 if k[0] == 15 else 0.0), 0.05)

    rig.go(3.0, 0.1, send)
    rig.go(1.5)
    rig.within()
    rig.rests()
    t, p, *_ = rig.rates(t0 + 2.6, t0 + 2.9)
    rig.check(
        np.abs(p[:, 0] - ramp(t - t0, 0.3)).max() < 3e-3,
        f"1 s later {np.abs(p[:, 0] - ramp(t - t0, 0.3)).max() * 1e3:.2f} mrad off",
    )
    yield rig

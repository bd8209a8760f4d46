"""Ends and restarts of the node and of the controller."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial

import numpy as np

from ..intentions import ramp
from ..rig import FREE, Rig
from .table import case


@case("reactivate")
def reactivate(name: str) -> Iterator[Rig]:
    """Deactivate and activate in motion, the stream goes on: ends at rest, and is joined without a jump."""
    rig = Rig(limits=FREE, start_from="previous")
    t0 = rig.t + 0.1

    def send():
        return rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, 41), 0.8, 0.8), 0.05)

    rig.go(1.6, 0.1, send)
    rig.check(rig.lifecycle(4), "deactivated")
    rig.go(0.05, 0.1, send)
    rig.check(rig.lifecycle(3), "activated")
    rig.go(4.0, 0.1, send)
    rig.go(7.0)
    d, _when = rig.jump()
    rig.check(d < 2.1e-3, f"largest step {d * 1e3:.2f} mrad")
    rig.within()
    rig.rests()
    rig.figures.append(f"{rig.reasons()}")
    yield rig


@case("ctrl-c", "killed")
def ctrl_c(name: str) -> Iterator[Rig]:
    """The node ends in motion: the motion in execution ends at rest, within limits."""
    rig = Rig(limits=FREE, start_from="previous")
    t0 = rig.t + 0.1

    def send():
        return rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, 17), 1.0, 0.8), 0.05)

    rig.go(1.6, 0.1, send)
    process = rig.node
    process.send_signal(signal.SIGINT if name == "ctrl-c" else signal.SIGKILL)
    rig.go(3.0, 0.1, send)
    code = process.poll()
    rig.node = None
    rig.check(code == (0 if name == "ctrl-c" else -9), f"exit {code}")
    rig.within()
    rig.rests()
    rig.back([1, 1])
    yield rig


def _chunk_from(rig: Rig, begin: float) -> None:
    """Sends a chunk of a motion that begins 20 mrad off."""
    rig.seq(0.02 + ramp(rig.t - begin + 0.05 * np.arange(1, 17), 0.5, 0.8), 0.05)


@case("cold-start")
def cold_start(name: str) -> Iterator[Rig]:
    """The first join after start-up, of a stream that begins 20 mrad off: in time, within limits (three starts)."""
    for _ in range(3):
        rig = Rig(7, limits=FREE, start_from="previous", warm=False)
        t0 = rig.t + 0.1
        rig.go(1.2, 0.1, partial(_chunk_from, rig, t0))
        rig.go(1.0)
        margins = [
            float(d["lead_margin_least_ms"])
            for d in rig.diagnostics
            if d["t"] > t0 - 0.1 and d.get("lead_margin_least_ms", "none") != "none"
        ]
        rig.check(
            min(margins) > 5.0,
            f"least margin before the plan is taken up {min(margins):.1f} ms of 20 ms (then {np.median(margins):.1f})",
        )
        rig.within()
        rig.rests()
        yield rig


@case("respawn")
def respawn(name: str) -> Iterator[Rig]:
    """The node is killed and comes back while the robot still executes its long motion, and the stream goes on."""
    rig = Rig(limits=FREE, start_from="previous", max_horizon=1000)
    rig.t + 0.1
    rig.seq(ramp(0.05 * np.arange(1, 600), 0.05, 0.8), 0.05)
    rig.go(1.6)
    rig.node.kill()
    rig.node.wait()
    rig.node = None
    rig.start_node()
    rig.wait_active(25)
    n = len(rig.arrivals)
    moving = np.abs(rig.robot._state.velocity).max()
    rig.go(2.0, 0.1, lambda: rig.seq(rig.robot._place[0] + 0.05 * 0.05 * np.arange(1, 17), 0.05))
    stop = rig.stop()
    rig.go(2.0)
    rig.check(moving > 0.04, f"moved at {moving:.3f} rad/s when the node was back")
    d, _when = rig.jump()
    rig.check(d < 2.1e-3, f"largest step {d * 1e3:.2f} mrad")
    rig.within()
    rig.rests()
    rig.figures.append(f"{len(rig.arrivals) - n} published, {rig.reasons()}, stop: {stop and stop.message}")
    yield rig


@case("abort")
def abort(name: str) -> Iterator[Rig]:
    """The controller aborts in motion (0.5 rad/s) and holds what it measures, at once, while the stream goes on."""
    rig = Rig(limits=FREE, start_from="previous", reports_hz=100)
    t0 = rig.t + 0.1

    def send():
        return rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, 17), 0.5, 0.8), 0.05)

    rig.go(1.6, 0.1, send)
    rig.go(0.05)
    at = rig.t
    rig.event(lambda r: r.restart())
    rig.go(0.05)
    rig.go(2.0, 0.1, send)
    rig.go(1.5)
    d, when = rig.jump(at + 0.004)
    rig.check(d < 2.1e-3, f"largest step of the command {d * 1e3:.2f} mrad in one cycle, {when - at:.2f} s after")
    rig.rests()
    rig.figures.append(f"{len(rig.arrivals)} published {rig.reasons()}")
    yield rig


@case("estop")
def estop(name: str) -> Iterator[Rig]:
    """Emergency stop in slow motion, off for 1.5 s, then holds the measured place: no motion, no jump."""
    rig = Rig(limits=FREE, start_from="previous", arm={"lag": 0.02})
    t0 = rig.t + 0.1

    def send():
        return rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, 17), 0.3, 0.8), 0.05)

    rig.go(1.6, 0.1, send)
    rig.event(lambda r: setattr(r, "frozen", True))
    rig.event(lambda r: setattr(r, "off", True))
    at = rig.t
    rig.go(1.5, 0.1, send)
    noticed = any(d["level"] >= 1 for d in rig.diagnostics if d["t"] > at + 0.3)
    rig.event(lambda r: (setattr(r, "off", False), setattr(r, "frozen", False), r.restart()))
    released = rig.t
    rig.go(2.0)
    x = rig.robot._state.position[0]
    t1 = rig.t
    rig.go(1.5, 0.1, lambda: rig.seq(x + ramp(rig.t - t1 + 0.05 * np.arange(1, 17), 0.3, 0.8), 0.05))
    rig.go(1.5)
    _t, p, _v, *_ = rig.rates(released + 0.01, t1)
    rig.check(np.abs(p - p[0]).max() < 1e-6, f"moves {np.abs(p - p[0]).max() * 1e3:.2f} mrad before the next sequence")
    rig.check(noticed, "diagnostics leave OK")
    rig.within(released + 0.01)
    rig.rests()
    rig.figures.append(f"{len(rig.arrivals)} published {rig.reasons()}")
    yield rig


@case("respawn-early", "respawn-stream")
def respawn_early(name: str) -> Iterator[Rig]:
    """The node is killed, comes back in a long motion, or a stream, and gets sequences before any report."""
    rig = Rig(limits=FREE, start_from="previous", max_horizon=1000)
    t0 = rig.t + 0.1
    rows, speed = (1000, 0.05) if name == "respawn-early" else (60, 0.5)

    def send() -> None:
        rig.seq(ramp(rig.t - t0 + 0.05 * np.arange(1, rows), speed, 0.8), 0.05)

    def go_on() -> None:
        rig.seq(rig.robot._place[0] + speed * 0.05 * np.arange(1, 17), 0.05)

    rig.go(1.6, 0.1, send)
    rig.node.kill()
    rig.node.wait()
    rig.node = None
    rig.start_node()
    published, known = len(rig.arrivals), len(rig.diagnostics)
    for _ in range(100):
        rig.go(0.25, 0.02, go_on)
        if any(d.get("lifecycle_state") == "active" for d in rig.diagnostics[known:]):
            break
    rig.go(2.0, 0.02, go_on)
    rig.stop()
    rig.go(2.0)
    rig.within()
    rig.rests()
    rig.back([1, 1])
    rig.figures.append(f"{len(rig.arrivals) - published} published, {rig.reasons()}")
    yield rig

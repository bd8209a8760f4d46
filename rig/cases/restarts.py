"""The node and the controller end or are restarted."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np

from ..rig import FREE, Rig
from .table import case


@case("reactivate")
def reactivate(name: str) -> Iterator[Rig]:
    """The node is deactivated and activated in a stream: the motion ends at rest, and begins again without a jump."""
    rig = Rig(limits=FREE, start_from="previous")
    send = rig.ramping(0.8, 0.8, 40)
    rig.go(1.6, 0.1, send)
    rig.check(rig.lifecycle(4), "deactivated")
    rig.go(0.05, 0.1, send)
    rig.check(rig.lifecycle(3), "activated")
    rig.go(4.0, 0.1, send)
    rig.go(7.0)
    rig.steps()
    rig.good()
    rig.figures.append(f"{rig.reasons()}")
    yield rig


@case("ctrl-c", "killed")
def ctrl_c(name: str) -> Iterator[Rig]:
    """The node ends during a motion, which ends at rest within limits."""
    rig = Rig(limits=FREE, start_from="previous")
    send = rig.ramping(1.0, 0.8)
    rig.go(1.6, 0.1, send)
    os.kill(rig.node.pid, signal.SIGINT if name == "ctrl-c" else signal.SIGKILL)
    rig.go(3.0, 0.1, send)
    code = None if rig.node.is_running() else rig.node.wait()
    rig.check(code == (0 if name == "ctrl-c" else -9), f"exit {code}")
    rig.good(forward=1)
    yield rig


@case("cold-start")
def cold_start(name: str) -> Iterator[Rig]:
    """The first blend after start-up, into a stream 20 mrad away, is in time and within limits (three starts)."""
    for _ in range(3):
        rig = Rig(7, limits=FREE, start_from="previous", warm=False)
        began, key = rig.t, "lead_margin_least_ms"
        rig.go(1.2, 0.1, rig.ramping(0.5, 0.8, off=0.02))
        rig.go(1.0)
        since = [d[key] for d in rig.diagnostics if d["t"] > began and d.get(key, "none") != "none"]
        margins = np.array(since, float)
        least, usual = margins.min(), np.median(margins)
        rig.check(least > 5.0, f"least margin before the plan is taken up {least:.1f} ms of 20 ms (then {usual:.1f})")
        rig.good()
        yield rig


@case("abort")
def abort(name: str) -> Iterator[Rig]:
    """The controller aborts a motion of 0.5 rad/s and holds the measured position at once, while the stream goes on."""
    rig = Rig(limits=FREE, start_from="previous", reports_hz=100)
    send = rig.ramping(0.5, 0.8)
    rig.go(1.6, 0.1, send)
    rig.go(0.05)
    at = rig.t
    rig.event(lambda r: r.restart())
    rig.go(0.05)
    rig.go(2.0, 0.1, send)
    rig.go(1.5)
    rig.steps(at + 0.004)
    rig.rests()
    rig.figures.append(f"{len(rig.arrivals)} published {rig.reasons()}")
    yield rig


@case("estop")
def estop(name: str) -> Iterator[Rig]:
    """After an emergency stop in slow motion, 1.5 s without power and a hold, nothing moves or jumps."""
    rig = Rig(limits=FREE, start_from="previous", arm={"lag": 0.02})
    send = rig.ramping(0.3, 0.8)
    rig.go(1.6, 0.1, send)
    rig.event(lambda r: vars(r).update(frozen=True, off=True))
    at = rig.t
    rig.go(1.5, 0.1, send)
    rig.check(any(rig.levels(at + 0.3)), "diagnostics leave OK")
    rig.event(lambda r: (vars(r).update(frozen=False, off=False), r.restart()))
    released = rig.t
    rig.go(2.0)
    t1 = rig.t
    rig.go(1.5, 0.1, rig.ramping(0.3, 0.8, begin=t1, off=rig.place[0]))
    rig.go(1.5)
    p = rig.rates(released + 0.01, t1)[1]
    rig.check(np.abs(p - p[0]).max() < 1e-6, f"moves {np.abs(p - p[0]).max() * 1e3:.2f} mrad before the next sequence")
    rig.within(released + 0.01)
    rig.rests()
    rig.figures.append(f"{len(rig.arrivals)} published {rig.reasons()}")
    yield rig


@case("respawn-early", "respawn-stream")
def respawn_early(name: str) -> Iterator[Rig]:
    """The node is killed and restarted in a long motion or a stream, and gets sequences before any report."""
    rig = Rig(limits=FREE, start_from="previous", max_horizon=1000)
    rows, speed = (999, 0.05) if name == "respawn-early" else (59, 0.5)

    def go_on() -> None:
        rig.seq(rig.robot._place[0] + speed * 0.05 * np.arange(1, 17), 0.05)

    rig.go(1.6, 0.1, rig.ramping(speed, 0.8, rows))
    rig.respawn()
    published, known = len(rig.arrivals), len(rig.diagnostics)
    for _ in range(100):
        rig.go(0.25, 0.02, go_on)
        if any(d.get("lifecycle_state") == "active" for d in rig.diagnostics[known:]):
            break
    rig.go(2.0, 0.02, go_on)
    rig.stop()
    rig.go(2.0)
    rig.good(forward=1)
    rig.figures.append(f"{len(rig.arrivals) - published} published, {rig.reasons()}")
    yield rig

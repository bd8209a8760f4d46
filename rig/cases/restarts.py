"""The node and the controller end or are restarted."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np

from ..rig import Rig
from .live import case, streaming


@case("reactivate")
def reactivate(name: str) -> Iterator[Rig]:
    """The node is deactivated and activated in a stream: the motion ends at rest, and begins again without a jump."""
    rig, send = streaming(0.8, 1.6, 0.8, 40)
    rig.check(rig.planner.change_state("deactivate"), "deactivated")
    rig.go(0.05, 0.1, send)
    rig.check(rig.planner.change_state("activate"), "activated")
    rig.go(4.0, 0.1, send)
    rig.go(7.0)
    rig.steps()
    rig.good()
    yield rig


@case("ctrl-c", "killed")
def ctrl_c(name: str) -> Iterator[Rig]:
    """The node ends during a motion, which ends at rest within limits."""
    rig, send = streaming(1.0, 1.6, 0.8)
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
        rig = Rig(7, warm=False)
        began, key = rig.now, "lead_margin_least_ms"
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
    rig, send = streaming(0.5, 1.6, 0.8, reports_hz=100)
    rig.go(0.05)
    at = rig.now
    rig.robot.restart()
    rig.go(0.05)
    rig.go(2.0, 0.1, send)
    rig.go(1.5)
    rig.steps(at + 0.004)
    rig.rests()
    yield rig


@case("estop")
def estop(name: str) -> Iterator[Rig]:
    """After an emergency stop in slow motion, 1.5 s without power and a hold, nothing moves or jumps."""
    rig, send = streaming(0.3, 1.6, 0.8, arm={"lag": 0.02})
    rig.robot.frozen = rig.robot.off = True
    at = rig.now
    rig.go(1.5, 0.1, send)
    rig.check(any(rig.levels(at + 0.3)), "diagnostics leave OK")
    rig.robot.frozen = False
    rig.robot.restart()
    released = rig.now
    rig.go(2.0)
    t1 = rig.now
    rig.go(1.5, 0.1, rig.ramping(0.3, 0.8))
    rig.go(1.5)
    p = rig.rates(released + 0.01, t1)[1]
    rig.check(np.abs(p - p[0]).max() < 1e-6, f"moves {np.abs(p - p[0]).max() * 1e3:.2f} mrad before the next sequence")
    rig.within(released + 0.01)
    rig.rests()
    yield rig


@case("respawn-early", "respawn-stream")
def respawn_early(name: str) -> Iterator[Rig]:
    """The node is killed and restarted in a long motion or a stream, and gets sequences before any report."""
    rows, speed = (999, 0.05) if name == "respawn-early" else (59, 0.5)
    rig, _ = streaming(speed, 1.6, 0.8, rows, max_horizon=1000)

    def go_on() -> None:
        rig.sequence(rig.robot.output()[0] + speed * 0.05 * np.arange(1, 17)[:, None], 0.05)

    rig.respawn()
    known = len(rig.diagnostics)
    for _ in range(100):
        rig.go(0.25, 0.02, go_on)
        if any(d.get("lifecycle_state") == "active" for d in rig.diagnostics[known:]):
            break
    rig.go(2.0, 0.02, go_on)
    rig.stop()
    rig.go(2.0)
    rig.good(forward=1)
    yield rig

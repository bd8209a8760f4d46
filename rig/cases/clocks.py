"""Clocks of the node, of the robot and of the planner that differ, or are set in motion."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..rig import Rig
from .live import case, streaming

_OFFSETS = {f"clock-{sign}{by}ms": int(f"{sign}{by}") * 1e-3 for by in (15, 60, 300) for sign in "+-"}
_STEPS = {f"clock-step-{sign}{by}ms": int(f"{sign}{by}") * 1e-3 for by in (30, 200) for sign in "+-"}


@case(*_OFFSETS)
def clock(name: str) -> Iterator[Rig]:
    """A stream, a stop and a plan keep limits while robot's and planner's clock is ahead or behind."""
    rig, _ = streaming(0.8, 1.6, 0.8, 24, shim=True, ahead=_OFFSETS[name])
    rig.stop()
    rig.go(1.0)
    place = rig.played()[1][-1]
    rig.plan([0.0, 1.0], [place, place + 0.2])
    rig.go(1.5)
    shown = rig.diag("clock_offset_ms")
    rig.check(abs(float(shown) - _OFFSETS[name] * 1e3) < 5, f"clock_offset_ms {shown}")
    rig.good(forward=1)
    yield rig


@case(*_STEPS, *(f"{name}-{whose}" for name in _STEPS for whose in ("node", "robot")))
def clock_step(name: str) -> Iterator[Rig]:
    """The clock of machine, node or robot is set during a motion, which comes to rest; then the next one begins."""
    rig, send = streaming(0.8, 1.38, 0.8, 24, shim=True)  # the controller executes motions by the other clock
    step = next(by for key, by in _STEPS.items() if name.startswith(key))
    rig.step_clock(step, node="robot" not in name, controller="node" not in name)
    if "robot" in name:  # the node knows it once stamps have agreed for 0.3 s
        rig.go(0.4)
    rig.go(1.5, 0.1, send)
    rig.go(2.0)
    place = rig.place
    rig.plan([0.0, 1.0], [place, place + 0.2])
    rig.go(1.5)
    rig.check(np.abs(rig.place - place - 0.2).max() < 1e-4, f"{rig.place - place} rad of the next plan, expected 0.2")
    rig.check(int(rig.diag("clock_steps")) >= 1, f"clock_steps {rig.diag('clock_steps')}")
    rig.good(forward=1)
    yield rig

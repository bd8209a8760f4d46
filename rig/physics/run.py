"""Runs scenarios, judges their figures, and prints them: `make rig ARGS=--physics`."""

from __future__ import annotations

import math
import time

from .packages import Absent
from .scene import Figures
from .scenes import PRESSES, SCENES, WITHOUT


def faults(name: str, figures: Figures, *, reports: bool = True) -> list[str]:
    """Return the requirements of a scenario that its figures do not meet."""
    most = {**SCENES[name].most}
    if not reports:
        most |= {key: top for key, top in PRESSES.items() if key in most} | {**WITHOUT.get(name, {})}
    return [f"{key} {_shown(figures.get(key, math.inf))}, expected at most {_shown(top)}" for key, top in most.items()
            if not figures.get(key, math.inf) <= top]  # fmt: skip


def run(names: list[str], *, seeds: int = 1, reports: bool = True) -> int:
    """Run scenarios with several seeds; return the number of runs that failed or could not be made."""
    failed = 0
    for name in names or [*SCENES]:
        for seed in range(seeds):
            began = time.monotonic()
            try:
                figures = SCENES[name].figures(seed, reports=reports)
            except Absent as absent:
                print(f"{name}: not run: {absent}")
                failed += 1
                break
            wrong = faults(name, figures, reports=reports)
            failed += bool(wrong)
            numbers = ", ".join(f"{key} {_shown(value)}" for key, value in figures.items())
            said = f"FAILS: {'; '.join(wrong)}" if wrong else "holds"
            print(f"{name} [{seed}] {said} ({numbers}; {time.monotonic() - began:.1f} s)", flush=True)
    print(f"{failed} runs do not hold, or were not made")
    return failed


def _shown(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "never"

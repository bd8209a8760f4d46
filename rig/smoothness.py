"""Smoothness of a case's command, held against a stored baseline."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .judge import REST_RAD_S, Judged, Smoothness, smoothness

BASELINE = Path(__file__).with_name("baseline.json")


def smoothness_of(runs: Iterable[Judged]) -> Smoothness:
    """The smoothness of all runs of a case, while they move."""
    runs = list(runs)
    stretches = [list(run.rates()[1:]) for run in runs]
    rate = runs[0].judge_rate
    moving = sum(int((np.abs(parts[1]) > REST_RAD_S).any(axis=1).sum()) for parts in stretches)
    return smoothness(stretches, rate, max(moving, 1) / rate)


def told(case: str, figures: Smoothness) -> str:
    """Words with the figures of a case, as parts of its baseline where there is one."""
    before = Smoothness(*json.loads(BASELINE.read_text(encoding="utf-8")).get(case, figures))
    parts = (
        f"{name.replace('_', ' ')} {value:.4g}" + (f" ({value / was:.3f} of baseline)" if was not in (0, value) else "")
        for name, value, was in zip(Smoothness._fields, figures, before, strict=True)
    )
    return ", ".join(parts)


def store(case: str, figures: Smoothness) -> None:
    """Make the figures of a case the baseline of later runs."""
    cases = json.loads(BASELINE.read_text(encoding="utf-8")) | {case: [float(f"{value:.4g}") for value in figures]}
    rows = ",\n".join(f'"{name}": {json.dumps(row)}' for name, row in sorted(cases.items()))
    BASELINE.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")

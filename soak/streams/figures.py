"""Smoothness, distance and lateness of executed streams, and refusals, compared with a baseline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rig import judge

from .core import Message
from .invariants import stretches_of
from .policies import POSITION
from .simulation import SECOND, Refusal, Run

BASELINE = Path(__file__).with_name("baseline.json")
_LEAST = 1e-9
"""Smallest figure of the baseline with which a ratio is formed: below it nothing moves."""


class Figures(NamedTuple):
    """The figures of one stream."""

    rms_acceleration: float
    peak_acceleration: float
    rms_jerk: float
    peak_jerk: float
    way: float
    lateness: float
    """Mean distance of the command from the newest accepted plan, divided by the plan's mean speed, s; NaN if no plan
    of positions moves.
    """
    refusals: float


PER_STREAM = ("rms_acceleration", "peak_acceleration", "rms_jerk", "peak_jerk", "way")
"""Figures that are compared stream by stream; the others are compared over all streams together."""


def figures_of(run: Run) -> Figures:
    """The figures of a stream whose commands are finite."""
    sending, rate = run.scene.sending, SECOND / run.period_ns
    stretches = [judge.differences(positions, rate) for positions in stretches_of(run)]
    smooth = judge.smoothness(stretches, rate, sending.end - sending.begin)
    refusals = sum(isinstance(it.answer, Refusal) for it in run.answers)
    return Figures(*smooth, _lateness(run), refusals)


def _lateness(run: Run) -> float:
    taken = [it for it in run.answers if isinstance(it.answer, Message) and it.chunk.space == POSITION]
    times_ns = [it.arrived_ns + run.scene.lead_time * SECOND for it in taken]
    times_ns.append(run.begin_ns + len(run.off) * run.period_ns)
    distance = speed = 0.0
    for it, begin_ns, end_ns in zip(taken, times_ns[:-1], times_ns[1:], strict=True):
        cycles = np.arange(max(run.cycle_at(begin_ns), 0), min(run.cycle_at(end_ns), len(run.off)))
        cycles = cycles[~run.off[cycles]]
        reached_ns = run.begin_ns + (cycles + 1) * run.period_ns  # joints reach a command a period after its cycle
        since = reached_ns - (it.chunk.stamp_ns or begin_ns)
        planned = _between(it.chunk.position, since / SECOND / it.chunk.dt)
        distance += np.abs(run.commands[0, cycles] - planned).sum()
        speed += np.abs(np.diff(planned, axis=0)).sum() * SECOND / run.period_ns
    return float(distance / speed) if speed > _LEAST else float("nan")


def _between(rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Rows `[N, D]` interpolated at fractional indices; after the last row, that row."""
    return np.stack([np.interp(at, np.arange(len(rows)), row) for row in rows.T], axis=1)


def load(path: Path = BASELINE) -> dict[str, Figures]:
    """The figures of streams in an earlier tree; empty if the file does not exist."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: Figures(*np.array(row, float).tolist()) for name, row in kept.items()}


def store(figures: Mapping[str, Figures], path: Path = BASELINE) -> None:
    """Add the figures of some streams, or replace them: a line for each."""
    rows = sorted((load(path) | figures).items())
    numbers = ([None if np.isnan(value) else float(f"{value:.4g}") for value in row] for _, row in rows)
    lines = (f'"{name}": {json.dumps(row)}' for (name, _), row in zip(rows, numbers, strict=True))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def ratios(figures: Mapping[str, Figures], before: Mapping[str, Figures]) -> dict[str, dict[str, float]]:
    """Ratios of the figures of `PER_STREAM` to those before, by seed."""
    common = figures.keys() & before.keys()
    return {
        name: {
            seed: getattr(figures[seed], name) / getattr(before[seed], name)
            for seed in sorted(common)
            if getattr(before[seed], name) > _LEAST
        }
        for name in PER_STREAM
    }


def compared(figures: Mapping[str, Figures], before: Mapping[str, Figures]) -> list[str]:
    """Lines of a table of figures relative to earlier ones; empty if they share no seed."""
    common = sorted(figures.keys() & before.keys())
    if not common:
        return []
    lines = [f"  as parts of the baseline, {len(common)} streams: mean, median, most"]
    for name, of_seeds in ratios(figures, before).items():
        if of_seeds:
            values, worst = [*of_seeds.values()], max(of_seeds, key=of_seeds.__getitem__)
            shown = f"{np.mean(values):8.3f} {np.median(values):7.3f} {max(values):8.3f} ({worst})"
            lines.append(f"    {name.replace('_', ' '):18}{shown}")
    pairs = np.array([[figures[seed].lateness, before[seed].lateness] for seed in common])
    late, was_late = pairs[np.isfinite(pairs).all(axis=1)].sum(axis=0)
    refused, was_refused = (int(sum(it[seed].refusals for seed in common)) for it in (figures, before))
    lines.append(f"    {'lateness':18}{late / max(was_late, _LEAST):8.3f} (all streams together)")
    lines.append(f"    {'refusals':18}{refused:8} of {was_refused} before")
    return lines

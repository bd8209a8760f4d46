"""The figures of streams are those of the commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from plain_scenes import streaming, way_to

from soak.streams.figures import Figures, compared, figures_of, load, ratios, store
from soak.streams.policies import POSITION, Form
from soak.streams.simulation import SECOND, Refusal, simulate

BEFORE = Figures(2.0, 4.0, 30.0, 50.0, 1.0, 0.01, 2.0)


def test_figures_are_those_of_what_is_commanded() -> None:
    run = simulate(streaming(way_to(0.5), Form(POSITION, 0.02, 40, stamped=True), rate=10, seconds=2.0))
    seconds = run.scene.sending.end - run.scene.sending.begin
    acceleration = np.diff(run.commands[0], n=2, axis=0) * (SECOND / run.period_ns) ** 2
    found = figures_of(run)
    assert found.rms_acceleration == pytest.approx(np.sqrt((acceleration**2).sum() * 1e-3 / seconds), rel=0.01)
    assert found.peak_acceleration == pytest.approx(np.abs(acceleration).max(), rel=0.01)
    assert found.way == pytest.approx(0.5, rel=1e-3) and found.lateness < 2e-3 and not found.refusals

    held = len(run.off) // 4
    late = np.concatenate([np.repeat(run.commands[:, :1], held, axis=1), run.commands[:, :-held]], axis=1)
    run.commands, run.answers[3].answer = late, Refusal("deviation", "a reason")
    other = figures_of(run)
    assert other.lateness > 100 * found.lateness and other.refusals == 1
    assert other.rms_jerk == pytest.approx(found.rms_jerk, rel=0.01)


def test_ratios_are_to_the_same_seeds_of_the_baseline(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    store({"seed 1": BEFORE, "seed 2": BEFORE._replace(lateness=float("nan"))}, file)
    kept = load(file)
    assert kept["seed 1"] == BEFORE and not load(tmp_path / "none.json")
    after = {"seed 1": BEFORE._replace(rms_jerk=45.0, lateness=0.02), "seed 2": BEFORE, "seed 3": BEFORE}
    assert ratios(after, kept)["rms_jerk"] == {"seed 1": 1.5, "seed 2": 1.0}
    told = "\n".join(compared(after, kept))
    assert "2 streams" in told and "1.250   1.250    1.500 (seed 1)" in told
    assert "2.000 (all streams together)" in told and "4 of 4 before" in told
    assert not compared(after, {})

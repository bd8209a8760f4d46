"""Every kind of `benchmarks.answering` measures what its name says: a sequence of that kind, answered accordingly."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import __main__ as program
from benchmarks import answering
from benchmarks.answering import (
    CYCLE_S,
    KINDS,
    NOW_NS,
    NS,
    SAMPLE,
    SAMPLE_US,
    SLOWED,
    begun,
    chunk,
    plan_within,
)


def test_what_is_exact_continues_the_plan_in_execution() -> None:
    plan = plan_within(np.random.default_rng(0))
    node = begun(plan)
    now_ns = NOW_NS + round(CYCLE_S * NS)
    node.answer(chunk(plan, CYCLE_S), now_ns)
    seam = node.published.last.seam_offset
    assert np.abs(seam.position).max() < 5e-5, "what is left of how it was begun"


def test_each_kind_is_bounded_but_for_what_is_slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "FEW", 3)
    rows = {case.name: program.measure("answering", case, quick=True) for case in answering.answering(quick=True)}
    (sample,), wrong = rows.pop(SAMPLE)
    assert not wrong and sample["most_us"] == SAMPLE_US
    assert list(rows) == [*KINDS]
    for kind, ((row,), wrong) in rows.items():
        assert not wrong
        assert (row["ours_us"] > 0, "most_met" in row, "worst_met" in row) == (True, kind != SLOWED, kind != SLOWED)


def test_a_refused_sequence_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_within(np.random.default_rng(0))
    before = {"exact": lambda rng: (begun(plan), chunk(plan, -1.0))}  # rows of the plan in execution
    monkeypatch.setattr(answering, "KINDS", before)
    assert answering.took_s("exact", 0)[1] == ""

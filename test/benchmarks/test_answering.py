"""Every kind of `benchmarks.answering` is measured on what it says: a sequence that is answered as such."""

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
    one_after_another,
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


def test_only_sequences_of_a_kind_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {3: (1e-3, ""), 4: (2e-3, "slowed"), 5: (3e-3, "exact"), 6: (4e-3, "exact")}
    monkeypatch.setattr(answering, "took_s", lambda kind, seed: answers.get(seed, (0.0, kind)))
    clock = one_after_another("exact")
    assert [clock(), clock()] == [3e-3, 4e-3]


def test_what_takes_too_long_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.0, 0.0, 0.5, 0.02, 0.011, 0.3])
    monkeypatch.setattr(answering, "took_s", lambda kind, seed: (next(times), kind))
    assert one_after_another("exact")() == 0.011


def test_a_refused_sequence_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_within(np.random.default_rng(0))
    before = {"exact": lambda rng: (begun(plan), chunk(plan, -1.0))}  # of the one in execution
    monkeypatch.setattr(answering, "KINDS", before)
    assert answering.took_s("exact", 0)[1] == ""

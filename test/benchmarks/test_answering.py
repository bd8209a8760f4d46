"""Every kind of `benchmarks.answering` is measured on what it says: a sequence that is answered as such."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import answering
from benchmarks.answering import CYCLE_S, KINDS, NOW_NS, NS, SLOWED, begun, chunk, plan_within


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_of_a_kind_are_answered_and_slowed_only_where_that_is_the_kind(kind: str) -> None:
    now_ns = NOW_NS + round(CYCLE_S * NS)
    for seed in range(3):
        node, fields = KINDS[kind](np.random.default_rng(seed))
        answer = node.answer(fields, now_ns, now_ns)
        assert answer is not None and answer.slowed == (kind == SLOWED)


def test_what_is_exact_continues_the_plan_in_execution() -> None:
    plan = plan_within(np.random.default_rng(0))
    node = begun(plan)
    now_ns = NOW_NS + round(CYCLE_S * NS)
    node.answer(chunk(plan, CYCLE_S), now_ns, now_ns)
    seam = node.published.last.seam
    assert np.abs(seam.position).max() < 5e-5, "what is left of how it was begun"


def test_the_table_has_a_line_for_each_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["answering", "--count", str(len(KINDS))])
    assert answering.main() in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[4:]] == [*KINDS]
    assert all(float(number) > 0 for line in lines[4:] for number in line.split(" | ")[1:4])

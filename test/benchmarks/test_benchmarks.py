"""The benchmarks check before they time, and report no speed for a wrong answer."""

from __future__ import annotations

from benchmarks import __main__ as program
from benchmarks import report
from benchmarks.registry import Case, Contender


def contender(name: str, result: int = 42, seconds: float = 1.0):
    def check(value: object) -> None:
        assert value == 42, f"expected 42, got {value}"

    return Contender(name, lambda: result, check, clock=lambda: seconds)


def case(**fields: object):
    return Case("case", 1, 32, 7, **fields)


def test_a_wrong_answer_has_no_speed():
    rows, wrong = program.measure("suite", case(ours=contender("ours", 41), peers=(contender("peer"),)), quick=True)
    assert rows == []
    assert len(wrong) == 1 and "ours: expected 42, got 41" in wrong[0]


def test_rows_compare_with_every_peer():
    timed = case(
        ours=contender("ours", seconds=0.01),
        peers=(contender("slow", seconds=0.04), contender("fast", seconds=0.001)),
        targets={"slow": 2.0, "fast": 2.0},
        added_targets_us={"fast": 9000.0},
        most_us=9999.0,
    )
    rows, wrong = program.measure("suite", timed, quick=True)
    assert not wrong
    slow, fast = rows
    assert (slow["peer"], slow["ours_us"], slow["peer_us"], slow["ratio"], slow["met"]) == ("slow", 1e4, 4e4, 4.0, True)
    assert (fast["ratio"], fast["met"]) == (0.1, False)
    assert (fast["added_us"], fast["added_met"], fast["most_met"]) == (9000.0, True, False)
    assert report.missed(rows) == rows and report.table(rows).count("MISSED") == 2

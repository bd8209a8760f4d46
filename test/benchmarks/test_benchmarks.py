"""The benchmarks check before they time, and report no speed for a wrong answer."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks import report
from benchmarks.registry import Case, Contender
from benchmarks.timing import time_interleaved


def contender(name: str, result: int, seconds: float = 0.0):
    def check(value: object) -> None:
        assert value == 42, f"expected 42, got {value}"

    def run() -> int:
        time.sleep(seconds)
        return result

    return Contender(name, run, check)


def case(**fields: object):
    return Case("case", 1, 32, 7, **fields)


def test_a_wrong_answer_has_no_speed():
    rows, wrong = program.measure("suite", case(ours=contender("ours", 41), peers=(contender("peer", 42),)), quick=True)
    assert rows == []
    assert len(wrong) == 1 and "ours: expected 42, got 41" in wrong[0]


def test_rows_compare_with_every_peer_and_with_the_limit():
    timed = case(
        ours=contender("ours", 42, 0.01),
        peers=(contender("slow", 42, 0.04), contender("fast", 42)),
        limit=contender("limit", 42, 0.005),
        targets={"slow": 2.0, "fast": 2.0, "limit": 0.9},
    )
    rows, wrong = program.measure("suite", timed, quick=True)
    assert not wrong
    keys = "suite case B H D dtype device ours_us peer peer_us ratio limit_us of_limit"
    assert all(set(keys.split()) <= row.keys() for row in rows)
    slow, fast = rows
    assert slow["peer"] == "slow" and slow["ratio"] > 2 and slow["met"]
    assert fast["ratio"] < 1 and not fast["met"]
    assert 0.2 < slow["of_limit"] < 0.9 and not slow["limit_met"]
    assert json.loads(json.dumps(rows)) == rows

    with_heads = report.table(rows).splitlines()
    assert with_heads[0].startswith("case ") and "MISSED" in with_heads[2]
    assert report.table(rows, heads=False).splitlines() == with_heads[1:]


def test_contenders_take_turns():
    calls: list[str] = []
    runs = [lambda name=name: (calls.append(name), time.sleep(0.002)) for name in "abc"]
    time_interleaved(runs, rounds=4, sample_s=0.001)
    turns = calls[15:]  # behind five calls each to warm up
    assert sorted(turns) == sorted("abc" * 4)
    assert ["".join(turns[i : i + 3]) for i in range(0, 12, 3)] == ["abc", "bca", "cab", "abc"]


def test_a_ratio_that_falls_by_more_than_a_quarter_is_a_regression(project_root: Path, tmp_path: Path, monkeypatch):
    def row(ratio: float, of_limit: float) -> dict[str, object]:
        return {"case": "c", "B": 1, "peer": "p", "ratio": ratio, "of_limit": of_limit}

    monkeypatch.setattr(program, "ROOT", tmp_path)
    kept = tmp_path / "kept.json"
    assert "no results are kept" in program.not_compared([row(1, 1)], kept)
    report.write([row(10.0, 0.8)], kept)
    assert program.slower([row(8.0, 0.7)], report.read(kept)) == []
    assert program.not_compared([row(8.0, 0.7)], kept) == ""
    assert "threads" in program.not_compared([{**row(8.0, 0.7), "threads": 9}], kept)
    (lost,) = program.slower([row(7.0, 0.7)], report.read(kept))
    assert "ratio 10.0 -> 7.0" in lost
    report.write([{**row(10.0, 0.8), "ours_us": 5.0}], kept)
    assert program.slower([{**row(7.0, 0.5), "ours_us": 4.9}], report.read(kept)) == [], "the others have become faster"
    assert len(program.slower([{**row(7.0, 0.5), "ours_us": 5.1}], report.read(kept))) == 2


def test_a_check_needs_one_suite_to_compare_and_says_which_it_could_not(tmp_path: Path, monkeypatch, capsys):
    row = {"case": "c", "B": 1, "peer": "p", "ratio": 2.0, "of_limit": None}
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.setattr(program, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(program, "SUITES", {"one": None, "two": None})
    monkeypatch.setattr(program, "run", lambda name, kept, quick: ([row], []))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--check"])
    assert program.main() == 1
    assert "no suite could be compared" in capsys.readouterr().err
    report.write([row], tmp_path / "results" / program.machine_name() / "one.json")
    assert program.main() == 0
    said = capsys.readouterr().out
    assert "two: no results are kept" in said and "one: " not in said


def test_a_ratio_within_the_spread_of_the_kept_runs_is_no_regression(tmp_path: Path, monkeypatch):
    def row(ratio: float) -> dict[str, object]:
        return {"case": "c", "B": 1, "peer": "p", "ratio": ratio}

    monkeypatch.setattr(program, "ROOT", tmp_path)
    kept = tmp_path / "kept.json"
    before = None
    for ratio in (90.0, 34.5, 25.0, 33.0, 26.0, 31.0):
        before = report.with_runs(row(ratio), before)
    assert before["ratio_runs"] == [34.5, 25.0, 33.0, 26.0, 31.0], "the latest five"
    report.write([before], kept)
    assert program.slower([row(23.3)], report.read(kept)) == [], "above three quarters of the median"
    (lost,) = program.slower([row(22.0)], report.read(kept))
    assert "-> 22.0" in lost


def test_the_command_knows_its_suites(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--help"])
    with pytest.raises(SystemExit, match="0"):
        program.main()
    assert "cpu_kernels" in capsys.readouterr().out


def test_kept_results_are_shown_without_a_measurement(project_root: Path, capsys):
    machine = next((project_root / "benchmarks" / "results").glob("*/cpu_kernels.json")).parent.name
    assert program.show(machine, ["cpu_kernels"]) == 0
    assert "matrix form" in capsys.readouterr().out
    assert program.show("abacus", ["cpu_kernels"]) == 1
    said = capsys.readouterr().err
    assert machine in said and "got abacus" in said

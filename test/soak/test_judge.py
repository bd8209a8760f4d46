"""What the soak calls a violation: nothing less than all of its promises, each by itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from soak.judge import Limits, violations
from soak.records import ClientRecord, NodeCounts, NodeSample, Record

MIB = 2**20


@pytest.fixture
def record() -> Record:
    """Ten seconds behind a warm-up of two, of which three sequences were refused and one answer was missed."""
    record = Record(warmup_s=2.0, duration_s=10.0, rates_hz={"robot": 100.0, "planner": 10.0, "optimizer": 5.0})
    for name, counts in {
        "robot": {"sent": 1200},
        "planner": {"sent": 120, "answered": 116, "missed": 1, "unknown": 0},
        "controller": {"received": 117, "missed": 0, "unfit": 0},
        "optimizer": {"called": 60, "answered": 60, "refused": 0},
    }.items():
        record.clients[name] = ClientRecord(counts, sending_s=12.0)
    for second in range(12):
        # The warm-up is as bad as can be, and does not count.
        slow = 50.0 if second < 2 else 1.0
        for name in ("planner", "optimizer"):
            record.clients[name].add({"latencies_ms": [slow] * 10}, second + 0.5)
        record.samples.append(NodeSample(second + 0.5, (300 if second < 2 else 400) * MIB, 0, 0, second * 0.2))
    record.counts = NodeCounts(120, 117, 60, 3, {"queue_overflow": 3})
    return record


def test_a_soak_in_which_everything_lost_was_counted_passes(record: Record) -> None:
    assert violations(record, Limits()) == []
    for change in (
        lambda record: (_counts(brakes=1)(record), _row("controller", missed=1)(record)),  # it answers no sequence
        _chunks(2000, late=20),
        lambda record: (  # two came too late for the robot, and had their batches
            _row("planner", answered=2)(record), _row("planner", sent=2)(record),
            _counts(sequences=122, batches=119, rejected=5)(record),
        ),
        lambda record: (_row("controller", missed=-1)(record), _counts(rejected=6)(record)),  # one waited for too long
    ):  # fmt: skip
        change(record)
        assert violations(record, Limits()) == []


def _counts(**changes: int) -> Callable[[Record], None]:
    def change(record: Record) -> None:
        record.counts = dataclasses.replace(record.counts, **changes)

    return change


def _row(client: str, **more: int) -> Callable[[Record], None]:
    def count(record: Record) -> None:
        counts = record.clients[client].counts
        counts.update({name: counts.get(name, 0) + number for name, number in more.items()})

    return count


def _faulty(client: str, **faults: int) -> Callable[[Record], None]:
    return lambda record: record.clients[client].add({"faults": faults}, 12.0)


def _slower(client: str) -> Callable[[Record], None]:
    return lambda record: record.clients[client].add({"latencies_ms": [1.6] * 10}, 11.5)


def _grown(record: Record) -> None:
    record.samples += [NodeSample(11.9, 405 * MIB, 0, 0, 0.0)] * 10


def _chunks(executed: int, late: int) -> Callable[[Record], None]:
    def change(record: Record) -> None:
        record.chunks = True
        record.clients["robot"].counts |= {"executed": executed, "late": late}

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_row("planner", sent=1), "sequences that the node counted: expected 121, got 120"),
        (_counts(sequences=119), "sequences that the node counted: expected 120, got 119"),
        (_counts(rejected=2), "sequences and calls refused, by reason: expected 3, got 2"),
        (_row("planner", answered=-1), "trajectory batches published: expected 117, got 116"),
        (_row("planner", answered=-1), "1 sequences lost: neither answered nor counted as rejected"),
        (_row("planner", unknown=1), "1 trajectory batches that answer no sequence of ours, or one twice"),
        (_row("controller", received=-1), "116 joint trajectories for 117 answered sequences"),
        (_counts(brakes=1), "116 joint trajectories for 117 answered sequences"),
        (_row("optimizer", answered=-1), "gradient calls answered or refused: expected 60, got 59"),
        (_counts(service_calls=59), "gradient calls that the node counted: expected 60, got 59"),
        (_faulty("controller", rest=1), "rest"),
        (_faulty("planner", finite=7), "finite (7 times)"),
        (_faulty("planner", **{f"fault {k}": 1 for k in range(7)}), "... and 2 more"),
        (
            lambda record: setattr(record.clients["robot"], "sending_s", 13.0),
            "expected 100 messages/s, got 92.3",
        ),
        (_grown, "memory: expected growth of at most 4 MiB from the first 5 s to the last, got 400.0 to 405.0 MiB"),
        (_slower("planner"), "planner latency: expected a p99 of the last 5 s of at most"),
        (_slower("optimizer"), "optimizer latency: expected a p99 of the last 5 s"),
        (lambda record: record.clients["planner"].latency_rows.clear(), "planner latency"),
        (lambda record: setattr(record, "exit_code", -11), "node: expected exit code 0, got -11"),
        (lambda record: setattr(record, "end", "the planner died"), "ended before its time: the planner died"),
        (_chunks(executed=0, late=0), "robot: expected trajectories to execute, got none"),
        (_chunks(2000, late=21), "at most 1 % of the trajectories to come too late after their own start, got 21 of"),
    ],
)
def test_a_violation_is_told(record: Record, change: Callable[[Record], None], expected: str) -> None:
    change(record)
    assert any(expected in line for line in violations(record, Limits())), violations(record, Limits())


def test_limits_are_the_users(record: Record) -> None:
    _grown(record)
    _slower("planner")(record)
    assert violations(record, Limits(p99_ratio=2.0, rss_growth=6.0)) == []


def test_windows_are_a_minute_long_where_there_are_two() -> None:
    long = Record(warmup_s=10.0, duration_s=600.0, rates_hz={})
    assert long.windows == ((10.0, 70.0), (550.0, 610.0))
    short = dataclasses.replace(long, duration_s=90.0)
    assert short.windows == ((10.0, 55.0), (55.0, 100.0))
    assert np.isnan(short.resident_mib()).all()

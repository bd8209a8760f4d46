"""The soak judges each of its promises separately."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import pytest

from soak.judge import Limits, violations
from soak.records import Client, NodeCounts, NodeSample, Record

MIB = 2**20


@pytest.fixture
def record() -> Record:
    """Ten seconds after a warm-up of two; three sequences were refused and one answer was missed."""
    record = Record(warmup_s=2.0, duration_s=10.0, rates_hz={"robot": 100.0, "planner": 10.0, "optimizer": 5.0})
    for name, counts in {
        "robot": {"sent": 1200},
        "planner": {"sent": 120, "answered": 116, "missed": 1, "unknown": 0},
        "controller": {"received": 117, "missed": 0, "unfit": 0},
        "optimizer": {"sent": 60, "answered": 60, "refused": 0},
    }.items():
        record.clients[name] = Client()
        record.clients[name].counts.update(counts)
    for second in range(12):
        # The warm-up has the worst figures, and does not count.
        slow = 50.0 if second < 2 else 1.0
        for name in ("planner", "optimizer"):
            _takes(name, slow / 1e3, second + 0.5)(record)
        record.samples.append(NodeSample(second + 0.5, (300 if second < 2 else 400) * MIB, second * 0.2))
    for client in record.clients.values():
        client.at_s = 12.0
    record.counts = NodeCounts(120, 117, 60, 3, {"queue_overflow": 3})
    record.stops_s = [0.004] * 20
    return record


def test_a_soak_in_which_everything_lost_was_counted_passes(record: Record) -> None:
    assert violations(record, Limits()) == []
    for changes in (
        (_node(brakes=1), _client("controller", missed=1)),  # it answers no sequence
        # Two came too late for the robot, but had their batches.
        (_client("planner", sent=122, answered=118), _node(sequences=122, batches=119, rejected=5)),
        (_client("controller", missed=0), _node(rejected=6)),  # one waited for too long
        (_client("optimizer", answered=50, refused=10), _node(rejected=16)),  # ten calls were refused: busy
    ):
        for change in changes:
            change(record)
        assert violations(record, Limits()) == []


Change = Callable[[Record], object]


def _node(**counts: int) -> Change:
    return lambda record: setattr(record, "counts", dataclasses.replace(record.counts, **counts))


def _client(name: str, **counts: int) -> Change:
    return lambda record: dict.update(record.clients[name].counts, counts)


def _faulty(client: str, **faults: int) -> Change:
    return lambda record: record.clients[client].faults.update(faults)


def _takes(client: str, took_s: float, at_s: float = 11.5) -> Change:
    def change(record: Record) -> None:
        of = record.clients[client]
        before_s, of.at_s = of.at_s, at_s
        of.take(*[took_s] * 10)
        of.at_s = before_s

    return change


_slower = partial(_takes, took_s=1.6e-3)
_late = partial(_takes, took_s=1.2)


def _grown(record: Record) -> None:
    record.samples += [NodeSample(11.9, 405 * MIB, 0.0)] * 10


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_client("planner", sent=121), "sequences that the node counted: expected 121, got 120"),
        (_node(sequences=119), "sequences that the node counted: expected 120, got 119"),
        (_node(rejected=2), "sequences and calls refused, by reason: expected 3, got 2"),
        (_client("planner", answered=115), "trajectory batches published: expected 117, got 116"),
        (_client("planner", answered=115), "1 sequences lost: neither answered nor counted as rejected"),
        (_client("planner", unknown=1), "1 trajectory batches that answer no sequence of ours, or one twice"),
        (_client("controller", received=116), "116 joint trajectories for 117 answered sequences"),
        (_node(brakes=1), "116 joint trajectories for 117 answered sequences"),
        (_client("optimizer", answered=59), "gradient calls answered or refused: expected 60, got 59"),
        (_node(service_calls=59), "gradient calls that the node counted: expected 60, got 59"),
        (_faulty("controller", rest=1), "rest"),
        (_faulty("planner", finite=7), "finite (7 times)"),
        (_faulty("planner", **{f"fault {k}": 1 for k in range(7)}), "... and 2 more"),
        (lambda record: setattr(record.clients["robot"], "at_s", 13.0), "expected 100 messages/s, got 92.3"),
        (_grown, "memory: expected growth of at most 4 MiB from the first 5 s to the last, got 400.0 to 405.0 MiB"),
        (_slower("planner"), "planner latency: expected a p99 of the last 5 s of at most"),
        (_late("optimizer"), "optimizer: expected every answer within 1 s, got 10 later, at worst 1.20 s"),
        (_late("controller"), "controller: expected every motion after the one before within 1 s, got 10 later"),
        (lambda record: record.stops_s.append(float("inf")), "operator: 1 of 21 calls of ~/stop lost"),
        (lambda record: record.stops_s.clear(), "operator: expected answers of ~/stop, got none"),
        (
            lambda record: record.stops_s.extend([0.03] * 30),
            "operator: expected 50% of ~/stop to be answered within 0.02 s, got 0.030 s",
        ),
        (
            lambda record: (setattr(record, "priority", True), record.stops_s.extend([0.03] * 3)),
            "operator: expected 95% of ~/stop to be answered within 0.02 s, got 0.030 s",
        ),
        (
            lambda record: record.stops_s.append(2.7),
            "operator: expected every ~/stop to be answered within 1 s, got 2.700 s",
        ),
        (_slower("optimizer"), "optimizer latency: expected a p99 of the last 5 s"),
        (lambda record: record.clients["planner"].reset(), "planner latency"),
        (lambda record: setattr(record, "exit_code", -11), "node: expected exit code 0, got -11"),
        (lambda record: setattr(record, "end", "the planner died"), "ended before its time: the planner died"),
    ],
)
def test_a_violation_is_told(record: Record, change: Change, expected: str) -> None:
    change(record)
    assert any(expected in line for line in violations(record, Limits())), violations(record, Limits())


def test_limits_are_the_users(record: Record) -> None:
    _grown(record)
    _slower("planner")(record)
    assert violations(record, Limits(p99_ratio=2.0, rss_growth=6.0)) == []


def test_under_overload_answers_must_come_but_neither_at_the_rate_nor_steadily(record: Record) -> None:
    record.load = 4.0
    record.clients["robot"].at_s = 13.0
    _slower("planner")(record)
    assert violations(record, Limits()) == []
    _late("optimizer")(record)
    assert len(violations(record, Limits())) == 1

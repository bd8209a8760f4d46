"""Numbers that publishers give to their messages: those that did not arrive are counted."""

from __future__ import annotations

from traj_integrator_ros.wire.readers import SequenceGaps


def info(number: int, publisher: bytes = b"a") -> dict[str, object]:
    return {"publication_sequence_number": number, "publisher_gid": {"data": publisher}}


def test_gaps_are_counted_for_each_publisher() -> None:
    gaps = SequenceGaps()
    messages = [(7, b"a"), (1, b"b"), (8, b"a"), (2, b"b"), (12, b"a"), (3, b"b")]
    assert [gaps.missed_before(info(*message)) for message in messages] == [0, 0, 0, 0, 3, 0]


def test_a_middleware_without_numbers_has_no_gaps() -> None:
    gaps = SequenceGaps()
    for given in ({}, {"publication_sequence_number": None}, {"publication_sequence_number": 9}):
        assert gaps.missed_before(given) == 0


def test_where_publishers_are_not_named_gaps_are_counted_while_there_is_one() -> None:
    gaps = SequenceGaps()
    seen = [(3, 1), (5, 1), (100, 2), (6, 2), (200, 1), (202, 1)]
    missed = [
        gaps.missed_before({"publication_sequence_number": number}, lambda count=count: count) for number, count in seen
    ]
    assert missed == [0, 1, 0, 0, 0, 1]


def test_publishers_that_come_and_go_are_forgotten() -> None:
    gaps = SequenceGaps()
    for number in range(10_000):
        gaps.missed_before(info(1, str(number).encode()))
    assert len(gaps._last) <= 64

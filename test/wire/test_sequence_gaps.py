"""Numbers that publishers give to their messages: those that did not arrive are counted."""

from __future__ import annotations

from traj_integrator_ros.wire.sequence_gaps import SequenceGaps


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


def test_publishers_that_come_and_go_are_forgotten() -> None:
    gaps = SequenceGaps()
    for number in range(10_000):
        gaps.missed_before(info(1, str(number).encode()))
    assert len(gaps._last) <= 64

"""Sequences that differ from an earlier one in numbers only, read from their bytes into the same arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import serialize_message

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_ros.handling.rejection import Rejected
from traj_integrator_ros.handling.requests import RepeatedFields
from traj_integrator_ros.traffic.messages import floats, sequence
from traj_integrator_ros.wire import kept_messages
from traj_integrator_ros.wire.received_messages import ActionSequenceReader, ReceivedSequence

pytestmark = [
    pytest.mark.ros,
    pytest.mark.skipif(kept_messages._native is None, reason="traj_integrator_ros.wire._native is not built"),
]
JOINTS = ["shoulder", "elbow"]


def message(seed: int = 0, horizon: int = 5) -> ActionSequence:
    """A sequence with something in every field; numbers and stamp by `seed`."""
    rng = np.random.default_rng(seed)
    made = sequence(rng.normal(size=(3, horizon, 2)), position=rng.normal(size=(2, 2)), dt=[0.1, 0.2])
    made.header.frame_id, made.joint_names = "base", JOINTS
    made.header.stamp.sec, made.header.stamp.nanosec = seed, 7
    made.start.velocity = floats(rng.normal(size=4))
    made.start_index.extend([0, 1, 1])
    made.goal.position = floats(rng.normal(size=2))
    made.goal_index.extend([0, 0, 0])
    made.degree, made.steps = 4, 2
    return made


def serialized(made: ActionSequence) -> bytes:
    return bytes(serialize_message(made))


def outcome(reader: ActionSequenceReader, data: bytes) -> str:
    """What a reader makes of bytes: all values, or why there are none."""
    try:
        stamp, fields = reader.read(data)
    except Rejected as error:
        return str(error)
    values = [value.tobytes() if isinstance(value, np.ndarray) else value for value in fields]
    return repr((stamp, values))


def read_before(*made: ActionSequence) -> ActionSequenceReader:
    """A reader that has kept these."""
    reader = ActionSequenceReader()
    for one in made:
        assert [type(reader.read(serialized(one)).fields) for _ in range(3)][-1] is RepeatedFields
    return reader


@pytest.fixture(scope="module")
def reader() -> ActionSequenceReader:
    """A reader that keeps the sequence of `message`."""
    return read_before(message())


def test_from_the_third_time_on_the_fields_are_the_same_with_the_new_numbers_and_stamp(
    reader: ActionSequenceReader,
) -> None:
    first = reader.read(serialized(message(0))).fields
    for seed in range(1, 4):
        received: ReceivedSequence = reader.read(serialized(message(seed)))
        assert received.fields is first
        assert received.stamp == (seed, 7)
        assert outcome(reader, serialized(message(seed))) == outcome(ActionSequenceReader(), serialized(message(seed)))


@given(data=st.data(), count=st.integers(1, 4))
def test_whatever_the_bytes_are_they_are_read_as_by_a_reader_that_keeps_nothing(
    reader: ActionSequenceReader, data: st.DataObject, count: int
) -> None:
    changed = bytearray(serialized(message(data.draw(st.integers(0, 3)))))
    for _ in range(count):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at] = data.draw(st.integers(0, 255))
    some = bytes(changed[: data.draw(st.one_of(st.just(len(changed)), st.integers(0, len(changed))))])
    assert outcome(reader, some) == outcome(ActionSequenceReader(), some)
    assert outcome(reader, serialized(message(9))) == outcome(ActionSequenceReader(), serialized(message(9)))


def test_every_byte_that_is_no_number_makes_it_another_sequence() -> None:
    """Nothing of what was checked may differ; padding has no meaning, and the last bytes are the middleware's."""
    data = serialized(message())
    reader, differs = read_before(message()), set()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        before = reader._kept.read_again(data)
        if reader._kept.read_again(bytes(changed)) is not before:
            differs.add(at)
    fields = read_before(message()).read(data).fields
    numbers = sum(values.nbytes for values in (fields.data, fields.start_position, fields.start_velocity))
    numbers += fields.goal_position.nbytes
    stamp, encoding_options, padding = 8, 2, len(data) - len(data.rstrip(b"\0")) + 16
    assert len(data) - numbers - stamp - encoding_options - padding <= len(differs) <= len(data) - numbers - stamp


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["data", "start", "goal"])
def test_numbers_that_are_not_finite_are_read_anew_and_the_next_ones_are_not(
    reader: ActionSequenceReader, field: str, value: float
) -> None:
    bad = message(1)
    numbers = bad.data if field == "data" else getattr(bad, field).position
    numbers[0] = value
    assert type(reader.read(serialized(bad)).fields) is not RepeatedFields
    assert outcome(reader, serialized(bad)) == outcome(ActionSequenceReader(), serialized(bad))
    assert type(reader.read(serialized(message(2))).fields) is RepeatedFields


def test_sequences_of_two_shapes_that_alternate_are_both_kept() -> None:
    reader, kinds = ActionSequenceReader(), (message(0, 5), message(0, 6))
    for seed in range(4):
        found = [reader.read(serialized(message(seed, horizon))).fields for horizon in (5, 6)]
    assert [type(fields) for fields in found] == [RepeatedFields] * 2
    assert [reader.read(serialized(one)).fields for one in kinds] == found


def test_what_was_read_before_it_was_kept_does_not_change() -> None:
    reader = ActionSequenceReader()
    received = [reader.read(serialized(message(seed))).fields for seed in range(2)]
    expected = [ActionSequenceReader().read(serialized(message(seed))).fields for seed in range(2)]
    reader.read(serialized(message(5)))
    for got, want in zip(received, expected, strict=True):
        np.testing.assert_array_equal(got.data, want.data)


def test_sequences_in_the_other_byte_order_are_read_anew() -> None:
    reader, data = ActionSequenceReader(), bytes(200)
    kinds = {type(reader.read(data).fields) for _ in range(5)}
    assert RepeatedFields not in kinds


def test_too_large_sequences_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_messages, "MOST_BYTES", len(serialized(message())) - 1)
    reader = ActionSequenceReader()
    assert RepeatedFields not in {type(reader.read(serialized(message(seed))).fields) for seed in range(5)}

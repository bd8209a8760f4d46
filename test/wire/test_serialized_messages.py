"""Messages written and read as bytes, against rclpy's own serialization."""

from __future__ import annotations

import importlib
import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Transform, Twist
from hypothesis import given
from hypothesis import strategies as st
from node_fixtures import JOINTS
from rclpy.serialization import deserialize_message, serialize_message
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_ros.client import packed, stamp_of
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.parameters.parameters import NodeParameters, default_values
from traj_integrator_ros.requests.position_trajectory import plan_of_positions
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason
from traj_integrator_ros.wire import writers
from traj_integrator_ros.wire.readers import (
    SequenceGaps,
    controller_state_reader,
    read_action_sequence,
    read_joint_state,
    read_position_trajectory,
)
from traj_integrator_ros.wire.writers import JointTrajectoryWriter, serialize_batch

pytestmark = pytest.mark.ros
SECOND = 10**9
POINT_ARRAYS = ("positions", "velocities", "accelerations")
# Neither a zero nor half of a surrogate pair can be in a string of a message.
name = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
names = st.lists(name, min_size=1, max_size=32)
stamps = st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1))
seeds = st.integers(0, 2**32 - 1)
damages = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=4)


def points_of(seed: int, count: int, dof: int, accelerations: bool = True) -> Points:
    rng = np.random.default_rng(seed)
    time_ns = np.sort(rng.integers(0, 2 ** rng.integers(20, 60), count))
    position, velocity, acceleration = rng.normal(size=(3, count, dof)) * 10.0 ** rng.integers(-300, 300)
    return Points(time_ns, position, velocity, acceleration if accelerations else None)


def built(joint_names: list[str], points: Points, stamp: tuple[int, int]) -> JointTrajectory:
    """The message as objects."""
    message = JointTrajectory(joint_names=joint_names)
    message.header.stamp.sec, message.header.stamp.nanosec = stamp
    none = np.zeros((len(points.time_ns), 0))
    accelerations = none if points.acceleration is None else points.acceleration
    parts = (part.tolist() for part in (points.time_ns, points.position, points.velocity, accelerations))
    for time, *values in zip(*parts, strict=True):
        point = JointTrajectoryPoint(time_from_start=Duration(sec=time // SECOND, nanosec=time % SECOND))
        point.positions, point.velocities, point.accelerations = values
        message.points.append(point)
    return message


shapes = st.lists(st.tuples(st.integers(1, 100), st.booleans()), min_size=1, max_size=3)


@given(names, shapes, stamps, seeds)
def test_joint_trajectories_are_what_rclpy_makes_of_the_objects(
    joint_names: list[str], shapes: list[tuple[int, bool]], stamp: tuple[int, int], seed: int
) -> None:
    writer = JointTrajectoryWriter(tuple(joint_names))
    for number, (count, accelerations) in enumerate([*shapes, shapes[-1]]):
        points = points_of(seed + number, count, len(joint_names), accelerations)
        message = built(joint_names, points, stamp)
        assert deserialize_message(writer.serialize(points, stamp), JointTrajectory) == message


def test_a_middleware_with_another_layout_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "deserialize_message", lambda data, kind: kind(joint_names=JOINTS))
    with pytest.raises(RuntimeError, match="expected messages in plain little-endian CDR, got another layout"):
        JointTrajectoryWriter(JOINTS)


@given(names, st.integers(0, 4), st.integers(0, 5), stamps, seeds)
def test_a_batch_is_what_rclpy_makes_of_the_object(
    joint_names: list[str], batch: int, horizon: int, stamp: tuple[int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    time = rng.random(horizon).astype(np.float32)
    arrays = rng.normal(size=(4, batch, horizon, len(joint_names))).astype(np.float32)
    message = TrajectoryBatch(joint_names=joint_names, batch=batch, horizon=horizon, time_from_start=packed(time))
    message.header.stamp.sec, message.header.stamp.nanosec = stamp
    message.position, message.velocity, message.acceleration, message.jerk = map(packed, arrays)
    data = serialize_batch(tuple(joint_names), stamp, batch, horizon, time, arrays)
    assert deserialize_message(data, TrajectoryBatch) == message


LETTERS = ["a", "_", "\n", "ü", "\N{SNOWMAN}", "\N{PILE OF POO}"]
"""Characters of one to four bytes."""
PLAIN: dict[str, Callable[[np.random.Generator], object]] = {
    "uint8": lambda rng: int(rng.integers(0, 2**8)),
    "int32": lambda rng: int(rng.integers(-(2**31), 2**31)),
    "uint32": lambda rng: int(rng.integers(0, 2**32)),
    "double": lambda rng: float(rng.normal() * 10.0 ** rng.integers(-300, 300)),
    "string": lambda rng: "".join(rng.choice(LETTERS, rng.integers(0, 13))),
    "geometry_msgs/Transform": lambda rng: Transform(),  # the numbers of frames are only passed over
    "geometry_msgs/Twist": lambda rng: Twist(),
}
CODES = {"sequence<float>": "f", "sequence<double>": "d", "sequence<uint32>": "I"}


def any_of(kind: str, rng: np.random.Generator) -> object:
    """Any value of a type; a message's fields need not match each other."""
    if kind in PLAIN:
        return PLAIN[kind](rng)
    if kind in CODES:
        size = rng.integers(0, 21)
        values = rng.integers(0, 2**32, size) if CODES[kind] == "I" else np.float32(rng.normal(size=size))
        return array(CODES[kind], values.tolist())
    if kind.startswith("sequence<"):
        return [any_of(kind[len("sequence<") : -1], rng) for _ in range(rng.integers(0, MOST + 1))]
    package, _, message = kind.partition("/")
    message_type = getattr(importlib.import_module(f"{package}.msg"), message)
    fields = message_type.get_fields_and_field_types()
    return message_type(**{field: any_of(of, rng) for field, of in fields.items()})


def read_sequence(message: ActionSequence) -> tuple:
    """The fields that are read from a message, in their order."""
    start, goal = ((end.position, end.velocity, end.acceleration) for end in (message.start, message.goal))
    sizes = message.control_space, message.batch, message.horizon
    form = message.degree, message.steps, message.dt_per
    rows = (*start, message.start_index, message.data, *goal, message.goal_index)
    stamp = message.header.stamp.sec, message.header.stamp.nanosec
    return stamp, (message.joint_names, *sizes, message.dt, *rows, *form)


def read_trajectory(message: JointTrajectory) -> tuple:
    times = [point.time_from_start.sec * SECOND + point.time_from_start.nanosec for point in message.points]
    parts = [[getattr(point, part) for point in message.points] for part in POINT_ARRAYS]
    return tuple(message.joint_names), stamp_of(message), len(message.points), times, *parts


def read_report(message: object) -> tuple:
    parts = [getattr(message.reference, part) for part in POINT_ARRAYS]
    return tuple(message.joint_names), *parts, stamp_of(message), message.speed_scaling_factor


class Kind(NamedTuple):
    """A type of messages, its reader, and the expected fields."""

    type: str
    read: Callable[[bytes], object] | None
    expected: Callable[[object], tuple]


MOST = 8
"""Names, points."""
KINDS = {
    "action sequence": Kind("traj_integrator_interfaces/ActionSequence", read_action_sequence, read_sequence),
    "position trajectory": Kind(
        "trajectory_msgs/JointTrajectory", partial(read_position_trajectory, most_points=MOST), read_trajectory
    ),
    "joint state": Kind(
        "sensor_msgs/JointState",
        read_joint_state,
        lambda message: (tuple(message.name), message.position, message.velocity, stamp_of(message)),
    ),
    "report": Kind("control_msgs/JointTrajectoryControllerState", None, read_report),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """A kind of messages, with the type of the reports filled in."""
    kind = KINDS[request.param]
    if request.param != "report":
        return kind
    return kind._replace(read=controller_state_reader(request.getfixturevalue("report_type")))


def plain(value: object) -> object:
    """The message without arrays and names of fields."""
    if isinstance(value, np.ndarray | array):
        return value.tolist()
    return [*map(plain, value)] if isinstance(value, tuple | list) else value


def arrays_in(value: object) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from arrays_in(one)


def read_or_reason(read: Callable[[bytes], object], data: bytes) -> object:
    """Fields that are read, or the reason for a refusal."""
    try:
        return read(data)
    except Rejected as rejected:
        assert len(rejected.message) < 300 and rejected.message.isprintable()
        return rejected.reason


def is_malformed(read: Callable[[bytes], object], data: bytes) -> bool:
    return read_or_reason(read, data) is RejectionReason.MALFORMED_MESSAGE


@given(seed=seeds, count=st.integers(1, 3))
def test_messages_are_read_as_by_rclpy(kind: Kind, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    for message in [any_of(kind.type, rng) for _ in range(count)]:
        assert plain(kind.read(bytes(serialize_message(message)))) == plain(kind.expected(message))


@given(seed=seeds)
def test_a_message_cut_short_anywhere_is_malformed(kind: Kind, seed: int) -> None:
    message = any_of(kind.type, np.random.default_rng(seed))
    whole = bytes(serialize_message(message))
    read = kind.read
    needed = bisect_left(range(len(whole)), True, key=lambda size: not is_malformed(read, whole[:size]))
    assert plain(read(whole[:needed])) == plain(kind.expected(message))
    sizes = (*range(0, needed, 7), *range(max(0, needed - 8), needed))
    assert all(is_malformed(read, whole[:size]) for size in sizes), "also when the names are known"


@given(seed=seeds, more=st.binary(), damage=damages)
def test_any_bytes_are_malformed_or_views_of_no_more_than_they_are(
    kind: Kind, seed: int, more: bytes, damage: list[tuple[int, int]]
) -> None:
    whole = bytearray(serialize_message(any_of(kind.type, np.random.default_rng(seed))))
    for place, value in damage:
        whole[place % len(whole)] = value
    for damaged in (bytes(whole), bytes(whole[: len(whole) // 2]), bytes(whole) + more, bytes(whole[:4]) + more, more):
        found = read_or_reason(kind.read, damaged)
        if isinstance(found, RejectionReason):
            assert found in (RejectionReason.MALFORMED_MESSAGE, RejectionReason.SIZE_OUT_OF_RANGE)
        else:
            assert sum(values.nbytes for values in arrays_in(found)) < len(damaged)


@pytest.mark.parametrize(
    "encoding", [b"\0\0\0\0", b"\0\2\0\0", b"\0\3\0\0", b"\0\7\0\0", b"\1\0\0\0", b"\0\1", b"\0", b""]
)
def test_other_encodings_are_refused(encoding: bytes) -> None:
    body = bytes(serialize_message(ActionSequence()))[4:] * (len(encoding) == 4)
    assert is_malformed(read_action_sequence, encoding + body)


def headed(*counts: int) -> bytes:
    """A header and a claimed number of names; with two counts, the joints, and a claimed number of points."""
    names = b"".join(struct.pack("<I8s", 8, name.encode()) for name in JOINTS)
    header = b"\0\1\0\0" + struct.pack("<iII4x", 0, 0, 1)
    return header + struct.pack("<I", counts[0]) + (names if len(counts) > 1 else b"") + struct.pack("<I", counts[-1])


def test_points_beyond_the_most_are_counted_but_not_read() -> None:
    data = headed(len(JOINTS), 400_000) + bytes(24 * 400_000)
    fields = read_position_trajectory(data, 399_999)
    assert (fields.count, len(fields.time_ns), len(fields.positions)) == (400_000, 0, 0)
    for names, refused in ((JOINTS, "size_out_of_range: points: expected 1 to "), (("other",), "unknown_joint")):
        parameters = NodeParameters.from_values(default_values() | {"joint_names": list(names)})
        with pytest.raises(Rejected, match=refused):
            plan_of_positions(fields, parameters, 0)
    assert is_malformed(KINDS["position trajectory"].read, headed(len(JOINTS), 2**32 - 1))


@pytest.mark.parametrize("name", [name for name in KINDS if name != "report"])
def test_more_names_than_any_robot_has_are_refused_unread(name: str) -> None:
    data = headed(2_000_000) + bytes(8_000_000)
    with pytest.raises(Rejected, match=r"size_out_of_range: (names|message): expected at most"):
        KINDS[name].read(data)


def test_names_end_at_the_first_zero_and_other_bytes_than_utf8_are_marked() -> None:
    for message in (ActionSequence(joint_names=["QQQQ"]), JointTrajectory(joint_names=["QQQQ"])):
        data = bytes(serialize_message(message))

        def names(of: bytes, data: bytes = data, is_plan: bool = isinstance(message, JointTrajectory)) -> list[str]:
            given = data.replace(b"QQQQ", of)
            return [*(read_position_trajectory(given, 1) if is_plan else read_action_sequence(given)[1])[0]]

        assert names(b"QQ\0Q") == ["QQ"] and names(b"a\xff\xfeb") == ["a\ufffd\ufffdb"]


class Unknown:
    """A release whose reports have no reference."""

    @staticmethod
    def get_fields_and_field_types() -> dict[str, str]:
        return {"header": "std_msgs/Header", "joint_names": "sequence<string>"}


def test_reports_of_an_unknown_release_are_told() -> None:
    with pytest.raises(ValueError, match=r"JointTrajectoryControllerState\.reference: expected .*, got None"):
        controller_state_reader(Unknown)


# Sequence numbers that publishers give to their messages


def gaps(*messages: tuple[object, bytes | None, int]) -> list[int]:
    """Numbers of messages lost before each message, given its number, its publisher, and the count of publishers."""
    found = SequenceGaps()
    named = [({"publisher_gid": {"data": name}} if name else {}, number, count) for number, name, count in messages]
    return [
        found.missed_before({"publication_sequence_number": number, **whose}, lambda count=count: count)
        for whose, number, count in named
    ]


def test_lost_messages_are_counted_for_each_publisher() -> None:
    numbers = [(7, b"a"), (1, b"b"), (8, b"a"), (2, b"b"), (12, b"a"), (3, b"b")]
    assert gaps(*((number, name, 2) for number, name in numbers)) == [0, 0, 0, 0, 3, 0]
    assert gaps((None, b"a", 1), (9, b"a", 1)) == [0, 0]
    unnamed = [(3, 1), (5, 1), (100, 2), (6, 2), (200, 1), (202, 1)]
    assert gaps(*((number, None, count) for number, count in unnamed)) == [0, 1, 0, 0, 0, 1]
    assert SequenceGaps().missed_before({}) == 0

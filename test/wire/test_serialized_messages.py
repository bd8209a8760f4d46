"""Messages written and read as bytes, against rclpy's own serialization and against a plain writer of CDR."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from cdr_writer import CdrWriter
from geometry_msgs.msg import Transform, Twist
from hypothesis import given
from hypothesis import strategies as st
from node_fixtures import JOINTS, ClientFactory
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_ros.execution.points import Points
from traj_integrator_ros.handling.position_trajectory import plan_of_positions
from traj_integrator_ros.handling.rejection import Rejected, RejectionReason
from traj_integrator_ros.traffic.messages import floats
from traj_integrator_ros.wire import writers
from traj_integrator_ros.wire.controller_state import ControllerStateReader
from traj_integrator_ros.wire.readers import ActionSequenceReader, JointStateReader, PositionTrajectoryReader
from traj_integrator_ros.wire.writers import JointTrajectoryWriter, serialize_batch

pytestmark = pytest.mark.ros
SECOND = 10**9
Reader = ActionSequenceReader | ControllerStateReader | JointStateReader | PositionTrajectoryReader
POINT_ARRAYS = ("positions", "velocities", "accelerations", "effort")
# Neither a zero nor half of a surrogate pair can be in a string of a message.
name = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
names = st.lists(name, min_size=1, max_size=32)
stamps = st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1))
seeds = st.integers(0, 2**32 - 1)


def points_of(seed: int, count: int, dof: int, accelerations: bool = True) -> Points:
    rng = np.random.default_rng(seed)
    time_ns = np.sort(rng.integers(0, 2 ** rng.integers(20, 60), count))
    position, velocity, acceleration = rng.normal(size=(3, count, dof)) * 10.0 ** rng.integers(-300, 300)
    return Points(time_ns, position, velocity, acceleration if accelerations else None)


def rows_of(points: Points) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    none = np.zeros((len(points.time_ns), 0))
    accelerations = none if points.acceleration is None else points.acceleration
    return zip(points.time_ns.tolist(), points.position, points.velocity, accelerations, strict=True)


def built(joint_names: list[str], points: Points, stamp: tuple[int, int]) -> JointTrajectory:
    """The message as objects."""
    message = JointTrajectory(joint_names=joint_names)
    message.header.stamp.sec, message.header.stamp.nanosec = stamp
    message.points = [
        JointTrajectoryPoint(
            positions=position.tolist(),
            velocities=velocity.tolist(),
            accelerations=acceleration.tolist(),
            time_from_start=Duration(sec=time // SECOND, nanosec=time % SECOND),
        )
        for time, position, velocity, acceleration in rows_of(points)
    ]
    return message


def written(joint_names: list[str], points: Points, stamp: tuple[int, int]) -> CdrWriter:
    writer = CdrWriter().header(stamp).strings(joint_names).numbers("I", len(points.time_ns))
    for time, *arrays in rows_of(points):
        for values in (*arrays, []):
            writer.array("d", values)
        writer.numbers("i", time // SECOND).numbers("I", time % SECOND)
    return writer


def assert_same_bytes(ours: bytes, message: object, expected: CdrWriter) -> None:
    """All bytes that mean something are those of rclpy, which leaves the others as it finds them and appends some."""
    theirs = bytearray(serialize_message(message))
    assert len(ours) == len(expected.data) <= len(theirs)
    mine, theirs = bytearray(ours), theirs[: len(ours)]
    for place in expected.aligning:
        mine[place] = theirs[place] = 0
    assert mine == theirs
    assert mine == expected.data
    assert deserialize_message(ours, type(message)) == message


@given(names, st.integers(1, 300), stamps, seeds, st.booleans())
def test_a_joint_trajectory_is_what_rclpy_makes_of_the_objects(
    joint_names: list[str], count: int, stamp: tuple[int, int], seed: int, accelerations: bool
) -> None:
    writer = JointTrajectoryWriter(tuple(joint_names))
    for points in (points_of(seed + k, count, len(joint_names), accelerations) for k in range(2)):
        ours = writer.serialize(points, stamp)
        assert_same_bytes(ours, built(joint_names, points, stamp), written(joint_names, points, stamp))


def test_trajectories_of_any_shapes_follow_each_other() -> None:
    writer = JointTrajectoryWriter(JOINTS)
    for count, accelerations in ((1, True), (1, False), (7, False), (7, True), (7, True), (1, True)):
        points = points_of(count, count, len(JOINTS), accelerations)
        assert deserialize_message(writer.serialize(points), JointTrajectory) == built(list(JOINTS), points, (0, 0))


def test_a_middleware_with_another_layout_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_ENCODING", b"\0\0\0\0")  # the numbers are those of little-endian
    with pytest.raises(RuntimeError):
        JointTrajectoryWriter(JOINTS)


@given(names, st.integers(0, 4), st.integers(0, 5), stamps, seeds)
def test_a_batch_is_what_rclpy_makes_of_the_object(
    joint_names: list[str], batch: int, horizon: int, stamp: tuple[int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    time = rng.random(horizon).astype(np.float32)
    arrays = rng.normal(size=(4, batch, horizon, len(joint_names))).astype(np.float32)
    message = TrajectoryBatch(joint_names=joint_names, batch=batch, horizon=horizon, time_from_start=floats(time))
    message.header.stamp.sec, message.header.stamp.nanosec = stamp
    message.position, message.velocity, message.acceleration, message.jerk = map(floats, arrays)
    expected = CdrWriter().header(stamp).strings(joint_names).numbers("I", batch, horizon)
    for values in (time, *arrays):
        expected.array("f", values.ravel())
    assert_same_bytes(serialize_batch(tuple(joint_names), stamp, batch, horizon, time, arrays), message, expected)


def test_what_arrives_is_as_long_as_what_rclpy_sends(connect: ClientFactory) -> None:
    """rclpy serializes a message to bytes longer than what it publishes; ours are as long as the latter."""
    client = connect()
    received: list[bytes] = []
    subscription = client.node.create_subscription(JointTrajectory, "/compared", received.append, 10, raw=True)
    publisher = client.node.create_publisher(JointTrajectory, "/compared", 10)
    client.wait_for(publisher.get_subscription_count, "connected")
    for count in (1, 2, 7):
        points = points_of(count, count, len(JOINTS))
        ours = JointTrajectoryWriter(JOINTS).serialize(points)
        received.clear()
        publisher.publish(ours)
        publisher.publish(built(list(JOINTS), points, (0, 0)))
        client.wait_for(lambda: len(received) == 2, "both")
        assert received[0] == ours
        assert len(received[1]) == len(ours)
    client.node.destroy_subscription(subscription)


counts = st.integers(0, 20)


@st.composite
def sequences(draw: st.DrawFn) -> ActionSequence:
    """Any message, whether its fields fit together or not."""
    rng = np.random.default_rng(draw(seeds))

    def numbers() -> array:
        return floats(rng.normal(size=draw(counts)))

    message = ActionSequence(
        joint_names=draw(st.lists(name, max_size=8)), control_space=draw(st.integers(0, 255)), dt=numbers(),
        batch=draw(st.integers(0, 2**32 - 1)), horizon=draw(st.integers(0, 2**32 - 1)), data=numbers(),
        start_index=array("I", rng.integers(0, 2**32, draw(counts)).tolist()),
        goal_index=array("I", rng.integers(0, 2**32, draw(counts)).tolist()),
        degree=draw(st.integers(0, 255)), steps=draw(st.integers(0, 255)),
    )  # fmt: skip
    message.header.stamp.sec, message.header.stamp.nanosec = draw(stamps)
    message.header.frame_id = draw(name)
    for state in (message.start, message.goal):
        state.position, state.velocity, state.acceleration = numbers(), numbers(), numbers()
    return message


def written_sequence(message: ActionSequence, order: str = "<") -> bytes:
    stamp = message.header.stamp
    writer = CdrWriter(order).header((stamp.sec, stamp.nanosec), message.header.frame_id)
    writer.strings(message.joint_names).numbers("B", message.control_space).numbers("I", message.batch, message.horizon)
    start, goal = message.start, message.goal
    for values in (message.dt, start.position, start.velocity, start.acceleration):
        writer.array("f", values)
    writer.array("I", message.start_index).array("f", message.data)
    for values in (goal.position, goal.velocity, goal.acceleration):
        writer.array("f", values)
    return bytes(writer.array("I", message.goal_index).numbers("B", message.degree).numbers("B", message.steps).data)


def assert_reads(reader: ActionSequenceReader, data: bytes, message: ActionSequence) -> None:
    stamp, fields = reader.read(data)
    start, goal = message.start, message.goal
    assert stamp == (message.header.stamp.sec, message.header.stamp.nanosec)
    assert fields[:4] == (tuple(message.joint_names), message.control_space, message.batch, message.horizon)
    expected = (
        *(message.dt, start.position, start.velocity, start.acceleration, message.start_index, message.data),
        *(goal.position, goal.velocity, goal.acceleration, message.goal_index),
    )
    assert fields[-2:] == (message.degree, message.steps)
    for values, wanted in zip(fields[4:-2], expected, strict=True):
        assert values.dtype.isnative and values.dtype.char == wanted.typecode
        assert values.tolist() == wanted.tolist()


@given(st.lists(sequences(), min_size=1, max_size=3))
def test_sequences_are_read_as_by_rclpy_after_any_other_sequence(messages: list[ActionSequence]) -> None:
    reader = ActionSequenceReader()
    for message in [*messages, messages[-1], *messages]:
        assert_reads(reader, bytes(serialize_message(message)), message)
        for order in "<>":
            assert_reads(reader, written_sequence(message, order), message)


@given(sequences())
def test_a_sequence_cut_short_anywhere_is_malformed(message: ActionSequence) -> None:
    data = written_sequence(message)
    reader = ActionSequenceReader()
    for size in range(len(data)):
        assert malformed(reader, data[:size])
    reader.read(data)
    for size in range(len(data)):
        assert malformed(reader, data[:size]), "also when the names are known"


damages = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=4)


@given(sequences(), damages, st.binary())
def test_any_bytes_are_malformed_or_views_of_no_more_than_they_are(
    message: ActionSequence, damage: list[tuple[int, int]], more: bytes
) -> None:
    data = bytearray(written_sequence(message))
    for place, value in damage:
        data[place % len(data)] = value
    for damaged in (bytes(data), bytes(data) + more, bytes(data[:4]) + more, more):
        try:
            _, fields = ActionSequenceReader().read(damaged)
        except Rejected as rejected:
            assert rejected.reason is RejectionReason.MALFORMED_MESSAGE
            assert len(rejected.message) < 300 and rejected.message.isprintable()
        else:
            assert sum(values.nbytes for values in fields[4:-2]) < len(damaged)


@pytest.mark.parametrize("encoding", [b"\0\2\0\0", b"\0\3\0\0", b"\0\7\0\0", b"\1\0\0\0", b"\0\1", b"\0", b""])
def test_other_encodings_are_refused(encoding: bytes) -> None:
    assert malformed(ActionSequenceReader(), encoding + written_sequence(ActionSequence())[4:] * (len(encoding) == 4))


def malformed(reader: Reader, data: bytes) -> bool:
    with pytest.raises(Rejected) as caught:
        read(reader, data)
    return caught.value.reason is RejectionReason.MALFORMED_MESSAGE


def is_malformed(reader: Reader, data: bytes) -> bool:
    try:
        read(reader, data)
    except Rejected as rejected:
        return rejected.reason is RejectionReason.MALFORMED_MESSAGE
    return False


def read(reader: Reader, data: bytes) -> object:
    return reader.read(data, 100) if isinstance(reader, PositionTrajectoryReader) else reader.read(data)


@given(st.lists(name, max_size=9), stamps, name, st.tuples(counts, counts, counts), seeds)
def test_joint_states_are_read_as_rclpy_reads_them(
    joint_names: list[str], stamp: tuple[int, int], frame_id: str, sizes: tuple[int, int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    position, velocity, effort = (array("d", rng.normal(size=size)) for size in sizes)
    message = JointState(name=joint_names, position=position, velocity=velocity, effort=effort)
    message.header.stamp.sec, message.header.stamp.nanosec = stamp
    message.header.frame_id = frame_id
    reader = JointStateReader()
    writers = [CdrWriter(order).header(stamp, frame_id).strings(joint_names) for order in "<>"]
    for writer in writers:
        writer.array("d", position).array("d", velocity).array("d", effort)
    for data in (bytes(serialize_message(message)), *(bytes(writer.data) for writer in writers)):
        for _ in range(2):
            state = reader.read(data)
            assert state.stamp_ns == stamp[0] * SECOND + stamp[1]
            assert state.names == tuple(joint_names)
            assert (state.position.tolist(), state.velocity.tolist()) == (position.tolist(), velocity.tolist())
    for size in range(0, len(writers[0].data), 3):
        assert malformed(reader, bytes(writers[0].data[:size]))


@given(names, st.integers(0, 9), stamps, name, st.tuples(counts, counts, counts, counts), seeds)
def test_position_trajectories_are_read_as_rclpy_reads_them(
    joint_names: list[str], count: int, stamp: tuple[int, int], frame_id: str, sizes: tuple[int, ...], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    message = JointTrajectory(joint_names=joint_names)
    message.header.stamp.sec, message.header.stamp.nanosec = stamp
    message.header.frame_id = frame_id
    writers = [CdrWriter(order).header(stamp, frame_id).strings(joint_names).numbers("I", count) for order in "<>"]
    for _ in range(count):
        arrays = [array("d", rng.normal(size=size)) for size in sizes]
        time = Duration(sec=int(rng.integers(-(2**31), 2**31)), nanosec=int(rng.integers(0, 2**32)))
        point = JointTrajectoryPoint(time_from_start=time, **dict(zip(POINT_ARRAYS, arrays, strict=True)))
        message.points.append(point)
        for writer in writers:
            for values in arrays:
                writer.array("d", values)
            writer.numbers("i", time.sec).numbers("I", time.nanosec)
    reader = PositionTrajectoryReader()
    for data in (bytes(serialize_message(message)), *(bytes(writer.data) for writer in writers)):
        fields = reader.read(data, 9)
        assert fields.count == count and fields.stamp_ns == stamp[0] * SECOND + stamp[1]
        assert fields.joint_names == tuple(joint_names)
        times = [point.time_from_start for point in message.points]
        assert fields.time_ns == [time.sec * SECOND + time.nanosec for time in times]
        assert [row.tolist() for row in fields.positions] == [point.positions.tolist() for point in message.points]
    for size in range(0, len(writers[0].data), 7):
        assert malformed(reader, bytes(writers[0].data[:size]))
    claims = CdrWriter().header(stamp).strings(joint_names).numbers("I", 2**32 - 1)
    assert malformed(reader, bytes(claims.data))


def test_points_beyond_the_most_are_counted_but_not_read() -> None:
    header = CdrWriter().header((0, 0)).strings(JOINTS)
    data = bytes(header.numbers("I", 400_000).data) + bytes(24 * 400_000)
    fields = PositionTrajectoryReader().read(data, 399_999)
    assert (fields.count, fields.time_ns, fields.positions) == (400_000, [], [])
    with pytest.raises(Rejected, match="size_out_of_range: points: expected 1 to 64"):
        plan_of_positions(fields, JOINTS, 64, 0)
    with pytest.raises(Rejected, match="unknown_joint"):
        plan_of_positions(fields, ("other",), 64, 0)


@pytest.mark.parametrize("reader", [ActionSequenceReader(), PositionTrajectoryReader(), JointStateReader()])
def test_more_names_than_any_robot_has_are_refused_unread(reader: Reader) -> None:
    data = bytes(CdrWriter().header((0, 0)).numbers("I", 2_000_000).data) + bytes(8_000_000)
    with pytest.raises(Rejected, match=r"size_out_of_range: (joint_)?names?: expected at most 4096 names, got 2000000"):
        read(reader, data)


def test_names_are_the_same_object_while_they_do_not_change() -> None:
    reader = ActionSequenceReader()
    data = [written_sequence(ActionSequence(joint_names=row)) for row in (["a", "b"], ["a", "c"])]
    first = reader.read(data[0]).fields.joint_names
    assert reader.read(data[0]).fields.joint_names is first
    assert reader.read(data[1]).fields.joint_names == ("a", "c")
    assert reader.read(data[0]).fields.joint_names == ("a", "b")


@st.composite
def reports(draw: st.DrawFn, report_type: type) -> object:
    """Any report of the controller, whether its fields fit together or not."""
    rng = np.random.default_rng(draw(seeds))
    message = report_type(joint_names=draw(st.lists(name, max_size=5)), speed_scaling_factor=rng.normal())
    message.header.stamp.sec, message.header.stamp.nanosec = draw(stamps)
    message.header.frame_id = draw(name)
    for point in (message.reference, message.feedback, message.error, message.output):
        for part in POINT_ARRAYS:
            setattr(point, part, array("d", rng.normal(size=draw(st.integers(0, 5)))))
    message.multi_dof_joint_names = draw(st.lists(name, max_size=3))
    for frames in (message.multi_dof_reference, message.multi_dof_output):
        frames.transforms = [Transform() for _ in range(draw(st.integers(0, 2)))]
        frames.velocities = [Twist() for _ in range(draw(st.integers(0, 2)))]
    return message


@given(data=st.data())
def test_reports_are_read_as_by_rclpy_and_any_other_bytes_are_malformed(report_type: type, data: st.DataObject) -> None:
    reader = ControllerStateReader(report_type.get_fields_and_field_types())
    message = data.draw(reports(report_type))
    whole = bytes(serialize_message(message))
    for _ in range(2):
        read_ = reader.read(whole)
        stamp = message.header.stamp
        assert (read_.stamp_ns, read_.names) == (stamp.sec * SECOND + stamp.nanosec, tuple(message.joint_names))
        assert read_.speed_scaling == message.speed_scaling_factor
        for values, part in zip(read_.reference, POINT_ARRAYS, strict=False):
            assert values.tolist() == getattr(message.reference, part).tolist()
    needed = next(size for size in range(len(whole) + 1) if not is_malformed(reader, whole[:size]))
    assert needed <= len(whole), "rclpy appends some bytes to what it has written"
    assert reader.read(whole[:needed]).speed_scaling == message.speed_scaling_factor
    damaged = bytearray(whole)
    for place, value in data.draw(damages):
        damaged[place % len(damaged)] = value
    for some in (bytes(damaged), bytes(damaged[: needed // 2]), data.draw(st.binary())):
        try:
            found = ControllerStateReader(report_type.get_fields_and_field_types()).read(some)
        except Rejected as rejected:
            assert rejected.reason in (RejectionReason.MALFORMED_MESSAGE, RejectionReason.SIZE_OUT_OF_RANGE)
            assert len(rejected.message) < 300 and rejected.message.isprintable()
        else:
            assert sum(values.nbytes for values in found.reference) < len(some)


def test_reports_of_a_release_without_a_speed_or_of_an_unknown_one() -> None:
    fields = {"header": "std_msgs/Header", "joint_names": "sequence<string>"}
    point = {"reference": "trajectory_msgs/JointTrajectoryPoint"}
    writer = CdrWriter().header((3, 7)).strings(JOINTS)
    for values in ([1.0, 2.0, 3.0], [], [], []):
        writer.array("d", values)
    report = ControllerStateReader(fields | point).read(bytes(writer.numbers("i", 0).numbers("I", 0).data))
    assert (report.names, report.reference.position.tolist(), report.speed_scaling) == (JOINTS, [1.0, 2.0, 3.0], 1.0)
    for wrong in (fields, fields | point | {"joint_names": "string"}, fields | {"x": "std_msgs/Other"} | point):
        with pytest.raises(ValueError, match=r"JointTrajectoryControllerState\.\w+: expected"):
            ControllerStateReader(wrong)

"""Messages within one process, without DDS: as bytes from templates, compared with rclpy's objects.

What a node does with a message between taking it and handing the answer to the middleware. The peers are what the node
would do with rclpy's objects; their results are checked against ours field by field.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
import torch
from builtin_interfaces.msg import Duration
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_ros.client import packed, sequence
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.governor.measured import JointStates
from traj_integrator_ros.wire.messages import sequence_fields
from traj_integrator_ros.wire.readers import read_action_sequence, read_joint_state
from traj_integrator_ros.wire.writers import JointTrajectoryWriter, serialize_batch

from ..problems import DOF, DT, HORIZON
from ..registry import Case, Check, Contender, Run

JOINTS = tuple(f"panda_joint{i + 1}" for i in range(DOF))
OBJECTS = "objects of rclpy"
JOINT_TRAJECTORY_TARGET = 10.0
NOW_NS = 1_700_000_000_000_000_000


def ros_messages(quick: bool) -> Iterator[Case]:
    """All ways in and out."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the node has on two cores; a second one waits for whatever else runs on the machine
    try:
        for horizon in (32,) if quick else (8, 32, 256):
            yield joint_trajectory_out(horizon)
        for batch in (1, 64, 1000):
            yield trajectory_batch_out(batch)
            yield action_sequence_in(batch)
        yield joint_state_in()
    finally:
        torch.set_num_threads(threads)


def beside_objects(
    name: str, batch: int, horizon: int, ours: Run, objects: Run, check: Check, **options: object
) -> Case:
    """The same by bytes and by objects."""
    peer = Contender(OBJECTS, objects, check)
    return Case(name, batch, horizon, DOF, Contender("ours", ours, check), (peer,), **options)


def is_message(expected: object) -> Check:
    """A check that bytes are this message."""

    def check(data: object) -> None:
        assert deserialize_message(bytes(data), type(expected)) == expected, "another message"

    return check


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def action_sequence(batch: int) -> ActionSequence:
    actions = 0.01 * np.cumsum(random(batch, HORIZON, DOF), axis=1)
    return sequence(actions, dt=[DT], joint_names=JOINTS, position=np.zeros(DOF), velocity=np.zeros(DOF))


def joint_trajectory_out(horizon: int) -> Case:
    # The same times in every call, as sequences with one step length have; others cost about 1 us more.
    points = Points(np.arange(horizon) * 20_000_000, *random(3, horizon, DOF).astype(np.float64))
    writer = JointTrajectoryWriter(JOINTS)

    def objects() -> JointTrajectory:  # as fast as they can be made: arrays are copied as a whole
        rows = zip(points.time_ns.tolist(), points.position, points.velocity, points.acceleration, strict=True)
        message = JointTrajectory(joint_names=list(JOINTS))
        message.points = [
            JointTrajectoryPoint(
                positions=array("d", position.tobytes()),
                velocities=array("d", velocity.tobytes()),
                accelerations=array("d", acceleration.tobytes()),
                time_from_start=Duration(sec=time // 10**9, nanosec=time % 10**9),
            )
            for time, position, velocity, acceleration in rows
        ]
        return message

    options = {"targets": {OBJECTS: JOINT_TRAJECTORY_TARGET}, "dtype": "float64"}
    ways = lambda: writer.serialize(points), lambda: serialize_message(objects())
    return beside_objects("JointTrajectory out", 1, horizon, *ways, is_message(objects()), **options)


def trajectory_batch_out(batch: int) -> Case:
    time, arrays = np.arange(HORIZON, dtype=np.float32), random(4, batch, HORIZON, DOF)

    def objects() -> TrajectoryBatch:
        message = TrajectoryBatch(joint_names=list(JOINTS), batch=batch, horizon=HORIZON, time_from_start=packed(time))
        message.position, message.velocity, message.acceleration, message.jerk = map(packed, arrays)
        return message

    return beside_objects(
        "TrajectoryBatch out",
        batch,
        HORIZON,
        lambda: b"".join(serialize_batch(JOINTS, (0, 0), batch, HORIZON, time, arrays)),
        lambda: serialize_message(objects()),
        is_message(objects()),
    )


def action_sequence_in(batch: int) -> Case:
    data, expected = bytes(serialize_message(action_sequence(batch))), sequence_fields(action_sequence(batch))

    def check(fields: object) -> None:
        for name, got, wanted in zip(fields._fields, fields, expected, strict=True):
            assert np.array_equal(got, wanted), f"{name} differs"

    return beside_objects(
        "ActionSequence in",
        batch,
        HORIZON,
        lambda: read_action_sequence(data)[1],
        lambda: sequence_fields(deserialize_message(data, ActionSequence)),
        check,
    )


def joint_state_in() -> Case:
    numbers = array("d", range(DOF))
    data = bytes(serialize_message(JointState(name=list(JOINTS), position=numbers, velocity=numbers, effort=numbers)))
    states = JointStates(JOINTS)

    def ours() -> JointStates:
        states.update(*read_joint_state(data), NOW_NS)
        return states

    def objects() -> JointStates:
        state: JointState = deserialize_message(data, JointState)
        states.update(state.name, np.asarray(state.position), np.asarray(state.velocity), 0, NOW_NS)
        return states

    def check(result: object) -> None:
        assert result.latest(NOW_NS, 0.0).position.tolist() == numbers.tolist(), "another state"

    return beside_objects("JointState in", 1, 1, ours, objects, check, dtype="float64")

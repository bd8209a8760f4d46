"""Messages within one process, without DDS: as bytes from templates, compared with rclpy's objects.

What a node does with a message between taking it and handing the answer to the middleware. The peers are what the node
would do with rclpy's objects; their results are checked against ours field by field.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..registry import Case, Contender, Unmeasured, ros_is_missing, suite

if TYPE_CHECKING:
    from sensor_msgs.msg import JointState

    from traj_integrator_interfaces.msg import ActionSequence
    from traj_integrator_ros.execution.points import Points

HORIZON, DOF, DT = 32, 7, 0.02
JOINTS = tuple(f"panda_joint{i + 1}" for i in range(DOF))
LIMITS = {
    "limits.position_min": [-1e3] * DOF,
    "limits.position_max": [1e3] * DOF,
    "limits.velocity": [1e6] * DOF,
    "limits.acceleration": [1e9] * DOF,
    "limits.jerk": [1e12] * DOF,
}
OBJECTS = "objects of rclpy"
JOINT_TRAJECTORY_TARGET = 10.0
NOW_NS = 1_700_000_000_000_000_000


@suite("ros_messages")
def ros_messages(quick: bool) -> Iterator[Case | Unmeasured]:
    if missing := ros_is_missing():
        yield Unmeasured("all cases of ros_messages", missing)
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the node has on two cores; a second one waits for whatever else runs on the machine
    try:
        for horizon in (32,) if quick else (8, 32, 256):
            yield joint_trajectory_out(horizon)
        for batch in (1, 64, 1000):
            yield trajectory_batch_out(batch)
            yield action_sequence_in(batch)
            yield callback(batch)
        yield joint_state_in()
    finally:
        torch.set_num_threads(threads)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def joint_trajectory_out(horizon: int) -> Case:
    from rclpy.serialization import deserialize_message, serialize_message
    from trajectory_msgs.msg import JointTrajectory

    from traj_integrator_ros.execution.points import Points
    from traj_integrator_ros.wire.writers import JointTrajectoryWriter

    # The same times in every call, as sequences with one step length have; others cost about 1 us more.
    points = Points(np.arange(horizon) * 20_000_000, *random(3, horizon, DOF).astype(np.float64))
    writer = JointTrajectoryWriter(JOINTS)
    expected = joint_trajectory_objects(points)

    def check(data: object) -> None:
        assert deserialize_message(bytes(data), JointTrajectory) == expected, "another message"

    return Case(
        "JointTrajectory out",
        1,
        horizon,
        DOF,
        Contender("ours", lambda: writer.serialize(points), check),
        (Contender(OBJECTS, lambda: serialize_message(joint_trajectory_objects(points)), check),),
        targets={OBJECTS: JOINT_TRAJECTORY_TARGET},
        dtype="float64",
    )


def joint_trajectory_objects(points: Points) -> object:
    """The message as objects, as fast as they can be made: arrays are copied as a whole."""
    from builtin_interfaces.msg import Duration
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    rows = zip(points.time_ns.tolist(), points.position, points.velocity, points.acceleration, strict=True)
    return JointTrajectory(
        joint_names=list(JOINTS),
        points=[
            JointTrajectoryPoint(
                positions=array("d", position.tobytes()),
                velocities=array("d", velocity.tobytes()),
                accelerations=array("d", acceleration.tobytes()),
                time_from_start=Duration(sec=time // 10**9, nanosec=time % 10**9),
            )
            for time, position, velocity, acceleration in rows
        ],
    )


def trajectory_batch_out(batch: int) -> Case:
    from rclpy.serialization import deserialize_message, serialize_message

    from traj_integrator_interfaces.msg import TrajectoryBatch
    from traj_integrator_ros.wire.writers import serialize_batch

    time = np.arange(HORIZON, dtype=np.float32)
    arrays = random(4, batch, HORIZON, DOF)

    def objects() -> TrajectoryBatch:
        message = TrajectoryBatch(joint_names=list(JOINTS), batch=batch, horizon=HORIZON)
        message.time_from_start = array("f", time.tobytes())
        message.position, message.velocity, message.acceleration, message.jerk = (
            array("f", values.tobytes()) for values in arrays
        )
        return message

    def check(data: object) -> None:
        assert deserialize_message(bytes(data), TrajectoryBatch) == objects(), "another message"

    return Case(
        "TrajectoryBatch out",
        batch,
        HORIZON,
        DOF,
        Contender("ours", lambda: serialize_batch(JOINTS, (0, 0), batch, HORIZON, time, arrays), check),
        (Contender(OBJECTS, lambda: serialize_message(objects()), check),),
    )


def sequence(batch: int) -> ActionSequence:
    from traj_integrator_interfaces.msg import ActionSequence

    actions = 0.01 * np.cumsum(random(batch, HORIZON, DOF), axis=1)
    message = ActionSequence(joint_names=list(JOINTS), batch=batch, horizon=HORIZON, dt=array("f", [DT]))
    message.data = array("f", actions.tobytes())
    message.start.position = array("f", [0.0] * DOF)
    message.start.velocity = array("f", [0.0] * DOF)
    return message


def action_sequence_in(batch: int) -> Case:
    from rclpy.serialization import deserialize_message, serialize_message

    from traj_integrator_interfaces.msg import ActionSequence
    from traj_integrator_ros.wire.messages import sequence_fields
    from traj_integrator_ros.wire.readers import ActionSequenceReader

    data = bytes(serialize_message(sequence(batch)))
    reader = ActionSequenceReader()
    expected = sequence_fields(sequence(batch))

    def check(fields: object) -> None:
        for name, got, wanted in zip(fields._fields, fields, expected, strict=True):
            assert np.array_equal(got, wanted), f"{name} differs"

    return Case(
        "ActionSequence in",
        batch,
        HORIZON,
        DOF,
        Contender("ours", lambda: reader.read(data).fields, check),
        (Contender(OBJECTS, lambda: sequence_fields(deserialize_message(data, ActionSequence)), check),),
    )


def joint_state_in() -> Case:
    from rclpy.serialization import deserialize_message, serialize_message
    from sensor_msgs.msg import JointState

    from traj_integrator_ros.handling.measured import JointStates
    from traj_integrator_ros.wire.readers import JointStateReader

    numbers = array("d", range(DOF))
    message = JointState(name=list(JOINTS), position=numbers, velocity=numbers, effort=numbers)
    data = bytes(serialize_message(message))
    reader, states = JointStateReader(), JointStates(JOINTS)

    def ours() -> JointStates:
        state = reader.read(data)
        states.update(state.names, state.position, state.velocity, state.stamp_ns, NOW_NS)
        return states

    def objects() -> JointStates:
        state: JointState = deserialize_message(data, JointState)
        states.update(state.name, np.asarray(state.position), np.asarray(state.velocity), 0, NOW_NS)
        return states

    def check(result: object) -> None:
        assert result.latest(NOW_NS, 0.0).position.tolist() == numbers.tolist(), "another state"

    contenders = Contender("ours", ours, check), Contender(OBJECTS, objects, check)
    return Case("JointState in", 1, 1, DOF, contenders[0], (contenders[1],), dtype="float64")


def callback(batch: int) -> Case:
    """All that the node does with a sequence: read, check, integrate, check, serialize both outputs.

    The limit is to take in and give out the same bytes: one copy of each.
    """
    from rclpy.serialization import deserialize_message, serialize_message

    from traj_integrator_interfaces.msg import TrajectoryBatch
    from traj_integrator_ros.kernels import clique_step
    from traj_integrator_ros.wire.readers import ActionSequenceReader
    from traj_integrator_ros.wire.writers import JointTrajectoryWriter, serialize_batch

    message = sequence(batch)
    data = bytes(serialize_message(message))
    pipeline, reader, writer = pipeline_with_limits(), ActionSequenceReader(), JointTrajectoryWriter(JOINTS)

    def ours() -> tuple[bytes, bytes]:
        received = reader.read(data)
        integrated = pipeline.integrate(received.fields, NOW_NS)
        trajectory = pipeline.trajectory(integrated, 0, NOW_NS)
        request = integrated.request
        sizes = request.batch, request.output_horizon
        times = integrated.times
        return (
            writer.serialize(trajectory.points),
            serialize_batch(request.columns.names, received.stamp, *sizes, times, integrated.trajectories),
        )

    def check(result: object) -> None:
        got = deserialize_message(result[1], TrajectoryBatch)
        actions = np.asarray(message.data, np.float64).reshape(batch, HORIZON, DOF)
        expected = clique_step(torch.from_numpy(actions), torch.zeros(1, DOF, dtype=torch.float64), dt=DT)
        for name, values in zip(("position", "velocity"), expected, strict=False):
            assert np.allclose(getattr(got, name), values.ravel(), rtol=1e-4, atol=1e-4), f"{name} differs"

    sources = data, b"".join(ours())

    def copy() -> list[bytearray]:
        return [bytearray(source) for source in sources]

    def same(result: object) -> None:
        assert list(result) == list(sources)

    return Case(
        "sequence to both outputs",
        batch,
        HORIZON,
        DOF,
        Contender("ours", ours, check),
        limit=Contender("copy of the same bytes", copy, same),
    )


def pipeline_with_limits() -> object:
    from soak.streams.core import pipeline_of
    from traj_integrator_ros.handling.parameters import NodeParameters, default_values
    from traj_integrator_ros.handling.published import PublishedMotion

    values = {**default_values(), **LIMITS, "joint_names": list(JOINTS), "device": "cpu"}
    return pipeline_of(NodeParameters.from_values(values), PublishedMotion())

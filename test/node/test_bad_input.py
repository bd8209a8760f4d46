"""Bad input over DDS is counted by reason and nothing published, or success = false with the reason."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from node_fixtures import JOINTS
from rclpy.serialization import serialize_message
from ros_client import RosClient, assert_counted, floats, sequence
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.handling.rejection import RejectionReason

pytestmark = pytest.mark.ros
DOF = 3


def good(**changes: object) -> ActionSequence:
    """A sequence [2, 4, 3] that is all right but for the changed fields; start_* are those of `start`."""
    message = sequence(np.full((2, 4, DOF), 0.01), position=np.zeros(DOF), dt=[0.02])
    for name, value in changes.items():
        if name.startswith("start_") and name != "start_index":
            setattr(message.start, name[len("start_") :], value)
        else:
            setattr(message, name, value)
    return message


def spoiled(value: float, length: int = 24) -> array:
    return floats([0.0] * (length - 1) + [value])


@dataclass(frozen=True)
class Bad:
    reason: str
    field: str
    changes: dict[str, object] = field(default_factory=dict)


LONG, UGLY = "j" * 10_000, "ü\n\x1b[31m"
BAD = {
    "unknown joint": Bad("unknown_joint", "joint_names", {"joint_names": ["joint_a", "joint_b", "elbow"]}),
    "a very long name": Bad("unknown_joint", "joint_names", {"joint_names": ["joint_a", "joint_b", LONG]}),
    "an empty name": Bad("unknown_joint", "joint_names", {"joint_names": ["joint_a", "joint_b", ""]}),
    "a name with line breaks": Bad("unknown_joint", "joint_names", {"joint_names": ["joint_a", "joint_b", UGLY]}),
    "duplicate joint": Bad("duplicate_joint", "joint_names", {"joint_names": ["joint_a", "joint_b", "joint_b"]}),
    "too few names": Bad("joint_count", "joint_names", {"joint_names": ["joint_a", "joint_b"]}),
    "control space": Bad("invalid_control_space", "control_space", {"control_space": 6}),
    "no batch": Bad("size_out_of_range", "batch", {"batch": 0}),
    "no horizon": Bad("size_out_of_range", "horizon", {"horizon": 0}),
    "batch over maximum": Bad("size_out_of_range", "batch", {"batch": 65}),
    "horizon over maximum": Bad("size_out_of_range", "horizon", {"horizon": 65}),
    "2^31 batch": Bad("size_out_of_range", "batch", {"batch": 2**31}),
    "largest claims": Bad("size_out_of_range", "batch", {"batch": 2**32 - 1, "horizon": 2**32 - 1}),
    "short data": Bad("size_mismatch", "data", {"data": floats(np.zeros(23))}),
    "long data": Bad("size_mismatch", "data", {"data": floats(np.zeros(25))}),
    "batch and data": Bad("size_mismatch", "data", {"batch": 3}),
    "NaN in data": Bad("not_finite", "data", {"data": spoiled(math.nan)}),
    "infinity in data": Bad("not_finite", "data", {"data": spoiled(math.inf)}),
    "opposite infinities in data": Bad("not_finite", "data", {"data": floats([math.inf, -math.inf] + [0.0] * 22)}),
    "data that overflows": Bad("non_finite_result", "velocity", {"data": floats([3e38] + [0.0] * 23)}),
    "dt length": Bad("size_mismatch", "dt", {"dt": floats([0.02] * 3)}),
    "dt zero": Bad("invalid_dt", "dt", {"dt": floats([0.0])}),
    "dt negative": Bad("invalid_dt", "dt", {"dt": floats([0.02, 0.02, -0.02, 0.02])}),
    "dt denormal": Bad("invalid_dt", "dt", {"dt": floats([1e-42])}),
    "dt huge": Bad("invalid_dt", "dt", {"dt": floats([1e30])}),
    "dt NaN": Bad("not_finite", "dt", {"dt": spoiled(math.nan, 8)}),
    "start rows": Bad("size_mismatch", "start.position", {"start_position": floats(np.zeros(4))}),
    "start rows and batch": Bad("size_mismatch", "start.position", {"start_position": floats(np.zeros(9))}),
    "start velocity": Bad("size_mismatch", "start.velocity", {"start_velocity": floats(np.zeros(6))}),
    "start velocity alone": Bad(
        "size_mismatch", "start.velocity", {"start_position": floats([]), "start_velocity": floats(np.zeros(3))}
    ),
    "start NaN": Bad("not_finite", "start.acceleration", {"start_acceleration": spoiled(math.nan, 3)}),
    "start pool": Bad("size_out_of_range", "start.position", {"start_position": floats(np.zeros(65 * 3))}),
    "start index": Bad("start_index_out_of_range", "start_index", {"start_index": array("I", [0, 1])}),
    "start index huge": Bad("start_index_out_of_range", "start_index", {"start_index": array("I", [0, 2**32 - 1])}),
    "start index length": Bad("size_mismatch", "start_index", {"start_index": array("I", [0])}),
}  # fmt: skip
cases = pytest.mark.parametrize("bad", list(BAD.values()), ids=list(BAD))


def test_bad_sequences_on_the_topic_are_dropped_and_counted(client: RosClient) -> None:
    before = client.counts()
    for name, bad in BAD.items():
        client.sequences.publish(good(**bad.changes))
        batch, _ = client.answer(good())  # of the good one: messages of one publisher keep their order
        assert batch.batch == 2 and np.isfinite(batch.position).all(), name
        assert len(client.batches) == 1, name
    expected = Counter(bad.reason for bad in BAD.values())

    def counted() -> dict[str, int]:
        now = client.counts()
        new = {r.value: int(now[f"rejected.{r.value}"]) - int(before[f"rejected.{r.value}"]) for r in RejectionReason}
        return {reason: count for reason, count in new.items() if count}

    client.wait_for(lambda: sum(counted().values()) >= len(BAD), "counts of all bad sequences")
    assert counted() == expected


@cases
def test_a_bad_sequence_to_integrate_is_refused_with_the_field(client: RosClient, bad: Bad) -> None:
    response = client.integrate(good(**bad.changes))
    assert not response.success
    assert response.message.startswith(f"{bad.reason}: {bad.field}"), response.message
    assert len(response.message) < 400 and response.message.isprintable()
    assert len(response.trajectory.position) == 0
    assert client.integrate(good()).success


# Gradients do not depend on the size of actions: those that overflow a trajectory are good here.
@pytest.mark.parametrize("bad", [pytest.param(b, id=i) for i, b in BAD.items() if b.reason != "non_finite_result"])
def test_a_bad_sequence_to_compute_gradient_is_refused_with_the_field(client: RosClient, bad: Bad) -> None:
    request = ComputeGradient.Request(actions=good(**bad.changes), grad_position=floats(np.ones(24)))
    response = client.compute_gradient(request)
    assert not response.success
    assert response.message.startswith(f"{bad.reason}: {bad.field}"), response.message
    assert len(response.grad_action) == 0


@pytest.mark.parametrize(
    ("values", "reason"),
    [(np.ones(23), "gradient_length"), (np.ones(48), "gradient_length"), (np.full(24, np.nan), "not_finite")],
)
@pytest.mark.parametrize("name", ["grad_position", "grad_velocity", "grad_acceleration", "grad_jerk"])
def test_a_bad_upstream_gradient_is_refused_with_the_field(
    client: RosClient, name: str, values: np.ndarray, reason: str
) -> None:
    response = client.compute_gradient(ComputeGradient.Request(actions=good(), **{name: floats(values)}))
    assert not response.success
    assert response.message.startswith(f"{reason}: {name}"), response.message


def test_an_upstream_gradient_that_overflows_is_refused(client: RosClient) -> None:
    response = client.compute_gradient(ComputeGradient.Request(actions=good(), grad_jerk=floats(np.full(24, 3e38))))
    assert response.message.startswith("non_finite_result: grad_")


STATES = {
    "joint missing": ("joint_missing", ["joint_a", "joint_b", "other"], [0.0] * 3, []),
    "duplicate": ("duplicate_joint", ["joint_a", "joint_b", "joint_c", "joint_a"], [0.0] * 4, []),
    "fewer positions": ("joint_count", JOINTS, [0.0] * 2, []),
    "fewer velocities": ("joint_count", JOINTS, [0.0] * 3, [0.0] * 2),
    "NaN position": ("not_finite", JOINTS, [0.0, 0.0, math.nan], []),
    "infinite velocity": ("not_finite", JOINTS, [0.0] * 3, [0.0, math.inf, 0.0]),
}


@pytest.mark.parametrize(("reason", "names", "position", "velocity"), list(STATES.values()), ids=list(STATES))
def test_a_bad_joint_state_is_counted_and_the_one_before_stays(
    client: RosClient, reason: str, names: list[str], position: list[float], velocity: list[float]
) -> None:
    client.settle_state([0.5, 0.5, 0.5])
    assert_counted(client, lambda: client.publish_state(position, velocity, names), reason)
    batch, _ = client.answer(sequence(np.zeros((1, 2, DOF))))
    assert np.allclose(batch.position[:3], 0.5)


def plan(times_s: list[float], positions: object, names: object = JOINTS) -> JointTrajectory:
    message = JointTrajectory(joint_names=list(names))
    for time_s, row in zip(times_s, positions, strict=True):
        point = JointTrajectoryPoint(positions=array("d", row))
        nanoseconds = round(time_s * 1e9)
        point.time_from_start.sec, point.time_from_start.nanosec = nanoseconds // 10**9, nanoseconds % 10**9
        message.points.append(point)
    return message


ROWS = np.zeros((3, DOF))
PLANS = {
    "no joints": ("joint_count", plan([0.0], [[]], [])),
    "unknown joint": ("unknown_joint", plan([0.0], [[0.0]], ["elbow"])),
    "duplicate joint": ("duplicate_joint", plan([0.0], [[0.0, 0.0]], ["joint_a", "joint_a"])),
    "no points": ("size_out_of_range", plan([], [])),
    "too many points": ("size_out_of_range", plan([0.1 * i for i in range(65)], np.zeros((65, DOF)))),
    "short point": ("joint_count", plan([0.0, 1.0], [[0.0] * 3, [0.0] * 2])),
    "NaN": ("not_finite", plan([0.0, 1.0], [[0.0] * 3, [0.0, math.nan, 0.0]])),
    "negative time": ("invalid_times", plan([-0.1, 0.1, 0.2], ROWS)),
    "equal times": ("invalid_times", plan([0.0, 0.1, 0.1], ROWS)),
    "falling times": ("invalid_times", plan([0.0, 0.2, 0.1], ROWS)),
    "overflow": ("non_finite_result", plan([0.0, 1e-9], [[0.0] * 3, [1e300] * 3])),
}


@pytest.mark.parametrize(("reason", "message"), list(PLANS.values()), ids=list(PLANS))
def test_a_bad_position_trajectory_is_dropped_and_counted(
    client: RosClient, reason: str, message: JointTrajectory
) -> None:
    assert_counted(client, lambda: client.plans.publish(message), reason)


def test_a_position_trajectory_that_is_over_already_is_dropped(client: RosClient) -> None:
    message = plan([0.0, 1.0], ROWS[:2])
    message.header.stamp.sec = 1
    assert_counted(client, lambda: client.plans.publish(message), "invalid_times")


def test_names_that_are_no_utf8_do_not_end_the_node(client: RosClient) -> None:
    for publisher, message in (
        (client.states, JointState(name=["joint_a", "joint_b", "QQQQ"], position=[0.0] * 3)),
        (client.sequences, good(joint_names=["joint_a", "joint_b", "QQQQ"])),
    ):
        corrupted = bytes(serialize_message(message)).replace(b"QQQQ", b"\xff\xfe\xfd\xfc")
        publisher.publish(corrupted)
        client.spin(0.3)
        client.answer(good())


def test_a_clock_that_jumps_back_drops_the_state_until_the_next_one(client: RosClient) -> None:
    message = sequence(np.zeros((1, 2, DOF)))
    assert_counted(client, lambda: client.publish_state([0.3] * DOF, age_s=100.0), "clock_jumped_back")
    assert client.integrate(message).message.startswith("clock_jumped_back: start")
    client.publish_state([0.4] * DOF, age_s=99.99)
    client.spin(0.1)
    assert np.allclose(client.integrate(message).trajectory.position[:3], 0.4)

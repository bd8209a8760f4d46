"""The batch and the row for the controller are judged apart, and the refused one is named everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from node_fixtures import JOINTS, NodeServer, plan
from ros_client import RosClient
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from kit.node_process import NodeProcess
from traj_integrator_interfaces.msg import ActionSequence, Rejection, TrajectoryBatch
from traj_integrator_interfaces.srv import Stop
from traj_integrator_ros.client import sequence
from traj_integrator_ros.client.requests import set_stamp

DOF = 3
NEAR, FAR = np.zeros(DOF), np.full(DOF, 0.5)
BOTH, BATCH, ROW = "both", "trajectory_batch", "joint_trajectory"
STRICT = {"limits.action": "reject", "limits.velocity": [1.0] * DOF}
SCHEDULED = {"start_from": "previous"}
SUPERVISED = {"supervision.deviation": 0.05}
SLOW, FAST = np.full((4, DOF), 0.1), np.full((4, DOF), 2.0)


def velocities(*rows: np.ndarray, start: object = NEAR) -> ActionSequence:
    return sequence(np.stack(rows), control_space=ActionSequence.VELOCITY, position=start)


def told_by(client: RosClient) -> list[Rejection]:
    told: list[Rejection] = []
    client.subscribe(Rejection, "~/rejections", told.append, 200)
    client.wait_for(lambda: client.node.count_publishers(f"{client.node_name}/rejections"), "~/rejections")
    client.spin(0.3)
    return told


def counts_of(client: RosClient) -> dict[str, int]:
    keys = ("batches_published", "batches_rejected", "trajectories_published", "trajectories_rejected")
    counts = client.counts()
    return {key: int(counts[key]) for key in keys}


def stamped(message: ActionSequence, after_s: float) -> ActionSequence:
    set_stamp(message, time.time_ns() + int(after_s * 1e9))
    return message


def hold(client: RosClient) -> None:
    assert client.call(Stop, "stop", Stop.Request(hold=True)).success


def nothing(client: RosClient) -> None:
    """The robot and the node are as they are."""


def away(client: RosClient) -> None:
    """The robot was braked, because it is not where it was commanded to be, and does not rest."""

    def drifting() -> None:
        client.publish_state(NEAR, np.full(DOF, 0.1))

    with client.periodically(0.02, drifting):
        client.sequences.publish(velocities(np.full((40, DOF), 0.5)))
        client.wait_for(lambda: client.counts()["braked"] != "no", "a brake")
    client.spin(0.1)


def falling(client: RosClient) -> None:
    """The robot moves faster than a controller could meet it, and nobody has commanded that."""
    client.settle_state(NEAR, np.full(DOF, 5.0))


@pytest.mark.parametrize(
    ("changes", "before", "make", "reason"),
    [
        ({"limits.assumed_velocity": 0.0}, nothing, lambda: velocities(*[SLOW] * 4), "no_limits"),
        (STRICT, nothing, lambda: velocities(FAST, SLOW, SLOW, SLOW), "limits_violated"),
        (STRICT, nothing, lambda: velocities(*[SLOW] * 4, start=FAR), "start_mismatch"),
        ({"publish.row": 4}, nothing, lambda: velocities(*[SLOW] * 4), "size_out_of_range"),
        ({}, hold, lambda: velocities(*[SLOW] * 4), "stopped"),
        (SCHEDULED, nothing, lambda: stamped(velocities(*[SLOW] * 4), -5.0), "stale_sequence"),
        (SCHEDULED, nothing, lambda: stamped(velocities(*[SLOW] * 4), 30.0), "future_sequence"),
        (SUPERVISED, away, lambda: velocities(*[SLOW] * 4), "deviation"),
        ({"publish.bridge_time": 0.2}, falling, lambda: velocities(*[SLOW] * 4), "deviation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_the_row_for_the_controller_does_not_keep_back_the_batch(
    serve: NodeServer,
    changes: Mapping[str, object],
    before: Callable[[RosClient], None],
    make: Callable[[], ActionSequence],
    reason: str,
) -> None:
    process, client = serve(changes)
    client.settle_state(NEAR)
    before(client)
    assert_batch_alone(process, client, make, reason)


def test_a_controller_that_is_off_does_not_keep_back_the_batch(report_type: type, serve: NodeServer) -> None:
    process, client = serve(kind=NodeProcess)  # not one of the preloaded ones, which have looked for control_msgs
    client.settle_state(NEAR)
    reports = client.publisher(report_type, "controller_state")
    rest = JointTrajectoryPoint(positions=NEAR.tolist(), velocities=NEAR.tolist())

    def report() -> None:
        message = report_type(joint_names=list(JOINTS), reference=rest, speed_scaling_factor=1.0)
        set_stamp(message, time.time_ns())
        reports.publish(message)

    with client.periodically(0.02, report):
        client.wait_for(lambda: client.counts()["controller"] == "holding", "reports that are taken")
    client.wait_for(lambda: client.counts()["controller"] == "silent", "silence that is noticed")
    assert_batch_alone(process, client, lambda: velocities(*[SLOW] * 4), "controller_unavailable")


def assert_batch_alone(
    process: NodeProcess, client: RosClient, make: Callable[[], ActionSequence], reason: str
) -> None:
    """A batch of four by four is answered, but for its row; and log, rejections and diagnostics say so."""
    told, counted = told_by(client), counts_of(client)
    client.batches.clear()
    client.trajectories.clear()
    client.sequences.publish(make())
    client.wait_for(lambda: client.batches and told, "the batch, and why there is no row")
    batch = client.batches[0]
    assert (batch.batch, batch.horizon, len(batch.position)) == (4, 4, 4 * 4 * DOF)
    assert [(one.output, one.reason, one.count) for one in told] == [(ROW, reason, 1)]
    assert not client.trajectories
    more = {key: count - counted[key] for key, count in counts_of(client).items()}
    assert more == {
        "batches_published": 1,
        "batches_rejected": 0,
        "trajectories_published": 0,
        "trajectories_rejected": 1,
    }
    assert f"action_sequence rejected for {ROW}, {reason}: " in process.output


def test_a_hundred_batches_that_start_away_from_the_robot_are_a_hundred_batches(serve: NodeServer) -> None:
    _, client = serve(STRICT)
    client.settle_state(NEAR)
    told = told_by(client)
    for number in range(1, 101):
        client.sequences.publish(velocities(*[SLOW] * 4, start=FAR))
        client.wait_for(lambda number=number: len(client.batches) == number == len(told), f"batch {number}")
    assert {(one.output, one.reason) for one in told} == {(ROW, "start_mismatch")}
    assert not client.trajectories


def test_the_batch_leaves_before_a_row_that_has_to_be_slowed_is_made(serve: NodeServer) -> None:
    _, client = serve({**STRICT, "limits.action": "retime"})
    left_ns: dict[str, int] = {}
    for kind, topic in ((TrajectoryBatch, BATCH), (JointTrajectory, ROW)):
        client.subscribe(
            kind, f"~/{topic}", lambda _, info, topic=topic: left_ns.setdefault(topic, info["source_timestamp"])
        )
    client.settle_state(NEAR)
    told = told_by(client)
    before = counts_of(client)
    client.sequences.publish(velocities(*[np.tile(FAST, (8, 1))] * 4))
    client.wait_for(lambda: left_ns.keys() == {BATCH, ROW}, "both outputs")
    assert left_ns[BATCH] < left_ns[ROW]
    after = counts_of(client)
    assert [after[key] - before[key] for key in after] == [1, 0, 1, 0]
    assert int(client.counts()["slowed"]) == 1
    assert not told


def broken(change: Callable[[ActionSequence], None]) -> ActionSequence:
    message = velocities(*[SLOW] * 4)
    change(message)
    return message


def _not_finite(message: ActionSequence) -> None:
    message.data[-1] = np.nan


def _too_long(message: ActionSequence) -> None:
    message.data.append(0.0)


def _unknown(message: ActionSequence) -> None:
    message.joint_names = ["joint_a", "joint_b", "joint_x"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: broken(_not_finite), "not_finite"),
        (lambda: broken(_too_long), "size_mismatch"),
        (lambda: broken(_unknown), "unknown_joint"),
        (lambda: velocities(SLOW, start=()), "no_joint_state"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_the_sequence_refuses_both_outputs_once(
    serve: NodeServer, make: Callable[[], ActionSequence], reason: str
) -> None:
    _, client = serve()
    told = told_by(client)
    client.sequences.publish(make())
    client.wait_for(lambda: told, "the rejection")
    client.spin(0.2)
    assert [(one.output, one.reason) for one in told] == [(BOTH, reason)]
    assert not client.batches and not client.trajectories
    assert counts_of(client) == {
        "batches_published": 0,
        "batches_rejected": 1,
        "trajectories_published": 0,
        "trajectories_rejected": 1,
    }


def test_a_trajectory_that_overflows_refuses_the_batch_and_not_a_sound_row(serve: NodeServer) -> None:
    _, client = serve({"publish.on_reject": "brake"})
    client.settle_state(NEAR)
    told = told_by(client)
    actions = np.zeros((2, 4, DOF))
    actions[1] = 3e38  # finite, and its differences are not
    overflowing = sequence(actions, position=NEAR)
    client.sequences.publish(overflowing)
    client.wait_for(lambda: client.trajectories and told, "the row, and why there is no batch")
    client.spin(0.2)
    assert [(one.output, one.reason) for one in told] == [(BATCH, "non_finite_result")]
    assert (len(client.batches), len(client.trajectories)) == (0, 1), "nor is the robot braked for that"


def test_nothing_is_integrated_that_nobody_receives(serve: NodeServer) -> None:
    _, client = serve()
    client.settle_state(NEAR)
    told = told_by(client)
    client.node.destroy_subscription(client.batch_subscription)
    client.wait_for(lambda: not client.node.count_subscribers(f"{client.node_name}/{BATCH}"), "unsubscribed")
    client.spin(0.3)
    actions = np.zeros((2, 4, DOF))
    actions[1] = 3e38  # whoever integrates it finds it
    client.sequences.publish(sequence(actions, position=NEAR))
    client.wait_for(lambda: client.trajectories, "the row")
    client.spin(0.2)
    assert not told
    assert counts_of(client)["batches_rejected"] == counts_of(client)["batches_published"] == 0


def test_a_sampler_that_switches_the_row_off_needs_no_limits_and_is_told_nothing(serve: NodeServer) -> None:
    _, client = serve({"limits.assumed_velocity": 0.0, "publish.joint_trajectory": False})
    client.settle_state(NEAR)
    told = told_by(client)
    client.sequences.publish(velocities(SLOW, FAST, start=()))
    client.wait_for(lambda: client.batches, "the batch")
    client.spin(0.2)
    assert not told and not client.trajectories


def test_a_refused_position_trajectory_is_refused_for_the_only_output_it_has(serve: NodeServer) -> None:
    _, client = serve()
    client.settle_state(NEAR)
    told = told_by(client)
    client.plans.publish(plan([1.0, 0.5], [NEAR, NEAR]))
    client.wait_for(lambda: told, "the rejection")
    assert [(one.topic, one.output, one.reason) for one in told] == [("position_trajectory", ROW, "invalid_times")]
    counts = counts_of(client)
    assert (counts["batches_rejected"], counts["trajectories_rejected"]) == (0, 1)

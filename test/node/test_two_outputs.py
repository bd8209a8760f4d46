"""The batch and the row for the controller are judged separately, and a refused one is named everywhere.

test/robustness tests every reason of a refusal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from node_fixtures import NodeServer
from ros_client import RosClient
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_ros.client import sequence

DOF = 3
NEAR = np.zeros(DOF)
BATCH, ROW = "trajectory_batch", "joint_trajectory"
STRICT = {"limits.action": "reject", "limits.velocity": [1.0] * DOF}
SLOW, FAST = np.full((4, DOF), 0.1), np.full((4, DOF), 2.0)


def velocities(*rows: np.ndarray, start: object = NEAR) -> ActionSequence:
    return sequence(np.stack(rows), control_space=ActionSequence.VELOCITY, position=start)


def counts_of(client: RosClient) -> list[int]:
    """Batches published and rejected, trajectories published and rejected."""
    counts = client.counts()
    return [int(counts[f"{what}_{fate}"]) for what in ("batches", "trajectories") for fate in ("published", "rejected")]


def away(client: RosClient) -> Callable[[], None]:
    """Have the robot braked because it goes back against its command; returns a function that lets it do so."""
    begun = time.monotonic()

    def drifting() -> None:
        client.publish_state(NEAR - 0.1 * (time.monotonic() - begun), np.full(DOF, -0.1))

    with client.periodically(0.02, drifting):
        client.sequences.publish(velocities(np.full((40, DOF), 0.5)))
        client.wait_for(lambda: client.counts()["braked"] != "no", "a brake")
    return drifting


def falling(client: RosClient) -> None:
    """Let the robot move faster than a controller could meet it, without a command."""
    client.settle_state(NEAR, np.full(DOF, 5.0))


@pytest.mark.parametrize(
    ("changes", "before", "message", "reason"),
    [
        (STRICT, lambda client: None, velocities(FAST, SLOW, SLOW, SLOW), "limits_violated"),
        ({"supervision.deviation": 0.05}, away, velocities(*[SLOW] * 4), "deviation"),
        ({"publish.bridge_time": 0.2}, falling, velocities(*[SLOW] * 4), "deviation"),
    ],
    ids=["limits", "braked", "falling"],
)
def test_a_wrong_row_for_the_controller_does_not_keep_back_the_batch(
    serve: NodeServer,
    changes: Mapping[str, object],
    before: Callable[[RosClient], Callable[[], None] | None],
    message: ActionSequence,
    reason: str,
) -> None:
    process, client = serve(changes)
    client.settle_state(NEAR)
    goes_on = before(client) or (lambda: None)
    told, counted = client.rejections, counts_of(client)
    told.clear()
    client.batches.clear()
    client.trajectories.clear()
    with client.periodically(0.02, goes_on):
        client.sequences.publish(message)
        client.wait_for(lambda: client.batches and told, "the batch, and why there is no row")
    batch = client.batches[0]
    assert (batch.batch, batch.horizon, len(batch.position)) == (4, 4, 4 * 4 * DOF)
    assert [(one.output, one.reason, one.count) for one in told] == [(ROW, reason, 1)]
    assert not client.trajectories
    assert np.subtract(counts_of(client), counted).tolist() == [1, 0, 0, 1]
    assert f"action_sequence rejected for {ROW}, {reason}: " in process.output


def test_the_batch_leaves_before_a_row_that_has_to_be_slowed_is_made(serve: NodeServer) -> None:
    _, client = serve({**STRICT, "limits.action": "retime"})
    left_ns: dict[str, int] = {}
    for kind, topic in ((TrajectoryBatch, BATCH), (JointTrajectory, ROW)):
        client.subscribe(
            kind, f"~/{topic}", lambda _, info, topic=topic: left_ns.setdefault(topic, info["source_timestamp"])
        )
    client.settle_state(NEAR)
    before = counts_of(client)
    client.sequences.publish(velocities(*[np.tile(FAST, (8, 1))] * 4))
    client.wait_for(lambda: left_ns.keys() == {BATCH, ROW}, "both outputs")
    assert left_ns[BATCH] < left_ns[ROW]
    assert np.subtract(counts_of(client), before).tolist() == [1, 0, 1, 0]
    assert int(client.counts()["slowed"]) == 1
    assert not client.rejections


def test_a_trajectory_that_overflows_refuses_the_batch_and_not_a_sound_row(serve: NodeServer) -> None:
    _, client = serve({"publish.on_reject": "brake"})
    client.settle_state(NEAR)
    actions = np.zeros((2, 4, DOF))
    actions[1] = 3e38  # finite, but its differences are not
    overflowing = sequence(actions, position=NEAR)
    client.sequences.publish(overflowing)
    client.wait_for(lambda: client.trajectories and client.rejections, "the row, and why there is no batch")
    client.spin(0.2)
    assert [(one.output, one.reason) for one in client.rejections] == [(BATCH, "non_finite_result")]
    assert (len(client.batches), len(client.trajectories)) == (0, 1), "nor is the robot braked for that"


def test_nothing_is_integrated_that_nobody_receives(serve: NodeServer) -> None:
    _, client = serve()
    client.settle_state(NEAR)
    client.node.destroy_subscription(client.batch_subscription)
    client.wait_for(lambda: not client.node.count_subscribers(f"{client.node_name}/{BATCH}"), "unsubscribed")
    actions = np.zeros((2, 4, DOF))

    def makes_rows_alone() -> bool:
        before = counts_of(client)
        client.sequences.publish(sequence(actions, position=NEAR))
        client.wait_for(lambda: counts_of(client)[2] > before[2], "the row")
        return counts_of(client)[0] == before[0]

    client.wait_for(makes_rows_alone, "a node that knows that nobody receives batches")
    before = counts_of(client)
    actions[1] = 3e38  # its reader will notice when integrating
    client.sequences.publish(sequence(actions, position=NEAR))
    client.wait_for(lambda: counts_of(client)[2] > before[2], "the row")
    assert not client.rejections
    assert counts_of(client) == [before[0], 0, before[2] + 1, 0]

"""`~/stop` while the node is busy with plans beyond limits: the brake does not wait, and its answer is true."""

from __future__ import annotations

import time

import numpy as np
import pytest
from node_fixtures import NodeServer
from node_fixtures import plan as through
from node_variants import SLOW_S, with_slow_kernels, with_slow_reading
from rclpy.action import ActionClient
from ros_client import RosClient

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Integrate, Retime, Stop
from traj_integrator_ros.client import sequence, set_stamp
from traj_integrator_ros.client.requests import cost_message, gradient_request

pytestmark = [pytest.mark.ros, pytest.mark.slow]
DOF, ROWS, DT = 7, 240, 0.02
NAMES = [f"joint_{number}" for number in range(DOF)]
STOPS = 3
MOST_S = 0.2
"""Median of three, s: 20 ms on idle cores, and ten times that on busy ones. It was a quarter of a second, idle."""
TRUE = 0.05
LIMITS = {"limits.velocity": 1.0, "limits.acceleration": 5.0, "limits.jerk": 100.0}
PARAMETERS = {
    "joint_names": NAMES,
    "max_horizon": ROWS,
    "start_from": "previous",
    "limits.action": "retime",
    "limits.assumed_velocity": 0.0,
    "limits.start_deviation": 0.0,
    **{name: [limit] * DOF for name, limit in LIMITS.items()},
}


def plan(begun_s: float) -> ActionSequence:
    """The rest of a plan of all joints that began at a time, with its stamp; the plan exceeds its limits."""
    now_s = time.monotonic() - begun_s
    times = now_s + DT * np.arange(1, ROWS + 1)
    phases = np.arange(DOF)
    rows = 1.3 * np.sin(times[:, None] * (1.0 + 0.1 * phases)) * np.minimum(times, 1.0)[:, None] ** 3
    message = sequence(rows[None], dt=[DT], control_space=ActionSequence.POSITION)
    set_stamp(message, time.time_ns())
    return message


def brake_after_s(client: RosClient) -> float:
    """Time from the call of ~/stop until the brake arrives: the first trajectory that ends soon."""
    client.trajectories.clear()
    called = time.monotonic()
    brakes = lambda: any(message.points[-1].time_from_start.sec < 1 for message in client.trajectories)  # noqa: E731
    answer = client.client(Stop, "stop").call_async(Stop.Request())
    client.wait_for(lambda: brakes() or answer.done(), "the brake")
    took = time.monotonic() - called
    client.wait_for(answer.done, "the answer")
    assert answer.result().success and answer.result().duration > 0, answer.result()
    client.wait_for(brakes, f"the brake of {answer.result()}")
    return took


@pytest.mark.alone
def test_the_brake_is_sent_at_once_whatever_the_node_is_slowing(serve: NodeServer) -> None:
    process, client = serve(PARAMETERS)
    client.joint_names = NAMES
    client.settle_state([0.0] * DOF)
    for kind, name in ((Stop, "stop"), (Integrate, "integrate"), (Retime, "retime")):
        assert client.client(kind, name).wait_for_service(10.0)
    took = []
    for _ in range(STOPS):
        client.spin(1.0)  # it rests
        client.trajectories.clear()
        begun = time.monotonic()
        asked = Integrate.Request(actions=plan(begun), as_published=True)
        busy = client.client(Integrate, "integrate").call_async(asked)
        path = np.random.default_rng(0).normal(size=(ROWS, DOF)).ravel().tolist()
        long = client.client(Retime, "retime").call_async(Retime.Request(batch=1, rows=ROWS, position=path))
        with client.periodically(0.02, lambda begun=begun: client.sequences.publish(plan(begun))):
            client.wait_for(lambda: client.trajectories, "a motion")
            client.spin(1.0)
        took.append(brake_after_s(client))
        client.wait_for(lambda asked=(busy, long): all(one.done() for one in asked), "answers of the services")
        for answer in (busy.result(), long.result()):
            # Where a plan beyond its limits is begun decides whether slowing mends it.
            assert answer.success or answer.message.startswith(("busy: ", "limits_violated: ")), answer.message
    assert np.median(took) < MOST_S, took
    counts = client.counts()
    assert int(counts["slowed"]) and int(counts["rejected.superseded"]), "more came than could be slowed"
    assert "internal_error" not in process.output, process.output


@pytest.mark.thorough
def test_the_answer_counts_from_the_call_although_the_node_was_busy_then(serve: NodeServer) -> None:
    _, client = serve(PARAMETERS | {"limits.jerk": [500.0] * DOF})
    client.joint_names = NAMES
    client.settle_state([0.0] * DOF)
    assert client.client(Stop, "stop").wait_for_service(10.0)
    speed = 0.8
    steady = sequence(np.full((1, 80, DOF), speed), dt=[0.05], control_space=ActionSequence.VELOCITY)
    client.sequences.publish(steady)
    client.wait_for(lambda: client.trajectories, "a motion")
    client.spin(1.5)
    client.trajectories.clear()
    client.sequences.publish(plan(time.monotonic()))  # it keeps the node busy for some milliseconds
    called_ns = time.time_ns()
    answer = client.client(Stop, "stop").call_async(Stop.Request())
    client.wait_for(lambda: answer.done() and client.trajectories, "the answer and the brake")
    brake = client.trajectories[-1]
    first, last = brake.points[0], brake.points[-1]
    until_s = (brake.header.stamp.sec * 10**9 + brake.header.stamp.nanosec - called_ns) * 1e-9
    travelled = last.positions[0] - first.positions[0] + speed * until_s
    lasted = last.time_from_start.sec + last.time_from_start.nanosec * 1e-9 + until_s
    assert first.velocities[0] == pytest.approx(speed, abs=1e-3)
    assert answer.result().distance[0] == pytest.approx(travelled, rel=TRUE)
    assert answer.result().duration == pytest.approx(lasted, rel=TRUE)


MANY_POINTS = 20_000
LARGE = 600
"""Number of trajectories of 32 rows that make a large batch."""


def moving() -> ActionSequence:
    """A motion of 3 s."""
    message = sequence(np.full((1, 60, DOF), 0.3), dt=[0.05], control_space=ActionSequence.VELOCITY)
    set_stamp(message, time.time_ns())
    return message


@pytest.mark.thorough
def test_the_brake_is_sent_while_large_batches_are_computed(serve: NodeServer) -> None:
    _, client = serve(PARAMETERS | {"max_batch": LARGE}, variant=with_slow_kernels)
    client.joint_names = NAMES
    client.settle_state([0.0] * DOF)
    rows = np.random.default_rng(0).normal(size=(LARGE, 32, DOF)) * 0.1
    large = sequence(rows, dt=[DT], control_space=ActionSequence.POSITION)
    cost = cost_message({"position": {"weight": 1.0}}, DOF)
    calls = {
        "integrate": (Integrate, Integrate.Request(actions=large, fields=1, as_published=False)),
        "evaluate": (Evaluate, Evaluate.Request(actions=large, cost=cost)),
        "compute_gradient": (ComputeGradient, gradient_request(large, {"position": rows})),
        "": (None, None),
    }
    for kind, name in ((Stop, "stop"), *((kind, name) for name, (kind, _) in calls.items() if name)):
        assert client.client(kind, name).wait_for_service(10.0)
    for name, (kind, request) in calls.items():
        client.trajectories.clear()
        client.batches.clear()
        with client.periodically(0.1, lambda: client.trajectories or client.sequences.publish(moving())):
            client.wait_for(lambda: client.trajectories, "a motion")
        client.spin(2 * SLOW_S)
        if kind is None:
            set_stamp(large, time.time_ns())
            client.sequences.publish(large)
        else:
            answer = client.client(kind, name).call_async(request)
        client.spin(0.2)
        assert brake_after_s(client) < SLOW_S / 2, name or "action_sequence"
        if kind is None:
            client.wait_for(lambda: client.batches and client.batches[-1].batch == LARGE, "the batch")
            assert int(client.counts()["rejected.stopped"]) == 1, "its row came before the stop"
        else:
            client.wait_for(answer.done, name)
            assert "stopped" not in answer.result().message
        client.spin(1.0)  # it rests


@pytest.mark.parametrize("kind", ["plan", pytest.param("goal", marks=pytest.mark.thorough)])
def test_a_plan_that_a_stop_overtakes_is_not_begun(serve: NodeServer, report_type: type, kind: str) -> None:
    _, client = serve(PARAMETERS, variant=with_slow_reading)
    client.joint_names = NAMES
    client.settle_state([0.0] * DOF)
    service = client.client(Stop, "stop")
    assert service.wait_for_service(10.0)
    share = np.arange(1, MANY_POINTS + 1)[:, None] / MANY_POINTS
    rows = 0.5 * share**2 * (3 - 2 * share) * np.ones(DOF)
    sent = through(20.0 * share[:, 0], rows, NAMES)
    if kind == "plan":
        client.plans.publish(sent)
    else:
        from control_msgs.action import FollowJointTrajectory

        sender = ActionClient(client.node, FollowJointTrajectory, client.topic("~/follow_joint_trajectory"))
        assert sender.wait_for_server(10.0)
        accepted = sender.send_goal_async(FollowJointTrajectory.Goal(trajectory=sent))
        client.wait_for(accepted.done, "the goal")
    client.spin(SLOW_S / 4)  # it is being read
    answer = service.call_async(Stop.Request())
    client.wait_for(lambda: client.rejections, "why the plan is not begun", 4 * SLOW_S)
    assert answer.done() and client.rejections[-1].reason == "stopped"
    client.spin(0.3)
    assert not client.trajectories

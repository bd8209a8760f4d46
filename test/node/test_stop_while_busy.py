"""`~/stop` while the node is busy with plans beyond limits: the brake does not wait, and its answer is true."""

from __future__ import annotations

import time

import numpy as np
import pytest
from node_fixtures import NodeServer
from node_fixtures import plan as through
from node_variants import SLOW_S, with_slow_reading
from rclpy.action import ActionClient
from ros_client import RosClient

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Integrate, Retime, Stop
from traj_integrator_ros.client import sequence, set_stamp

pytestmark = [pytest.mark.ros, pytest.mark.slow]
DOF, ROWS, DT = 7, 240, 0.02
NAMES = [f"joint_{number}" for number in range(DOF)]
STOPS = 3
MOST_S = 0.2
"""Median of three, s: 20 ms on idle cores, and ten times that on busy ones. It was a quarter of a second, idle."""
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


MANY_POINTS = 20_000


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

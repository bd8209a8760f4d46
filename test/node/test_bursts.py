"""Bursts of calls and goals: each is answered or refused, whatever the node was doing when they came."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from lifecycle_msgs.srv import ChangeState, GetAvailableTransitions, GetState
from node_fixtures import JOINTS, NodeServer, plan
from node_variants import with_few_waiting_calls, with_slow_searches
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile

from traj_integrator_interfaces.srv import Integrate
from traj_integrator_ros.client import sequence

pytestmark = [pytest.mark.ros, pytest.mark.slow]
MANY, WITHIN_S = 40, 30.0
ASKED = {
    "get_state": GetState,
    "change_state": ChangeState,
    "get_available_transitions": GetAvailableTransitions,
    "get_parameters": GetParameters,
    "list_parameters": ListParameters,
}
OURS = QoSProfile(depth=100)
"""Queue of our answers: those that displace each other there are not the node's losses."""


@pytest.mark.thorough
def test_a_burst_of_goals_is_answered_goal_by_goal(serve: NodeServer, report_type: type) -> None:
    from control_msgs.action import FollowJointTrajectory

    process, client = serve()
    client.settle_state([0.0] * len(JOINTS))
    sender = ActionClient(
        client.node, FollowJointTrajectory, client.topic("~/follow_joint_trajectory"), goal_service_qos_profile=OURS
    )
    assert sender.wait_for_server(WITHIN_S)
    client.spin(0.5)
    goal = FollowJointTrajectory.Goal(trajectory=plan([1.0, 2.0], [[0.05] * len(JOINTS), [0.1] * len(JOINTS)]))
    os.kill(process.pid, signal.SIGSTOP)
    answers = [sender.send_goal_async(goal) for _ in range(MANY)]
    os.kill(process.pid, signal.SIGCONT)
    client.wait_for(lambda: all(answer.done() for answer in answers), "an answer to each goal", WITHIN_S)
    assert int(client.counts()["rejected.internal_error"]) == 0, process.output
    sender.destroy()


def test_a_burst_of_calls_for_state_or_parameters_is_answered_call_by_call(serve: NodeServer) -> None:
    """rclpy's own services of the lifecycle have room for 10 calls."""
    process, client = serve()
    callers = [
        client.node.create_client(kind, f"{client.node_name}/{name}", qos_profile=OURS) for name, kind in ASKED.items()
    ]
    client.wait_for(lambda: all(caller.service_is_ready() for caller in callers), "the services")
    client.spin(0.5)
    os.kill(process.pid, signal.SIGSTOP)
    answers = [caller.call_async(caller.srv_type.Request()) for caller in callers for _ in range(MANY)]
    client.spin(0.1)
    os.kill(process.pid, signal.SIGCONT)
    client.wait_for(lambda: all(answer.done() for answer in answers), "an answer to each call", WITHIN_S)
    assert client.state() == "active"


def test_calls_beyond_the_queue_are_refused_at_once_and_say_so(serve: NodeServer) -> None:
    process, client = serve(variant=with_few_waiting_calls)
    caller = client.node.create_client(Integrate, f"{client.node_name}/integrate", qos_profile=OURS)
    client.wait_for(caller.service_is_ready, "the service")
    client.spin(0.5)
    asked = Integrate.Request(actions=sequence(np.zeros((2, 4, len(JOINTS))), position=np.zeros(len(JOINTS))))
    os.kill(process.pid, signal.SIGSTOP)
    answers = [caller.call_async(asked) for _ in range(MANY)]
    client.spin(0.1)
    os.kill(process.pid, signal.SIGCONT)
    client.wait_for(lambda: all(answer.done() for answer in answers), "an answer to each call", WITHIN_S)
    refused = [answer.result().message for answer in answers if not answer.result().success]
    assert refused and all(message.startswith("busy: ") for message in refused), refused[:3]
    assert int(client.counts()["rejected.busy"]) == len(refused)


def test_calls_that_wait_for_long_searches_are_refused_in_time(serve: NodeServer) -> None:
    limits = {"limits.velocity": [0.5] * len(JOINTS), "limits.acceleration": [2.0] * len(JOINTS)}
    _, client = serve({"limits.action": "retime", **limits}, variant=with_slow_searches)
    client.settle_state([0.0] * len(JOINTS))
    caller = client.node.create_client(Integrate, f"{client.node_name}/integrate", qos_profile=OURS)
    client.wait_for(caller.service_is_ready, "the service")
    client.spin(0.5)
    rows = np.tile(2 - 2 * np.cos(np.linspace(0, np.pi, 64))[:, None], (1, 1, len(JOINTS)))  # faster than the limits
    asked = Integrate.Request(actions=sequence(rows, position=np.zeros(len(JOINTS))), as_published=True)
    begin_s = time.monotonic()
    answers = [caller.call_async(asked) for _ in range(MANY)]
    client.wait_for(lambda: any(answer.done() for answer in answers), "the first answer", WITHIN_S)
    first_s = time.monotonic() - begin_s
    client.wait_for(lambda: all(answer.done() for answer in answers), "an answer to each call", WITHIN_S)
    assert time.monotonic() - begin_s < 1.0 + 2 * first_s, f"the first one took {first_s:.2f} s"
    refused = [answer.result().message for answer in answers if not answer.result().success]
    assert any(message.startswith("busy: ") for message in refused), refused[:3]

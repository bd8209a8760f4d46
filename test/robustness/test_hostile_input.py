"""Bad input over DDS: every field of every message spoilt in every way, and many generated messages.

Each bad message must be refused for a right reason and nothing else, each good one after it answered.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hostile_messages import (
    NODE,
    UNREAD,
    damaged,
    each_fault,
    good_evaluation,
    good_plan,
    good_report,
    good_sequence,
    spoilt,
    whole_evaluations,
    whole_gradients,
    whole_plans,
    whole_sequence,
    whole_states,
)
from hostile_node import ACTIONS, PARAMETERS, PLAN, REPORT, STATE
from hostile_node import HostileNode as Node
from hostile_oracle import Verdict
from hostile_services import COMMITTED, EVALUATE, GRADIENT, INTEGRATE
from node_fixtures import changed, plan
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from ros_client import RosClient
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from kit.node_process import NodeProcess
from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Integrate, Stop
from traj_integrator_ros.client import packed, set_stamp

pytestmark = [pytest.mark.ros, pytest.mark.slow]
TOPIC = "/traj_integrator/action_sequence"
HUGE = (100_000, 2_000_000)
"""Lengths of arrays of numbers; a batch within the limits of the node has at most 384."""
MANY = 10_000
"""Points."""
ACCEPTED = Verdict(frozenset(), may_pass=True)


def refused(reason: str, field: str = "start") -> Verdict:
    """The verdict on a good message that the node cannot serve now."""
    return Verdict(frozenset({(reason, field)}), may_pass=False)


def integration(message: ActionSequence, as_published: bool = False) -> Integrate.Request:
    return Integrate.Request(actions=message, as_published=as_published)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Node]:
    """One active node for all tests, the robot at rest at 0; it must outlive them all."""
    report_type = None
    with suppress(pytest.skip.Exception):  # without control_msgs, the node takes no reports
        report_type = request.getfixturevalue("report_type")
    process = NodeProcess(tmp_path_factory.mktemp("hostile"), PARAMETERS)
    hostile = None
    try:
        hostile = Node(process, report_type)
        yield hostile
    finally:
        if hostile is not None:
            hostile.client.close()
        process.stop()


@pytest.fixture(autouse=True)
def stays_in_good_health(node: Node) -> Iterator[None]:
    yield
    node.assert_in_good_health()


# All messages, field by field


CHANNELS = {
    ACTIONS: [whole_sequence(space) for space in (ActionSequence.POSITION, ActionSequence.BSPLINE)],
    PLAN: whole_plans(),
    STATE: whole_states(),
    INTEGRATE: [Integrate.Request(actions=whole_sequence(ActionSequence.BSPLINE))],
    GRADIENT: whole_gradients(),
    EVALUATE: whole_evaluations(),
    COMMITTED: [Committed.Request(rows=2, rows_before=2, dt=0.02), Committed.Request(rows=1)],
}
"""Messages to be spoilt."""
SEVERAL = 20
"""Messages with several faults."""


def send_each_fault(node: Node, channel: str, whole: object, *others: object, unread: tuple[str, ...] = UNREAD) -> None:
    """Send messages with one thing wrong after the other; each reason that alone fits one of them must be told."""
    before, wanted = node.rejected.copy(), set()
    once = (*unread, "actions")  # of a request: spoilt in the first one
    for message in chain(each_fault(whole, unread), *(each_fault(other, once) for other in others)):
        verdict = node.verdict(channel, message)
        node.send(channel, message, verdict)
        if len(verdict.reasons) == 1 and not verdict.may_pass:
            wanted |= verdict.reasons
    assert wanted <= (node.rejected - before).keys() and len(wanted) >= 2, wanted


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_field_spoilt_in_every_way_is_refused_and_so_are_several_at_once(node: Node, channel: str) -> None:
    rng = random.Random(0)
    send_each_fault(node, channel, *CHANNELS[channel])
    for _ in range(SEVERAL):
        node.send(channel, spoilt(CHANNELS[channel], rng))
    # After the first of these it has done all that a message can lead to, so that its memory has its size.
    node.warm_bytes = node.warm_bytes or node.process.memory_bytes("VmRSS")


def test_what_overflows_is_refused(node: Node) -> None:
    """The oracle knows no lower bound of results."""
    overflow, huge = refused("non_finite_result", ""), packed([3e38] + [0.0] * 23)
    node.send(INTEGRATE, integration(good_sequence(data=huge)), overflow)
    everywhere = packed(np.full(24, 3e38))
    node.send(GRADIENT, ComputeGradient.Request(actions=good_sequence(), grad_jerk=everywhere), overflow)
    evaluation = good_evaluation()
    evaluation.cost.jerk.weight = evaluation.cost.jerk.target = packed([3e38] * NODE.dof)
    node.send(EVALUATE, evaluation, overflow)
    node.send(PLAN, plan([0.0, 1e-9], [[0.0] * 3, [1e308] * 3]), overflow)


def test_each_refusal_in_a_burst_is_told_with_its_reason_and_stamp(node: Node) -> None:
    node.reset()
    node.told.clear()
    wrong = {"batch": 0, "dt": [-1.0], "control_space": 6, "data": [], "horizon": 17, "joint_names": ["elbow"]}
    wrong |= {"start_position": [np.nan] * NODE.dof, "goal_velocity": [0.0] * NODE.dof}
    bad = [good_sequence(**{name: value}) for name, value in wrong.items()]
    messages = [good_sequence(), *bad, good_sequence(), good_sequence()]
    with changed(node.client, publish__bridge_time=2.0):
        for stamp, message in enumerate(messages):
            message.header.stamp.sec = stamp
            node.client.sequences.publish(message)
            message.header.stamp.sec = 0
            if stamp == len(bad):  # more than 10 would push each other out of the queue
                node.client.wait_for(lambda: len(node.told) >= len(bad), "rejections")
        node.client.wait_for(lambda: len(node.told) > len(bad), "rejections")
    # The second good one gives way to the third, while the controller comes to where the first begins.
    verdicts = [*(node.verdict(ACTIONS, message) for message in bad), refused("superseded")]
    assert [one.header.stamp.sec for one in node.told] == [*range(1, len(verdicts) + 1)]
    assert all(one.reason in verdict.reasons for one, verdict in zip(node.told, verdicts, strict=True))
    assert {(one.topic, one.count) for one in node.told} == {("action_sequence", 1)}
    node.client.wait_for(lambda: len(node.client.trajectories) >= 2, "the first and the third executed")
    node.reset()


@pytest.fixture
def reported(node: Node) -> Iterator[Node]:
    """The node, which knows nothing about the controller, and forgets what it is told."""
    if node.report_type is None:
        pytest.skip("no control_msgs, so the node takes no reports")
    node.reset()
    yield node
    node.reset()


def test_every_bad_report_of_the_controller_is_refused_and_changes_nothing(reported: Node) -> None:
    message = good_report(reported.report_type)
    message.reference.accelerations = [0.0] * NODE.dof
    read = ("joint_names", "reference", "speed_scaling_factor")
    fields = reported.report_type.get_fields_and_field_types()
    unread = (*(name for name in fields if name not in read), "effort", "time_from_start")
    send_each_fault(reported, REPORT, message, unread=unread)


# Rows that are about the state of the node


def send_good_everywhere(node: Node, verdict: Verdict) -> None:
    """Send messages that are all right but for the state of the node; all need a joint state."""
    message = good_sequence(start_position=packed([]))
    request = ComputeGradient.Request(actions=message, grad_position=message.data)
    # A stop is looked for before a start.
    of_plan = replace(verdict, faults=verdict.faults | {("stopped", "node")})
    for _ in range(5):
        node.send(ACTIONS, message, verdict)
        node.send(INTEGRATE, integration(message), verdict)
        node.send(GRADIENT, request, verdict)
        node.send(EVALUATE, good_evaluation(actions=message), verdict)
        node.send(PLAN, plan([0.1], np.zeros((1, NODE.dof))), of_plan)


@contextmanager
def out_of_service(node: Node) -> Iterator[None]:
    """Send no good messages for the time being."""
    node.serves = False
    try:
        yield
    finally:
        node.serves = True


def send_good_motions(node: Node, reason: str) -> None:
    """Send what would move the robot, which is refused for the state of the node; what would not is answered."""
    with out_of_service(node):
        node.send(ACTIONS, good_sequence(), refused(reason))
        node.send(PLAN, good_plan(), refused(reason))
        node.send(INTEGRATE, integration(good_sequence()), ACCEPTED)
        node.send(INTEGRATE, integration(good_sequence(), True), refused(reason, ""))


def test_an_inactive_node_refuses_everything(node: Node) -> None:
    assert node.client.change_state("deactivate")
    with out_of_service(node):
        send_good_everywhere(node, refused("not_active", "node"))
        node.send(COMMITTED, Committed.Request(rows=1), refused("not_active", "node"))
    stop = node.client.call(Stop, "stop", Stop.Request(hold=True))
    assert not stop.success and stop.message.startswith("not_active"), stop
    assert node.client.change_state("activate")
    node.settle()


def test_without_a_joint_state_what_needs_one_is_refused(node: Node) -> None:
    for transition in ("deactivate", "cleanup", "configure", "activate"):
        assert node.client.change_state(transition)
    node.client.wait_until_connected()
    with out_of_service(node):
        send_good_everywhere(node, refused("no_joint_state"))
        node.send(COMMITTED, Committed.Request(rows=1), refused("no_joint_state"))
        # The gradient is linear: without data it depends on no state.
        request = ComputeGradient.Request(actions=good_sequence(start_position=packed([]), data=packed([])))
        request.grad_position = packed(np.ones(24))
        node.send(GRADIENT, request, ACCEPTED)
    node.settle()


def test_a_robot_that_was_stopped_is_not_moved_until_it_is_released(node: Node) -> None:
    assert node.client.call(Stop, "stop", Stop.Request(hold=True)).success
    send_good_motions(node, "stopped")
    assert node.client.call(Stop, "stop", Stop.Request()).success
    node.send(ACTIONS, good_sequence(), ACCEPTED)


def test_without_a_limit_of_velocity_nothing_is_published_for_a_controller(node: Node) -> None:
    with changed(node.client, limits__assumed_velocity=0.0):
        send_good_motions(node, "no_limits")


@pytest.mark.parametrize("report", [{"velocity": 0.1}, {"speed_scaling": 0.5}, {}], ids=["other", "scaled", "silent"])
def test_what_the_controller_would_not_execute_is_refused(reported: Node, report: dict[str, float]) -> None:
    with reported.client.periodically(0.005, lambda: reported.publish_report(0.0, **report)):
        reported.client.wait_for(lambda: reported.client.counts()["controller"] != "unknown", "reports")
        if report:
            send_good_motions(reported, "controller_unavailable")
    reported.client.wait_for(lambda: reported.client.counts()["controller"] == "silent", "silence")
    send_good_motions(reported, "controller_unavailable")


def test_a_joint_state_that_is_too_old_is_refused(node: Node) -> None:
    with changed(node.client, state_timeout=0.01), out_of_service(node):
        node.client.spin(0.05)
        send_good_everywhere(node, refused("state_too_old"))


def test_after_a_clock_jumped_back_nothing_starts_until_the_next_state(node: Node) -> None:
    for age_s in (0.05, 0.2, 3600.0, 1e9):
        state = JointState(name=NODE.joint_names, position=np.zeros(NODE.dof))
        stamp_ns = node.newest_stamp_ns - round(age_s * 1e9)
        state.header.stamp.sec, state.header.stamp.nanosec = divmod(stamp_ns, 10**9)
        node.send(STATE, state)
    node.client.publish_state([0.0] * NODE.dof, stamp_ns=node.newest_stamp_ns - 10**9)
    node.client.wait_for(lambda: "none" in node.client.counts()["state_age_s"], "the state dropped")
    node.take_counts()
    with out_of_service(node):
        send_good_everywhere(node, refused("clock_jumped_back"))
    node.settle()


def test_what_exceeds_limits_is_refused_with_limits_action_reject(node: Node) -> None:
    with changed(node.client, limits__action="reject", limits__velocity=[5.0, 4.0, 3.0]):
        for column in range(NODE.dof):
            velocities, positions = np.zeros((2, 4, NODE.dof)), np.zeros((3, NODE.dof))
            velocities[0, 1, column], positions[1:, column] = -6.0, (3.0, 6.0)
            message = good_sequence(data=packed(velocities), control_space=ActionSequence.VELOCITY)
            node.send(ACTIONS, message, refused("limits_violated", "velocity"))
            for as_published in (False, True):
                node.send(INTEGRATE, integration(message, as_published), refused("limits_violated", "velocity"))
            node.send(PLAN, plan([0.0, 0.5, 1.0], positions), refused("limits_violated"))
    with changed(node.client, limits__action="reject", limits__start_deviation=0.1):
        node.send(ACTIONS, good_sequence(start_position=packed([0.0, 0.2, 0.0])), refused("start_mismatch"))
        node.send(PLAN, plan([0.0, 1.0], [[0.0, 0.0, 0.2]] * 2), refused("start_mismatch"))


def test_what_is_over_or_too_far_ahead_by_its_stamp_is_refused(node: Node) -> None:
    with changed(node.client, start_from="previous"), out_of_service(node):
        for space in range(ActionSequence.POSITION, ActionSequence.BSPLINE + 1):
            for ahead_s, reason in ((-1.0, "stale_sequence"), (2.0, "future_sequence")):
                message = good_sequence(control_space=space)
                set_stamp(message, time.time_ns() + round(ahead_s * 1e9))
                node.send(ACTIONS, message, refused(reason))
        for seconds, reason in ((1, "stale"), (-1, "stale"), (-(2**31), "stale"), (2**31 - 1, "future")):
            message = good_sequence()
            message.header.stamp.sec = seconds
            node.send(ACTIONS, message, refused(f"{reason}_sequence"))


def test_a_plan_whose_end_no_message_can_tell_is_refused(node: Node) -> None:
    """It ends in motion as late as a message can say; the point at rest that belongs after it is later."""
    late = plan([0.0, 1.0], [[0.0] * NODE.dof, [1e9] * NODE.dof])
    late.points[1].time_from_start.sec = 2**31 - 1
    node.send(PLAN, late, refused("invalid_times"))


def test_a_batch_without_the_row_to_publish_is_refused_on_the_topic(node: Node) -> None:
    with changed(node.client, publish__row=1):
        message = good_sequence(batch=1, data=packed(np.zeros(12)))
        node.send(ACTIONS, message, refused("size_out_of_range", "batch"))
        node.send(INTEGRATE, integration(message), ACCEPTED)


# Damaged bytes, of which the middleware's own decoder decides what they are


def resting_state() -> JointState:
    state = JointState(name=NODE.joint_names, position=np.zeros(NODE.dof), velocity=np.zeros(NODE.dof))
    set_stamp(state, time.time_ns())
    return state


@pytest.mark.parametrize(
    ("channel", "make", "first_word", "count"),
    [
        (ACTIONS, lambda _: good_sequence(joint_names=list(NODE.joint_names)), 1, 25),
        (PLAN, lambda _: good_plan(), 1, 25),
        # The stamp stays as it is: one from the future would make all that follow look old.
        (STATE, lambda _: resting_state(), 4, 15),
        (REPORT, good_report, 4, 15),
    ],
)
def test_damaged_bytes(node: Node, channel: str, make: Callable[[type], object], first_word: int, count: int) -> None:
    if channel == REPORT and node.report_type is None:
        pytest.skip("no control_msgs, so the node takes no reports")
    node.reset()
    whole, rng = bytes(serialize_message(make(node.report_type))), random.Random(0)
    for _ in range(count):
        node.send(channel, damaged(whole, first_word, rng))


# Sizes


def send_huge(node: Node) -> None:
    for length in HUGE:
        data = packed(np.zeros(length))
        for name in ("data", "dt", "start_position"):
            message = good_sequence(**{name: data})
            node.send(ACTIONS, message)
            node.send(INTEGRATE, integration(message))
        node.send(GRADIENT, ComputeGradient.Request(actions=good_sequence(), grad_velocity=data))
    node.send(PLAN, plan(np.arange(MANY), np.zeros((MANY, NODE.dof))))


def test_huge_arrays_are_refused_and_take_no_more_memory_the_next_time(node: Node) -> None:
    for _ in range(3):
        send_huge(node)
    node.warm_bytes = node.process.memory_bytes("VmRSS")
    send_huge(node)


def test_what_the_middleware_keeps_out_keeps_nobody_from_being_served(node: Node) -> None:
    other, stranger = RosClient(NODE.joint_names), RosClient(NODE.joint_names, "/somebody/else")
    best_effort = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    unreliable = other.node.create_publisher(ActionSequence, TOPIC, best_effort)
    of_another_type = stranger.node.create_publisher(String, TOPIC, 10)
    node.process.wait_for_output("offering incompatible QoS")
    other.wait_until_connected()
    stranger.wait_for(lambda: stranger.node.count_subscribers(TOPIC), "the node discovered")
    for _ in range(10):
        unreliable.publish(good_sequence(batch=0))
        of_another_type.publish(String(data="not a sequence"))
    # Its writer waits for it to be received, so that all later ones of the same writer wait, too; others do not.
    other.sequences.publish(b"")
    other.spin(0.2)
    other.close()
    stranger.close()
    node.catch_up()
    node.send(ACTIONS, good_sequence(), ACCEPTED)
    node.send(INTEGRATE, integration(good_sequence()), ACCEPTED)

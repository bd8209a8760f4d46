"""Bad input over DDS: every row of the interface's table on every channel, and many generated messages.

Each bad message must be refused for the right reason and nothing else, each good one after it answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
from hostile_cases import (
    COMMITTED,
    EVALUATIONS,
    GRADIENTS,
    NODE,
    ODD_COMMITTED,
    OVERFLOWING,
    PLANS,
    REPORTS,
    SEQUENCES,
    STATES,
    good_evaluation,
    good_plan,
    good_report,
    good_sequence,
    spoiled,
    spoilt_report,
)
from hostile_messages import damaged, evaluation_requests, gradient_requests, plans, sequences, states
from hostile_node import HostileNode
from hostile_oracle import (
    Verdict,
    judge_bytes,
    judge_committed,
    judge_evaluation,
    judge_gradient,
    judge_motion,
    judge_plan,
    judge_report,
    judge_sequence,
    judge_state,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from node_fixtures import changed, plan
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Stop
from traj_integrator_ros.traffic.messages import floats, set_stamp

pytestmark = [pytest.mark.ros, pytest.mark.slow]
BAD_AT_LEAST = 0.4


def generated(count: int) -> settings:
    """Stop at the first failure: it tells the message."""
    return settings(max_examples=count, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


ACCEPTED = Verdict(frozenset(), may_pass=True)


def must_be(reason: str, verdict: Verdict) -> Verdict:
    """The row of the table says one reason: it is among the broken rules, and the node must tell that one."""
    assert reason in verdict.reasons, (reason, verdict)
    assert not verdict.may_pass or reason == "non_finite_result", "of which the oracle has no lower bound"
    return Verdict(frozenset(fault for fault in verdict.faults if fault[0] == reason), may_pass=False)


def refused(reason: str, field: str = "start") -> Verdict:
    """The verdict on a good message that the node cannot serve now."""
    return Verdict(frozenset({(reason, field)}), may_pass=False)


# The table


@pytest.fixture
def node(hostile_node: HostileNode) -> HostileNode:
    return hostile_node


@pytest.fixture(autouse=True)
def stays_in_good_health(node: HostileNode) -> Iterator[None]:
    yield
    node.assert_in_good_health()


def test_every_row_of_the_table_is_refused_on_every_channel(node: HostileNode) -> None:
    for reason, message in [*SEQUENCES.values(), ("non_finite_result", OVERFLOWING)]:
        verdict = must_be(reason, judge_sequence(message, NODE))
        node.sequence(message, verdict)
        node.integrate(message, verdict, as_published=True)
    for reason, request in GRADIENTS.values():
        node.compute_gradient(request, must_be(reason, judge_gradient(request, NODE)))
    for reason, request in EVALUATIONS.values():
        node.evaluate(request, must_be(reason, judge_evaluation(request, NODE)))
    for reason, message in PLANS.values():
        node.plan(message, must_be(reason, judge_plan(message, NODE, time.time_ns())))
    for reason, message in STATES.values():
        node.state(message, must_be(reason, judge_state(message, NODE, node.newest_stamp_ns)))
    for reason, request in COMMITTED.values():
        node.committed(request, must_be(reason, judge_committed(request, NODE, time.time_ns())))
    for request in ODD_COMMITTED:
        node.committed(request, judge_committed(request, NODE, time.time_ns()))


def test_each_refusal_in_a_burst_is_told_with_its_reason_and_stamp(node: HostileNode) -> None:
    node.reset()
    node.told.clear()
    bad = list(SEQUENCES.values())[:8]
    messages = [good_sequence(), *(message for _, message in bad), good_sequence(), good_sequence()]
    with changed(node.client, publish__bridge_time=2.0):
        for stamp, message in enumerate(messages):
            message.header.stamp.sec = stamp
            node.client.sequences.publish(message)
            message.header.stamp.sec = 0
            if stamp == len(bad):  # more than 10 would push each other out of the queue
                node.client.wait_for(lambda: len(node.told) >= len(bad), "rejections")
        node.client.wait_for(lambda: len(node.told) > len(bad), "rejections")
    # The second good one gives way to the third, while the controller comes to where the first begins.
    expected = [*((stamp, reason) for stamp, (reason, _) in enumerate(bad, 1)), (len(bad) + 1, "superseded")]
    assert [(one.header.stamp.sec, one.reason) for one in node.told] == expected
    assert {(one.topic, one.count) for one in node.told} == {("action_sequence", 1)}
    node.client.wait_for(lambda: len(node.client.trajectories) >= 2, "the first and the third executed")
    node.reset()


@pytest.fixture
def reported(node: HostileNode) -> HostileNode:
    """The node, which knows nothing about the controller."""
    if node.report_type is None:
        pytest.skip("no control_msgs, so the node takes no reports")
    node.reset()
    return node


def test_every_bad_report_of_the_controller_is_refused_and_changes_nothing(reported: HostileNode) -> None:
    for reason, changes in REPORTS.values():
        message = spoilt_report(reported.report_type, changes)
        reported.report(message, must_be(reason, judge_report(message, NODE)))


# Rows that are about the state of the node


def send_good_everywhere(node: HostileNode, verdict: Verdict) -> None:
    """Send messages that are all right but for the state of the node; all need a joint state."""
    message = good_sequence(start_position=floats([]))
    request = ComputeGradient.Request(actions=message, grad_position=message.data)
    for _ in range(5):
        node.sequence(message, verdict)
        node.integrate(message, verdict)
        node.compute_gradient(request, verdict)
        node.evaluate(good_evaluation(actions=message), verdict)
        node.plan(plan([0.1], np.zeros((1, NODE.dof))), verdict)


@contextmanager
def out_of_service(node: HostileNode) -> Iterator[None]:
    """Send no good messages for the time being."""
    node.serves = False
    try:
        yield
    finally:
        node.serves = True


def send_good_motions(node: HostileNode, reason: str) -> None:
    """Send what would move the robot, which is refused for the state of the node; what would not is answered."""
    with out_of_service(node):
        node.sequence(good_sequence(), refused(reason))
        node.plan(good_plan(), refused(reason))
        node.integrate(good_sequence(), ACCEPTED)
        node.integrate(good_sequence(), refused(reason, ""), as_published=True)


def test_an_inactive_node_refuses_everything(node: HostileNode) -> None:
    assert node.client.change_state("deactivate")
    with out_of_service(node):
        send_good_everywhere(node, refused("not_active", "node"))
        node.committed(Committed.Request(rows=1), refused("not_active", "node"))
    stop = node.client.call(Stop, "stop", Stop.Request(hold=True))
    assert not stop.success and stop.message.startswith("not_active"), stop
    assert node.client.change_state("activate")
    node.settle()


def test_without_a_joint_state_what_needs_one_is_refused(node: HostileNode) -> None:
    for transition in ("deactivate", "cleanup", "configure", "activate"):
        assert node.client.change_state(transition)
    node.client.wait_until_connected()
    with out_of_service(node):
        send_good_everywhere(node, refused("no_joint_state"))
        node.committed(Committed.Request(rows=1), refused("no_joint_state"))
        # The gradient is linear: without data it depends on no state.
        without_data = good_sequence(start_position=floats([]), data=floats([]))
        node.compute_gradient(ComputeGradient.Request(actions=without_data, grad_position=spoiled(1.0)), ACCEPTED)
    node.settle()


def test_a_robot_that_was_stopped_is_not_moved_until_it_is_released(node: HostileNode) -> None:
    assert node.client.call(Stop, "stop", Stop.Request(hold=True)).success
    send_good_motions(node, "stopped")
    assert node.client.call(Stop, "stop", Stop.Request()).success
    node.sequence(good_sequence(), ACCEPTED)


def test_without_a_limit_of_velocity_nothing_is_published_for_a_controller(node: HostileNode) -> None:
    with changed(node.client, limits__assumed_velocity=0.0):
        send_good_motions(node, "no_limits")


@pytest.mark.parametrize("report", [{"velocity": 0.1}, {"speed_scaling": 0.5}, {}], ids=["other", "scaled", "silent"])
def test_what_the_controller_would_not_execute_is_refused(reported: HostileNode, report: dict[str, float]) -> None:
    with reported.client.periodically(0.005, lambda: reported.publish_report(0.0, **report)):
        reported.client.wait_for(lambda: reported.client.counts()["controller"] != "unknown", "reports")
        if report:
            send_good_motions(reported, "controller_unavailable")
    reported.client.wait_for(lambda: reported.client.counts()["controller"] == "silent", "silence")
    send_good_motions(reported, "controller_unavailable")
    reported.reset()


def test_a_joint_state_that_is_too_old_is_refused(node: HostileNode) -> None:
    with changed(node.client, state_timeout=0.01), out_of_service(node):
        node.client.spin(0.05)
        send_good_everywhere(node, refused("state_too_old"))


def test_after_a_clock_jumped_back_nothing_starts_until_the_next_state(node: HostileNode) -> None:
    for age_s in (0.05, 0.2, 3600.0, 1e9):
        state = JointState(name=NODE.joint_names, position=np.zeros(NODE.dof))
        stamp_ns = node.newest_stamp_ns - round(age_s * 1e9)
        state.header.stamp.sec, state.header.stamp.nanosec = divmod(stamp_ns, 10**9)
        node.state(state, must_be("clock_jumped_back", judge_state(state, NODE, node.newest_stamp_ns)))
    node.client.publish_state([0.0] * NODE.dof, stamp_ns=node.newest_stamp_ns - 10**9)
    node.client.wait_for(lambda: "none" in node.client.counts()["state_age_s"], "the state dropped")
    node.take_counts()
    with out_of_service(node):
        send_good_everywhere(node, refused("clock_jumped_back"))
    node.settle()


def test_what_exceeds_limits_is_refused_with_limits_action_reject(node: HostileNode) -> None:
    with changed(node.client, limits__action="reject", limits__velocity=[5.0, 4.0, 3.0]):
        for column in range(NODE.dof):
            velocities, positions = np.zeros((2, 4, NODE.dof)), np.zeros((3, NODE.dof))
            velocities[0, 1, column], positions[1:, column] = -6.0, (3.0, 6.0)
            message = good_sequence(data=floats(velocities), control_space=ActionSequence.VELOCITY)
            node.sequence(message, refused("limits_violated", "velocity"))
            for as_published in (False, True):
                node.integrate(message, refused("limits_violated", "velocity"), as_published=as_published)
            node.plan(plan([0.0, 0.5, 1.0], positions), refused("limits_violated"))
    with changed(node.client, limits__action="reject", limits__start_deviation=0.1):
        node.sequence(good_sequence(start_position=floats([0.0, 0.2, 0.0])), refused("start_mismatch"))
        node.plan(plan([0.0, 1.0], [[0.0, 0.0, 0.2]] * 2), refused("start_mismatch"))


def test_what_is_over_or_too_far_ahead_by_its_stamp_is_refused(node: HostileNode) -> None:
    with changed(node.client, start_from="previous"), out_of_service(node):
        for space in range(ActionSequence.POSITION, ActionSequence.BSPLINE + 1):
            for ahead_s, reason in ((-1.0, "stale_sequence"), (2.0, "future_sequence")):
                message = good_sequence(control_space=space)
                set_stamp(message, time.time_ns() + round(ahead_s * 1e9))
                node.sequence(message, refused(reason))
        for seconds, reason in ((1, "stale"), (-1, "stale"), (-(2**31), "stale"), (2**31 - 1, "future")):
            message = good_sequence()
            message.header.stamp.sec = seconds
            node.sequence(message, refused(f"{reason}_sequence"))


def test_a_plan_whose_end_no_message_can_tell_is_refused(node: HostileNode) -> None:
    """It ends in motion as late as a message can say; the point at rest that belongs after it is later."""
    late = plan([0.0, 1.0], [[0.0] * NODE.dof, [1e9] * NODE.dof])
    late.points[1].time_from_start.sec = 2**31 - 1
    node.plan(late, refused("invalid_times"))


def test_a_batch_without_the_row_to_publish_is_refused_on_the_topic(node: HostileNode) -> None:
    with changed(node.client, publish__row=1):
        message = good_sequence(batch=1, data=floats(np.zeros(12)))
        node.sequence(message, refused("size_out_of_range", "batch"))
        node.integrate(message, ACCEPTED)


# Generated messages, and damaged bytes, of which the middleware's own decoder decides what they are


class Channel(NamedTuple):
    """What is sent, by which method, and what must become of it."""

    send: Callable[[HostileNode, object, Verdict], None]
    judge: Callable[[object, HostileNode], Verdict]
    messages: Callable[[], st.SearchStrategy]
    count: int


CHANNELS = {
    "action_sequence": Channel(HostileNode.sequence, lambda one, _: judge_motion(one, NODE), sequences, 200),
    "position_trajectory": Channel(HostileNode.plan, lambda one, _: judge_plan(one, NODE, time.time_ns()), plans, 100),
    "joint_states": Channel(
        HostileNode.state, lambda one, node: judge_state(one, NODE, node.newest_stamp_ns), states, 60
    ),
    "integrate": Channel(HostileNode.integrate, lambda one, _: judge_sequence(one, NODE), sequences, 150),
    "compute_gradient": Channel(
        HostileNode.compute_gradient, lambda one, _: judge_gradient(one, NODE), gradient_requests, 150
    ),
    "evaluate": Channel(HostileNode.evaluate, lambda one, _: judge_evaluation(one, NODE), evaluation_requests, 150),
}
"""With the table and the damaged bytes, more than 1,000 bad messages in all."""


@pytest.mark.parametrize("name", CHANNELS)
def test_generated_messages(node: HostileNode, name: str, record_property: Callable[[str, object], None]) -> None:
    send, judge, messages, count = CHANNELS[name]
    before = node.refused

    @given(message=messages())
    @generated(count)
    def send_them(message: object) -> None:
        send(node, message, judge(message, node))

    send_them()
    record_property("summary", f"{name}: {node.refused - before} of {count} generated messages were refused")
    assert node.refused - before >= BAD_AT_LEAST * count
    # After the first of these it has done all that a message can lead to, so that its memory has its size.
    node.warm_bytes = node.warm_bytes or node.process.memory_bytes("VmRSS")


def resting_state() -> JointState:
    state = JointState(name=NODE.joint_names, position=np.zeros(NODE.dof), velocity=np.zeros(NODE.dof))
    state.header.stamp.sec, state.header.stamp.nanosec = divmod(time.time_ns(), 10**9)
    return state


def serialized(message: object) -> bytes:
    return bytes(serialize_message(message))


@pytest.mark.parametrize(
    ("name", "make", "first_word", "count"),
    [
        ("action_sequence", lambda: good_sequence(joint_names=list(NODE.joint_names)), 1, 50),
        ("position_trajectory", good_plan, 1, 50),
        # The stamp stays as it is: one from the future would make all that follow look old.
        ("joint_states", resting_state, 4, 25),
    ],
)
def test_damaged_bytes(node: HostileNode, name: str, make: Callable[[], object], first_word: int, count: int) -> None:
    send, judge, *_ = CHANNELS[name]
    message = make()

    @given(data=damaged(serialized(message), first_word))
    @generated(count)
    def send_them(data: bytes) -> None:
        send(node, data, judge_bytes(data, type(message), lambda decoded: judge(decoded, node)))

    send_them()


def test_damaged_reports_of_the_controller(reported: HostileNode) -> None:
    kind = reported.report_type

    @given(data=damaged(serialized(good_report(kind)), first_word=4))
    @generated(25)
    def send_them(data: bytes) -> None:
        reported.report(data, judge_bytes(data, kind, lambda message: judge_report(message, NODE)))

    send_them()


@pytest.mark.parametrize("claim", [2**31, 2**32 - 1])
def test_claims_of_billions_of_elements_allocate_nothing(node: HostileNode, claim: int) -> None:
    """Every word of a message that may be a length says that it is one of billions."""
    before = node.process.memory_bytes("VmHWM")
    data = serialized(good_sequence(joint_names=list(NODE.joint_names)))
    for at in range(12, len(data), 4):
        spoilt = data[:at] + claim.to_bytes(4, "little") + data[at + 4 :]
        node.sequence(spoilt, judge_bytes(spoilt, ActionSequence, lambda message: judge_motion(message, NODE)))
    assert node.process.memory_bytes("VmHWM") < before + 50 * 2**20


@pytest.mark.parametrize("junk", [b"\xff\xfe\xfd\xfc", b"\xc3\x28\xa0\xa1", b"\xed\xa0\x80\x41", b"QQ\0Q"])
def test_names_that_are_no_utf8_are_refused(node: HostileNode, junk: bytes) -> None:
    names = [*NODE.joint_names[:2], "QQQQ"]
    verdict = Verdict(frozenset({("unknown_joint", ""), ("malformed_message", "")}), may_pass=False)
    node.sequence(serialized(good_sequence(joint_names=names)).replace(b"QQQQ", junk), verdict)
    node.plan(serialized(plan([0.0, 0.5], np.zeros((2, NODE.dof)), names)).replace(b"QQQQ", junk), verdict)
    state = serialized(JointState(name=names, position=np.zeros(NODE.dof))).replace(b"QQQQ", junk)
    missing = Verdict(frozenset({("joint_missing", ""), ("malformed_message", "")}), may_pass=False)
    node.state(state, missing)

"""States from drivers and controllers: from several publishers, without velocities, repeated, out of order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipelines import NOW_S, SECOND, SimulatedNode, ns, rejected

from traj_integrator_ros.governor.controller_reports import ControllerReports, ControllerStatus
from traj_integrator_ros.governor.measured import JointStates
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

ARM, GRIPPER = ("a", "b"), ("finger",)
JOINTS = (*ARM, *GRIPPER)
NOTHING = np.zeros(0)


@pytest.fixture
def states() -> JointStates:
    return JointStates(JOINTS)


def take(
    states: JointStates, names: tuple[str, ...], position: object, now: float, velocity: object = NOTHING
) -> Rejected | None:
    states.update(names, np.asarray(position, float), np.asarray(velocity, float), ns(now), ns(now))
    return states.refused


@given(st.permutations(["a", "b", "finger", "gripper", "wheel"]))
def test_joints_are_found_by_name_in_any_order_and_others_are_ignored(names: list[str]) -> None:
    value = {name: float(index) for index, name in enumerate(["a", "b", "finger", "gripper", "wheel"])}
    position = np.asarray([value[name] for name in names])
    states = JointStates(JOINTS)
    for _ in range(2):  # the second time by the cached order
        assert states.update(names, position, -position, ns(NOW_S), ns(NOW_S))
    state = states.latest(ns(NOW_S), 0.0)
    assert state.position.tolist() == [0.0, 1.0, 2.0] and state.velocity.tolist() == [0.0, -1.0, -2.0]
    assert not states.update(["wheel"], np.zeros(1), NOTHING, ns(NOW_S) + 1, ns(NOW_S) + 1)
    assert states.latest(ns(NOW_S), 0.0) is state


def test_joints_of_several_publishers_are_merged_each_with_its_own_age(states: JointStates) -> None:
    assert "none arrived" in rejected(states.latest, ns(NOW_S), 0.5).message
    take(states, ARM, [0.1, 0.2], NOW_S, [0.3, 0.4])
    missing = rejected(states.latest, ns(NOW_S), 0.5)
    assert missing.reason is RejectionReason.NO_JOINT_STATE and "none of 'finger' arrived" in missing.message
    take(states, ("other", "finger"), [9.0, 0.04], NOW_S + 0.1)
    for count in range(1, 200):
        take(states, ARM, [0.1 + count, 0.2], NOW_S + 0.1 + 0.002 * count, [0.3, 0.4])
    now_ns = ns(NOW_S + 0.5)
    state = states.latest(now_ns, 0.5)
    assert state.position.tolist() == [199.1, 0.2, 0.04] and state.velocity.tolist() == [0.3, 0.4, 0.0]
    assert state.stamps_ns.tolist() == [state.stamp_ns, state.stamp_ns, ns(NOW_S + 0.1)]
    assert states.age_s(now_ns) == pytest.approx(0.4) and states.oldest(now_ns) == "finger"
    old = rejected(states.latest, ns(NOW_S + 0.7), 0.5)
    assert old.reason is RejectionReason.STATE_TOO_OLD and "joint state of finger is 0.600 s old" in old.message


@pytest.mark.parametrize("velocity", [[], [np.nan] * 3, [0.5, np.nan, np.nan]])
def test_a_velocity_that_is_not_given_is_zero(states: JointStates, velocity: list[float]) -> None:
    take(states, JOINTS, [0.1, 0.2, 0.04], NOW_S, velocity)
    given = 0.5 if 0.5 in velocity else 0.0
    assert states.latest(ns(NOW_S), 0.5).velocity.tolist() == [given, 0.0, 0.0]


@pytest.mark.parametrize("field", ["position", "velocity"])
def test_infinite_values_are_refused(states: JointStates, field: str) -> None:
    values = {"position": np.zeros(3), "velocity": np.zeros(3)}
    values[field][1] = np.inf
    found = rejected(states.update, JOINTS, *values.values(), ns(NOW_S), ns(NOW_S))
    assert (found.reason, f"joint_states.{field}" in found.message) == (RejectionReason.NOT_FINITE, True)


def test_a_position_that_is_no_number_is_refused_for_that_joint_alone(states: JointStates) -> None:
    assert take(states, (*JOINTS, "wheel"), [0.1, 0.2, 0.04, np.nan], NOW_S) is None
    refused = take(states, JOINTS, [0.3, np.nan, 0.05], NOW_S + 0.01)
    assert refused.reason is RejectionReason.NOT_FINITE and "got nan for 'b'" in refused.message
    state = states.latest(ns(NOW_S + 0.01), 0.5)
    assert state.position.tolist() == [0.3, 0.2, 0.05] and states.oldest(ns(NOW_S + 0.01)) == "b"


def test_repeated_stamps_are_taken_and_late_ones_are_not(states: JointStates) -> None:
    take(states, JOINTS, [0.1, 0.2, 0.04], NOW_S)
    take(states, JOINTS, [0.2, 0.2, 0.04], NOW_S)
    assert states.latest(ns(NOW_S), 0.5).position[0] == 0.2
    late = rejected(states.update, JOINTS, np.zeros(3), NOTHING, ns(NOW_S - 0.01), ns(NOW_S + 0.01))
    assert states.latest(ns(NOW_S), 0.5).position[0] == 0.2
    assert late.reason is RejectionReason.CLOCK_JUMPED_BACK and "ignored as late" in late.message
    take(states, ARM, [0.5, 0.2], NOW_S + 0.02)
    # late, but not refused because of that
    states.update(GRIPPER, np.array([0.03]), NOTHING, ns(NOW_S + 0.01), ns(NOW_S + 0.03))
    assert states.latest(ns(NOW_S + 0.03), 0.5).position.tolist() == [0.5, 0.2, 0.03]


def test_a_stamp_is_not_held_against_one_that_was_assumed(states: JointStates) -> None:
    """A joint state that was late by itself counts as measured when it arrived: the next one may be stamped before."""
    states.update(JOINTS, np.zeros(3), NOTHING, 0, ns(NOW_S))
    assert states.update(JOINTS, np.full(3, 1e-3), NOTHING, ns(NOW_S - 0.02), ns(NOW_S + 0.005))
    assert states.latest(ns(NOW_S + 0.005), 0.5).position[0] == 1e-3


def test_a_state_without_a_stamp_counts_as_measured_when_it_arrived_and_not_when_it_was_read(
    states: JointStates,
) -> None:
    """A node that rests reads joint states every half second: the first ones, whose clock is unknown, have waited."""
    states.update(JOINTS, np.zeros(3), NOTHING, 0, ns(NOW_S), waited_ns=ns(0.4))
    assert states.age_s(ns(NOW_S)) == pytest.approx(0.4)
    assert states.update(JOINTS, np.full(3, 1e-3), NOTHING, ns(NOW_S - 0.38), ns(NOW_S))


@pytest.mark.parametrize(
    ("stamped", "age_s"), [(-5.0, 6.0), (0.0, 1.0), (100.0, 1.0)],
    ids=["measured before it came", "measured as it came", "stamped ahead of our clock"],
)  # fmt: skip
def test_age_counts_from_stamp_or_arrival_whichever_is_longer_ago(
    states: JointStates, stamped: float, age_s: float
) -> None:
    states.update(JOINTS, np.zeros(3), NOTHING, ns(NOW_S + stamped), ns(NOW_S))
    later = ns(NOW_S) + SECOND
    assert states.age_s(later) == pytest.approx(age_s)
    assert states.latest(later, age_s + 0.1) is states.latest(later, 0.0), "0 accepts any"
    assert rejected(states.latest, later, age_s - 0.1).reason is RejectionReason.STATE_TOO_OLD


def test_a_clock_that_jumps_back_drops_the_state(states: JointStates) -> None:
    take(states, JOINTS, np.ones(3), NOW_S)
    now_ns, restarted = ns(NOW_S), ns(NOW_S - 50.0)
    message = JOINTS, np.full(3, 2.0), NOTHING
    assert rejected(states.update, *message, restarted, now_ns).reason is RejectionReason.CLOCK_JUMPED_BACK
    assert rejected(states.latest, now_ns, 0.0).reason is RejectionReason.CLOCK_JUMPED_BACK
    assert states.update(*message, restarted + 1, now_ns)
    assert states.latest(now_ns, 0.0).position.tolist() == [2.0] * 3
    assert rejected(states.latest, now_ns - SECOND, 0.0).reason is RejectionReason.CLOCK_JUMPED_BACK, "the node's own"
    assert states.update(*message, now_ns - SECOND, now_ns - SECOND)


@pytest.mark.parametrize("rates", [[np.nan, np.nan], [0.3, np.nan], []], ids=["all", "of one joint", "left out"])
def test_references_without_rates_have_usable_positions(rates: list[float]) -> None:
    """Where hardware has no values for an interface, ros2_control has NaN."""
    node = SimulatedNode(2)
    node.execute([0.0, 0.2], [0.3, 0.1])
    reports = ControllerReports(ARM)
    for time, moved, expected in ((0.0, 0.0, ControllerStatus.EXECUTING), (0.1, 0.05, ControllerStatus.OTHER)):
        position = node.commanded(NOW_S + time)[0] + moved
        report = reports.report(ARM, position, np.array(rates), np.array(rates), ns(NOW_S + time), 1.0)
        assert not report.has_velocity and np.isfinite(report.reference).all()
        node.pipeline.report(report, ns(NOW_S + time))
        if moved and not any(report.reference.velocity):
            expected = ControllerStatus.RESTARTED  # it holds another position, as far as its reports say
        assert node.published.status(ns(NOW_S + time)) is expected


def test_a_reference_whose_position_is_no_number_is_refused() -> None:
    refused = rejected(ControllerReports(ARM).report, ARM, np.array([0.1, np.nan]), NOTHING, NOTHING, ns(NOW_S), 1.0)
    assert refused.reason is RejectionReason.NOT_FINITE and "controller_state.reference.positions" in refused.message

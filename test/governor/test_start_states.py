"""The latest joint state, without ROS."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipelines import SECOND, rejected

from traj_integrator_ros.governor.measured import JointStates
from traj_integrator_ros.requests.rejection import RejectionReason

NAMES = ("a", "b", "c")
NOW = 1_000 * SECOND


def states_with(position: list[float], stamp_ns: int = NOW, now_ns: int = NOW) -> JointStates:
    states = JointStates(NAMES)
    assert states.update(list(NAMES), np.asarray(position), np.zeros(0), stamp_ns, now_ns)
    return states


@given(st.permutations(["a", "b", "c", "gripper", "wheel"]))
def test_joints_are_found_by_name_in_any_order_and_others_are_ignored(names: list[str]) -> None:
    value = {name: float(index) for index, name in enumerate(["a", "b", "c", "gripper", "wheel"])}
    position = np.asarray([value[name] for name in names])
    states = JointStates(NAMES)
    for _ in range(2):  # the second time by the cached order
        assert states.update(names, position, -position, NOW, NOW)
    state = states.latest(NOW, 0.0)
    assert state.position.tolist() == [0.0, 1.0, 2.0]
    assert state.velocity.tolist() == [0.0, -1.0, -2.0]


def test_velocities_that_are_not_given_are_zero() -> None:
    assert states_with([1.0, 2.0, 3.0]).latest(NOW, 0.0).velocity.tolist() == [0.0, 0.0, 0.0]


def test_a_velocity_that_is_nan_is_not_given_and_zero_for_that_joint_alone() -> None:
    velocity = np.array([np.nan, 0.5, np.nan])
    states = JointStates(NAMES)
    assert states.update(NAMES, np.zeros(3), velocity, NOW, NOW)
    assert states.latest(NOW, 0.0).velocity.tolist() == [0.0, 0.5, 0.0]
    assert np.isnan(velocity[0]), "the message is as it was"


@pytest.mark.parametrize("field", ["position", "velocity"])
def test_infinite_values_are_refused(field: str) -> None:
    values = {"position": np.zeros(3), "velocity": np.zeros(3)}
    values[field][1] = np.inf
    found = rejected(states_with([1.0] * 3).update, NAMES, *values.values(), NOW, NOW)
    assert (found.reason, f"joint_states.{field}" in found.message) == (RejectionReason.NOT_FINITE, True)


def test_a_message_about_other_joints_only_changes_nothing() -> None:
    states = states_with([1.0, 2.0, 3.0])
    assert not states.update(["finger"], np.zeros(1), np.zeros(0), NOW + 1, NOW + 1)
    assert states.latest(NOW, 0.0).position.tolist() == [1.0, 2.0, 3.0]


def test_nan_of_another_joint_does_not_matter() -> None:
    assert JointStates(NAMES).update([*NAMES, "finger"], np.array([0, 0, 0, np.nan]), np.zeros(0), NOW, NOW)


def test_a_zero_stamp_means_the_time_of_arrival() -> None:
    states = states_with([0.0] * 3, stamp_ns=0)
    assert states.age_s(NOW + SECOND) == pytest.approx(1.0)
    assert states.update(list(NAMES), np.ones(3), np.zeros(0), 0, NOW + SECOND)
    assert states.age_s(NOW + SECOND) == 0.0


@pytest.mark.parametrize(
    ("stamp_ns", "age_s"), [(NOW - 5 * SECOND, 6.0), (NOW, 1.0), (NOW + 100 * SECOND, 1.0)],
    ids=["measured before it came", "measured as it came", "stamped ahead of our clock"],
)  # fmt: skip
def test_age_counts_from_stamp_or_arrival_whichever_is_longer_ago(stamp_ns: int, age_s: float) -> None:
    assert states_with([0.0] * 3, stamp_ns).age_s(NOW + SECOND) == pytest.approx(age_s)


def test_a_state_beyond_the_timeout_is_too_old_and_zero_accepts_any() -> None:
    states = states_with([0.0] * 3)
    later = NOW + SECOND
    assert states.latest(later, 1.5) is states.latest(later, 0.0)
    assert rejected(states.latest, later, 0.5).reason is RejectionReason.STATE_TOO_OLD


def test_a_stamp_a_little_back_is_a_late_message_and_the_newer_state_stays() -> None:
    states = states_with([1.0] * 3)
    late = (list(NAMES), np.zeros(3), np.zeros(0), NOW - SECOND // 100, NOW)
    assert rejected(states.update, *late).reason is RejectionReason.CLOCK_JUMPED_BACK
    assert states.latest(NOW, 0.0).position.tolist() == [1.0] * 3


def test_a_stamp_far_back_drops_the_state_and_the_next_message_is_taken() -> None:
    states = states_with([1.0] * 3)
    restarted = NOW - 50 * SECOND
    message = (list(NAMES), np.full(3, 2.0), np.zeros(0))
    assert rejected(states.update, *message, restarted, NOW).reason is RejectionReason.CLOCK_JUMPED_BACK
    assert rejected(states.latest, NOW, 0.0).reason is RejectionReason.CLOCK_JUMPED_BACK
    assert states.update(*message, restarted + 1, NOW)
    assert states.latest(NOW, 0.0).position.tolist() == [2.0] * 3


def test_a_node_clock_that_jumps_back_drops_the_state() -> None:
    states = states_with([1.0] * 3)
    assert rejected(states.latest, NOW - SECOND, 0.0).reason is RejectionReason.CLOCK_JUMPED_BACK
    assert states.update(list(NAMES), np.ones(3), np.zeros(0), 3 * SECOND, 3 * SECOND)
    assert states.latest(3 * SECOND, 0.5).position.tolist() == [1.0] * 3


def test_no_state_yet_is_distinguished_from_a_lost_one() -> None:
    assert rejected(JointStates(NAMES).latest, NOW, 0.0).reason is RejectionReason.NO_JOINT_STATE

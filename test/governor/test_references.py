"""Readings of plans: as continuing the previous plan, by their rows alone, or with their noise removed."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import bounds

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.governor.reference import PlannedMotion, Reading, references
from traj_integrator_ros.kernels import MAPS
from traj_integrator_ros.requests.plan import Plan

DT, ORIGIN_NS = 0.02, 10**12
READING = Reading(0.01, 0.2, bounds(1))


def at_a_speed(velocity: float, **marks: float) -> PlannedMotion:
    """A plan that passes 0 at the origin, a second after it began."""
    line = Motion(np.array([0.0, 9.0]), np.array([[[-velocity], [velocity]]]), **marks)
    return PlannedMotion(ORIGIN_NS - 10**9, line)


def read(rows: np.ndarray, at_s: float = 0.01, **changes: object) -> list:
    plan = Plan(MAPS["clique"], np.full(len(rows), DT), rows[:, None], None, ORIGIN_NS)
    plan = Plan(**{**plan.__dict__, **changes}) if changes else plan
    return list(references(plan, ORIGIN_NS, ORIGIN_NS + round(at_s * 1e9), lambda _: at_a_speed(0.5), READING))


LINE = 0.5 * DT * np.arange(1, 33)


def test_rows_that_are_still_ahead_continue_the_previous_plan():
    planned = read(LINE)[0]
    assert planned.start_ns == ORIGIN_NS and planned.valid_from_ns <= ORIGIN_NS
    np.testing.assert_allclose(planned.motion.states_at(np.linspace(0, 0.6, 50))[1], 0.5, atol=1e-9)


@pytest.mark.parametrize("off", [0.0, 1e-3])
def test_rows_that_are_over_do_not_continue_the_previous_plan(off):
    planned = read(LINE + off, at_s=0.05)[0]
    assert planned.valid_from_ns == ORIGIN_NS + round(DT * 1e9)
    times = ORIGIN_NS + np.rint(DT * 1e9 * np.arange(3, 30)).astype(int)
    np.testing.assert_allclose([planned.state_at(time).position[0] for time in times], LINE[2:29] + off, atol=1e-6)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_plan_that_leaves_the_previous_one_continues_it(power):
    leaving = 2e-3 * np.arange(1, 33.0) ** power
    assert read(LINE + leaving)[0].valid_from_ns <= ORIGIN_NS


def test_rows_that_hold_a_position_do_not_continue_a_plan_in_motion():
    """A spline from 0.5 rad/s to rows 8 mrad ahead would pass them by 0.6 mrad and oscillate there."""
    planned = read(np.full(10, 0.008))[0]
    assert planned.valid_from_ns == ORIGIN_NS + round(DT * 1e9)
    np.testing.assert_array_equal(planned.motion.states_at(np.linspace(0, 0.2, 50))[0], 0.008)


def test_a_start_is_where_the_plan_begins():
    start = State(np.array([0.003]), np.array([0.4]), None)
    planned = read(LINE, start=start)[0]
    np.testing.assert_allclose(np.ravel(planned.state_at(ORIGIN_NS)[:2]), [0.003, 0.4], atol=1e-12)


@pytest.mark.parametrize(("turn", "noise", "share"), [(0.0, 1e-4, 0.2), (0.3, 3e-4, 0.5)])
def test_noise_is_taken_out_by_about_its_own_size(turn, noise, share):
    """Otherwise corners of plans, as one where the speed rises by 0.3 rad/s at once, would be rounded like noise."""
    plan = LINE + turn * DT * np.maximum(np.arange(-16, 16), 0)
    noisy = plan + np.random.default_rng(0).normal(scale=noise, size=len(plan))
    motions = read(noisy)
    accelerations = [np.abs(extremes(planned.motion)[:, 2]).max() for planned in motions[1:]]
    assert len(motions) > 2 and accelerations[-1] < share * accelerations[0]
    for planned in motions:
        passed = [planned.state_at(ORIGIN_NS + round(DT * 1e9) * k).position[0] for k in range(1, len(noisy))]
        assert np.abs(np.array(passed) - noisy[:-1]).max() <= 4 * noise
    rough = LINE + np.random.default_rng(0).normal(scale=1e-2, size=len(LINE))
    assert len(read(rough)) == 2, "what would move further is not noise"


def test_a_single_position_is_a_goal_at_rest():
    planned = read(np.array([0.1]), at_s=0.0)[0]
    assert planned.motion.ends_at_rest and planned.motion.end.position == pytest.approx(0.1)


def test_two_rows_at_rest_are_also_read_as_a_goal():
    """A spline that comes to rest within the 10 ms between both rows may ask for more jerk than the way to a goal."""
    *_, planned = read(np.array([0.0, 5e-5]), steps=np.full(2, 0.01))
    assert planned.valid_from_ns == ORIGIN_NS + 20_000_000
    np.testing.assert_array_equal(planned.motion.states_at(np.array([0.0, 0.01]))[:2, :, 0], [[5e-5] * 2, [0, 0]])


@pytest.mark.parametrize("rests_for", [0.1, 0.2, 0.3])
def test_a_joint_that_comes_to_rest_in_the_last_step_does_not_go_back(rests_for):
    times = np.arange(1, 33) * DT
    rows = -((np.maximum(times[-1] - rests_for * DT - times, 0.0)) ** 2)
    assert read(rows, at_s=0.05)[0].motion.end.velocity[0] > -1e-12


@pytest.mark.parametrize(
    ("last", "rests"),
    [([0.0, 1e-3, 4e-4], True), ([0.0, -2e-4, 0.0], True), ([0.0, 1e-3, 2e-3], False), ([0.0, 0.05, 0.0], False)],
)
def test_a_joint_that_noise_turned_in_the_last_step_comes_to_rest_there(last, rests):
    rows = np.concatenate([np.random.default_rng(0).normal(scale=1e-3, size=29), last])
    assert (abs(read(rows, at_s=0.05)[0].motion.end.velocity[0]) < 1e-12) == rests


def test_corners_of_a_plan_are_no_noise():
    """A plan of constant velocities with a corner alternates in a few fourth differences, noise in all of them."""
    corner = np.concatenate([np.linspace(0.0, 0.15, 18), 0.15 + 0.002 * np.arange(1, 26)])
    noisy = corner + np.random.default_rng(0).normal(scale=1e-3, size=len(corner))
    rounded = corner.astype(np.float32).astype(np.float64)
    assert len(read(corner)) == len(read(rounded)) == 2 < len(read(noisy))


@pytest.mark.parametrize("braking", [False, True])
def test_velocities_after_a_brake_begin_with_their_own(braking):
    """A brake's velocity is nobody's plan: a spline that began with it would oscillate."""
    plan = Plan(MAPS["velocity"], np.full(2, DT), np.full((2, 1), 0.3), None, ORIGIN_NS)
    before = at_a_speed(-0.4, plan_until=0.5 if braking else np.inf)
    planned = next(references(plan, ORIGIN_NS, ORIGIN_NS, lambda _: before, READING))
    velocities = planned.motion.states_at(np.linspace(0, 0.039, 40))[1]
    assert (np.abs(velocities - 0.3).max() < 1e-9) == braking


def test_a_plan_that_turns_soon_continues_the_previous_plan_up_to_there():
    """The plan rises for another 20 ms and then falls: a robot on its way up is not ahead of it."""
    rows = 0.01 - 20.0 * (DT * np.arange(32)) ** 2
    assert read(rows)[0].valid_from_ns <= ORIGIN_NS

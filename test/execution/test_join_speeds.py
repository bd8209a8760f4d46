"""How fast joints come to their plans: by the plan's own speed, and as fast as they may where it rests."""

from __future__ import annotations

import numpy as np
from execution_cases import JOINING, bounds, joined_to, largest, leads_back, spline

from traj_integrator_ros.execution.motion import resting
from traj_integrator_ros.execution.stopping import fastest_stop


def test_a_goal_is_gone_to_as_fast_as_limits_allow():
    there = joined_to(resting(np.zeros(1), 0.5), (-1.0,))
    assert there.duration < 1.0 / 2.0 + 2.0 / 10.0 + 10.0 / 500.0 + 0.01, "at 2 rad/s, but for ramps"
    slowly = spline(0.1, -1.0 + 0.5 * (1 - np.cos(np.pi * np.linspace(0, 1, 41))) * 2, 0.0, ends_at_rest=True)
    executed = slowly.from_time(1.0)
    again = joined_to(resting(slowly.end.position, 0.5), executed.begin, executed=executed)
    assert largest(again, 1) <= largest(executed, 1) * (1 + 1e-4)


def test_a_gap_to_a_plan_that_hardly_moves_is_closed_within_5_s():
    plan = spline(0.1, 0.001 * np.arange(301), 0.01)
    joined = joined_to(plan, (-0.5,))
    times = np.linspace(5.2, 30.0, 100)
    np.testing.assert_allclose(joined.states_at(times)[0], plan.states_at(times)[0], atol=1e-6)
    assert largest(joined, 1) < 0.13, "a tenth of a rad in a second, and a hundredth of the limit"


def test_a_standing_joint_does_not_race_to_a_first_row_far_away():
    """The piece from the previous plan to this one is faster than the plan itself; the joint must not copy that."""
    speed, dt = 0.134, 0.1
    plan = spline(dt, np.append(0.0, 0.0232 + speed * dt * np.arange(20)), speed)
    own = largest(plan.from_time(dt), 1)
    assert own < 0.22 < 0.26 < largest(plan, 1)
    assert largest(joined_to(plan, (-0.003,)), 1) <= JOINING.catch_up * own * (1 + 1e-6)


def test_catching_up_has_the_speed_of_the_plan_not_of_its_brake():
    """The plan ends while it accelerates, and only a higher speed can be braked from there."""
    plan = spline(0.04, np.append(np.linspace(0.0, 0.1, 11), [0.112, 0.128]), 0.25)
    brake = fastest_stop(plan.end, bounds(1, acceleration=8.0, jerk=20.0))
    own, of_brake = largest(plan, 1), largest(brake, 1)
    assert of_brake > 1.3 * own
    joined = joined_to(plan.then(brake)._replace(plan_until=plan.duration), (-0.08,), (3.0, 20.0, 400.0))
    assert largest(joined, 1) <= max(1.5 * own, of_brake) * (1 + 1e-6)


def test_catching_up_has_the_speed_of_rows_not_of_a_ringing_spline():
    """The plan rests before its first row and is faster than its rows for three steps; catching up would add half."""
    dt, speed = 0.1, 0.3
    plan = spline(dt, np.append(0.0, 0.04 + speed * dt * np.arange(6)), 0.0).from_time(0.05)
    assert largest(plan.from_time(0.05), 1) > 1.5 * speed
    joined = joined_to(plan, (plan.begin.position - 0.015,), (2.3, 7.7, 1000.0))
    assert largest(joined, 1) <= largest(plan, 1) * (1 + 1e-6)


def test_a_joint_catching_up_meets_its_plan_where_that_slows_down():
    """The joint moves at the highest speed for catching up; its acceleration takes it beyond that in any case."""
    rows = np.append([0.0, 0.13, 0.22, 0.265, 0.275], 0.275 + 0.0057 * np.arange(1, 31))
    plan = spline(0.1, rows, 1.6, ends_at_rest=True)
    joined = joined_to(plan, (-0.31, 2.45, 7.6), (2.7, 21.7, 173.0))
    times = np.linspace(0.6, 3.4, 500)
    assert np.abs(joined.states_at(times)[0] - plan.states_at(times)[0]).max() < 1e-6
    assert largest(joined, 1) <= (2.45 + 7.6**2 / (2 * 173.0)) * (1 + 1e-4)


def test_a_speed_that_nobody_can_help_does_not_lead_back():
    """The joint is ahead of its plan and accelerates: every join is faster than the plan, and some wait for it."""
    plan = spline(0.05, np.linspace(0, -0.56, 49), -0.234)
    joined = joined_to(plan, (-0.0455, -0.3591, -0.2558), (1.0, 12.47, 354.0))
    assert leads_back(joined, 1.0, -1.0) < 1e-4

"""The fastest ways to goals: within limits, never beyond a goal before which a joint can stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from execution_cases import bounds, largest, largest_jumps, leads_back
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.stopping import fastest_stop, fastest_to
from traj_integrator_ros.execution.tolerances import SAME

BOUNDS = bounds(1, 2.0, 10.0, 200.0)
PARTS = st.tuples(st.floats(-0.5, 0.5), st.floats(-1.5, 1.5), st.floats(-5, 5))


def state_of(parts: tuple[float, float, float]) -> State:
    return State(*(np.array([part]) for part in parts))


@settings(max_examples=100)
@given(PARTS, st.floats(-0.6, 0.6), st.sampled_from([0.0, 0.1, 0.5, 2.0]))
def test_a_goal_is_reached_within_limits_and_not_passed(parts, place, arrival):
    state = state_of(parts)
    motion = fastest_to(np.array([place]), state, BOUNDS, arrival)
    assert (np.abs(motion.begin.beyond(state)) <= 1.001 * SAME).all()
    assert motion.end.position[0] == pytest.approx(place, abs=1e-8) and motion.ends_at_rest
    assert (largest_jumps(motion) <= [1e-9, 1e-8, 1e-6]).all()
    least, most = extremes(motion)[:, :, 0]
    speed = max(2.0, abs(parts[1]) + parts[2] ** 2 / 400)
    assert (np.maximum(-least, most)[1:] <= np.array([speed, 10.0, 200.0]) * (1 + 1e-4)).all()
    stop = extremes(fastest_stop(state, BOUNDS))[:, 0, 0]
    assert min(*stop, place) - 2e-6 <= least[0] and most[0] <= max(*stop, place) + 2e-6


@pytest.mark.parametrize("arrival", [0.0, 0.4, 1.0, 3.0])
def test_a_goal_is_reached_at_its_time_or_as_soon_as_limits_allow(arrival):
    motion = fastest_to(np.ones(1), state_of((0.0, 0.0, 0.0)), BOUNDS, arrival)
    fastest = 1.0 / 2.0 + 2.0 / 10.0 + 10.0 / 200.0
    assert motion.duration == pytest.approx(max(arrival, fastest), abs=1e-3)


def test_a_joint_at_its_goal_rests():
    motion = fastest_to(np.array([0.3]), state_of((0.3, 0.0, 0.0)), BOUNDS, 0.2)
    assert not motion.moves and motion.duration == pytest.approx(0.2)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_goal_is_reached_though_every_longer_way_to_it_leads_back(side):
    """Durations between the shortest and others are impossible while a joint slows down to its goal."""
    state = state_of(tuple(side * np.array([-2.0857394e-3, 0.1490859, -7.104309])))
    motion = fastest_to(np.zeros(1), state, bounds(1, 2.6, 21.17, 169.35), 0.0276)
    assert leads_back(motion, motion.duration, side) < 1e-5 and motion.duration < 0.06


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_ways_use_acceleration_and_deceleration_limits(side):
    within = replace(bounds(1, 1.0, 1.0, 100.0), deceleration=np.array([4.0]))
    motion = fastest_to(np.array([2 * side]), state_of((0.0, 0.0, 0.0)), within)
    least, most = (one[2, 0] * side for one in extremes(motion))
    assert sorted([least, most]) == pytest.approx([-4.0, 1.0], rel=1e-3)


def test_a_joint_beyond_its_limits_stops_before_it_goes_to_its_goal():
    motion = fastest_to(np.zeros(1), state_of((0.0, 5.0, 60.0)), bounds(1, 1.0, 2.0, 20.0))
    assert motion.end.position[0] == pytest.approx(0.0, abs=1e-8) and largest(motion, 3) <= 20.0 * (1 + 1e-3)

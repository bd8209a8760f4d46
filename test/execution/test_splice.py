"""Joins: from any state to any plan, within limits, without a seam and without a way back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from execution_cases import JOINING, bounds, joined_to, largest, largest_jumps, leads_back, spline
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rig.judge import way_back
from traj_integrator_ros.execution.limits import Limits, extremes, worst_violation
from traj_integrator_ros.execution.motion import Motion, State, resting
from traj_integrator_ros.execution.problem import CROSSING, Joining, Problem, Work
from traj_integrator_ros.execution.reaching import Reach
from traj_integrator_ros.execution.rows import cubic_spline
from traj_integrator_ros.execution.splice import splice as join_as_given
from traj_integrator_ros.execution.stopping import fastest_stop

BOUNDS = bounds(2, velocity=2.0, acceleration=10.0, jerk=500.0)
SEEDS = st.integers(0, 2**32 - 1)


def a_plan(random: np.random.Generator, *, forward: bool = False) -> Motion:
    """A smooth plan of two joints that keeps the limits and ends at rest."""
    step = float(random.choice([0.02, 0.05, 0.035]))  # fades end at knots, and between them
    count = round(random.uniform(1, 3) / step)
    u = np.linspace(random.uniform(0, 0.4), 1, count + 1)[:, None]
    rows = random.normal(size=2) + random.uniform(0.2, 0.5, 2) * count * step * u**3 * (10 - 15 * u + 6 * u**2)
    if not forward:
        rows += 0.1 * np.sin(6 * u) * (1 - u) ** 3
    plan = cubic_spline(np.full(count, step), rows, (rows[1] - rows[0]) / step, ends_at_rest=True)
    largest = np.abs(extremes(plan)).max(axis=(0, 2))
    assert (largest[1:] < [2.0, 10.0, 500.0]).all()
    return plan


def join(*given: object, **options: object) -> tuple[Motion, np.ndarray] | None:
    """Join a plan, given the fields of a problem."""
    return join_as_given(Problem(*given, **options))


def away_from(plan: Motion, random: np.random.Generator, scale: float) -> State:
    """A state near the beginning of a plan, from which a joint can stop within its velocity limit."""
    begin = plan.begin
    velocity = np.clip(begin.velocity + scale * random.normal(size=2), -1.8, 1.8)
    return State(begin.position + 0.1 * scale * random.normal(size=2), velocity, 3 * scale * random.normal(size=2))


@settings(max_examples=30)
@given(SEEDS, st.sampled_from([1e-6, 1e-3, 0.1, 1.0]))
def test_a_join_begins_in_the_state_keeps_all_limits_and_becomes_the_plan(seed, scale):
    random = np.random.default_rng(seed)
    plan = a_plan(random)
    state = away_from(plan, random, scale)
    joined, shift = join(state, plan, BOUNDS, JOINING)
    assert not shift.any()
    for part, expected in zip(joined.begin, state, strict=True):
        np.testing.assert_allclose(part, expected, atol=1e-9)
    assert (largest_jumps(joined) <= [1e-9, 1e-7, 2e-3]).all(), "C2; knots within a microsecond are one"
    least, most = extremes(joined)
    assert (np.maximum(-least, most)[1:] <= np.array([[2.0], [10.0], [500.0]]) * (1 + 1e-6) + 1e-6).all()
    times = np.linspace(0, max(joined.duration, plan.duration) + 0.01, 400)
    apart = np.abs(joined.states_at(times)[:2] - plan.states_at(times)[:2]).max(axis=0)
    for joint in range(2):
        first = int(np.flatnonzero(apart[:, joint] > 1e-6)[-1:].sum())
        assert times[first] < times[-1] - 0.005, "it ends on the plan"
        assert scale > 1e-5 or times[first] <= 0.21, "small differences fade"


@settings(max_examples=30)
@given(SEEDS, st.sampled_from([1e-3, 0.1, 1.0]), st.sampled_from([(10.0, 4.0), (4.0, 10.0)]))
def test_a_join_keeps_deceleration_and_acceleration_limits(seed, scale, limits):
    random = np.random.default_rng(seed)
    plan = a_plan(random)
    state = away_from(plan, random, scale)
    acceleration, deceleration = (np.full(2, limit) for limit in limits)
    within = Limits(velocity=np.full(2, 2.0), acceleration=acceleration, deceleration=deceleration)
    assume(worst_violation(plan, within) is None)
    speeding = np.sign(state.velocity) * state.acceleration
    assume(((-deceleration <= speeding) & (speeding <= acceleration)).all())
    tighter = replace(bounds(2, velocity=2.0, acceleration=limits[0], jerk=500.0), deceleration=deceleration)
    joined, _ = join(state, plan, tighter, JOINING)
    assert worst_violation(joined, within) is None


def test_a_joint_that_is_on_its_plan_keeps_it():
    plan = a_plan(np.random.default_rng(1))
    assert join(plan.begin, plan, BOUNDS, JOINING)[0] is plan
    state = plan.begin._replace(position=plan.begin.position + np.array([0.0, 0.05]))
    joined, _ = join(state, plan, BOUNDS, JOINING)
    times = np.linspace(0, plan.duration, 200)
    np.testing.assert_allclose(joined.states_at(times)[0, :, 0], plan.states_at(times)[0, :, 0], rtol=0, atol=1e-12)


@settings(max_examples=30)
@given(SEEDS, st.floats(0.0, 0.3), st.floats(0.0, 1.0))
def test_a_forward_plan_is_joined_without_a_way_back_and_without_haste(seed, ahead, speed):
    """The robot is ahead of or behind a plan that goes forward, and does not move backwards itself."""
    random = np.random.default_rng(seed)
    plan = a_plan(random, forward=True)
    begin = plan.begin
    position = begin.position + ahead * random.choice([-1.0, 1.0], 2)
    assume((position < plan.end.position - 0.02).all())
    state = State(position, speed * begin.velocity, np.zeros(2))
    joined, _ = join(state, plan, BOUNDS, JOINING)
    path = joined.states_at(np.linspace(0, joined.duration, 2000, endpoint=False))
    own = plan.states_at(np.linspace(0, plan.duration, 2000, endpoint=False))
    retreats = [(np.maximum.accumulate(part[0]) - part[0]).max(axis=0) for part in (path, own)]
    assert (retreats[0] <= 1.5 * retreats[1] + 3e-5).all()
    closing = np.maximum(np.abs(position - begin.position) / 2.0, np.abs(state.velocity))
    assert (path[1].max(axis=0) <= np.maximum(1.5 * own[1].max(axis=0), closing) * 1.01).all()


@settings(max_examples=30)
@given(SEEDS)
def test_positions_stay_within_their_limits_while_joining(seed):
    random = np.random.default_rng(seed)
    plan = resting(np.zeros(2), 1.0)
    state = State(random.uniform(0.0, 0.08, 2), random.uniform(0.0, 0.6, 2), np.zeros(2))
    within = bounds(2, velocity=2.0, acceleration=10.0, jerk=500.0, position=0.15)
    joined, _ = join(state, plan, within, JOINING)
    least, most = extremes(joined)
    assert most[0].max() <= 0.15 + 1e-6 and least[0].min() >= -0.15 - 1e-6
    np.testing.assert_allclose(joined.end.position, 0.0, atol=1e-9)


def test_a_plan_that_holds_from_later_on_is_not_joined_before():
    plan = a_plan(np.random.default_rng(3))
    joined, _ = join(plan.begin, plan._replace(plan_from=0.15), BOUNDS, JOINING)
    times = np.linspace(0.16, plan.duration, 100)
    np.testing.assert_allclose(joined.states_at(times)[0], plan.states_at(times)[0], atol=1e-6)


def test_floating_joints_reach_the_velocity_of_their_plan_and_shift_it():
    plan = cubic_spline(np.full(50, 0.02), np.linspace(0, 0.5, 51)[:, None] * np.ones(2), np.full(2, 0.5))
    plan = plan.then(resting(plan.end.position, 0.1))
    plan = Motion(plan.knots, plan.coefficients, True, True)
    floating = np.array([True, False])
    joined, shift = join(State(*np.zeros((3, 2))), plan, BOUNDS, JOINING, floating=floating)
    assert shift[0] < -1e-3 and shift[1] == 0.0
    at = joined.states_at(np.array([0.8]))[:2, 0]
    np.testing.assert_allclose(at, [[0.4 + shift[0], 0.4], [0.5, 0.5]], atol=1e-6)
    assert joined.states_at(np.linspace(0, 0.8, 300))[1, :, 0].max() <= 0.5 + 1e-6, "it does not catch up"


def test_a_plan_about_velocities_does_not_lead_back_because_it_rings():
    """A step of velocity for 0.1 s, whose spline rings by 3 mrad: the join once shifted it and led back by 8."""
    plan = spline(0.1, [0.0, 0.0223, 0.0232, 0.0232, 0.0232], 0.0073, ends_at_rest=True)
    state = State(np.zeros(1), np.full(1, 0.0073), np.full(1, 0.22))
    joined, shift = join(state, plan, bounds(1, 2.4, 14.0, 330.0), JOINING, floating=np.ones(1, bool))
    assert abs(shift[0]) < 0.01
    times = np.linspace(0, 0.5, 500)
    back, rings = (way_back(motion.states_at(times)[0]) for motion in (joined, plan))
    assert rings > 1e-3 and back <= 1.5 * rings + 2e-5


def test_a_plan_that_cannot_be_reached_is_none():
    assert join(State(*np.eye(3, 1)), spline(0.01, [0.0, 0.015, 0.03], 1.5), bounds(1), JOINING) is None


@pytest.mark.parametrize("fades", [(), (0.2, 0.1, 0.05)])
def test_plans_of_held_accelerations_are_joined_as_cubics(fades):
    knots = np.array([0.0, 0.5, 1.0])
    coefficients = np.zeros((2, 3, 2))
    coefficients[0, 2], coefficients[1] = 0.5, [[0.125] * 2, [0.5] * 2, [-0.5] * 2]
    plan = Motion(knots, coefficients, with_accelerations=False, ends_at_rest=True)
    joined = joined_to(plan, (0.01,), joining=Joining(fades, 1.5))
    assert not joined.with_accelerations and (largest_jumps(joined)[:2] <= [1e-9, 1e-6]).all()
    np.testing.assert_allclose(joined.end.position, plan.end.position, atol=1e-9)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_joint_that_comes_to_a_resting_plan_does_not_swing_beyond_it(side):
    """The joint is almost at rest at its goal; fading its acceleration over 0.2 s would lead it away by 0.5 mrad."""
    joined = joined_to(resting(np.zeros(2), 0.5), side * np.outer([-7e-6, 0.004, -1.0], [1.0, 0.0]))
    assert np.abs(extremes(joined)[:, 0, 0]).max() < 6e-5


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_goal_is_reached_though_every_longer_way_to_it_leads_back(side):
    """Durations between the shortest and others are impossible while a joint slows down to its goal."""
    state = side * np.array([-2.0857394e-3, 0.1490859, -7.104309])
    joined = joined_to(resting(np.zeros(1), 0.0276), state, (2.6, 21.17, 169.35))
    assert leads_back(joined, joined.duration, side) < 1e-5 and joined.duration < 0.06


def test_a_resting_plan_is_reached_early_and_held_until_its_end():
    """Before the plan itself begins, the joint rests where it is joined: the plan's way to its start is not added."""
    plan = spline(0.02, np.linspace(0, 0.02, 21) ** 2, 0.0, ends_at_rest=True)
    joined = joined_to(plan, (plan.end.position - 1e-3, 0.1, -6.0), joining=Joining((), 1.5))
    within = Limits(velocity=np.full(1, 2.0), acceleration=np.full(1, 10.0), jerk=np.full(1, 500.0))
    assert worst_violation(joined, within) is None
    assert largest_jumps(joined).max() < 1e-6
    np.testing.assert_allclose(joined.end.position, plan.end.position, atol=1e-9)


def rows_of_a_corner(first: float, count: int = 12, step: float = 0.05) -> Motion:
    """The spline through rows of a plan that comes to rest at 0.3 s and at once goes on, as a planner samples it."""
    times = first + step * np.arange(count)
    return spline(step, 4.0 * np.sign(times - 0.3) * (times - 0.3) ** 2)


@pytest.mark.parametrize("late", [0.01, 0.025, 0.04])
def test_a_plan_with_other_rows_in_execution_is_joined_between_both(late):
    """A difference that fades as a quintic would lead 3 to 6 mrad away, again with each message."""
    before = rows_of_a_corner(0.0).from_time(0.28 + late)
    plan = rows_of_a_corner(0.28 + late)
    joined = joined_to(plan, before.begin, (5.0, 20.0, 400.0), executed=before)
    times = np.linspace(0, 0.2, 400)
    both = np.stack([before.states_at(times)[0], plan.states_at(times)[0]])
    beyond = np.maximum(joined.states_at(times)[0] - both.max(axis=0), both.min(axis=0) - joined.states_at(times)[0])
    assert beyond.max() < 1e-4 and (largest_jumps(joined) <= [1e-9, 1e-7, 2e-3]).all()


def test_rows_before_a_plan_do_not_show_how_much_it_asks_for():
    """A line from 30 ms on, after 600 rad/s^3; the limit of jerk is only assumed."""
    step, jerk = 0.03, 600.0
    back = jerk / 6 * np.array([-(step**3), 3 * step**2, -3 * step, 1.0])
    pieces = np.zeros((2, 4, 1))
    pieces[0, :, 0], pieces[1, :2, 0] = back + np.array([0, 0.3, 0, 0]), [0.3 * step, 0.3]
    plan = Motion(np.array([0.0, step, 2.0]), pieces, plan_from=step)
    executed = Motion(np.array([0.0, 2.0]), np.array([[[5e-4], [0.3]]]))
    options = {"joining": Joining((0.05,), 1.5), "executed": executed}
    assert largest(joined_to(plan, executed.begin, (2.0, 20.0, 150.0), **options), 3) <= 150.0 * (1 + 1e-6)


def test_a_motion_in_execution_that_goes_elsewhere_is_left_at_once():
    plan, stopping = spline(0.05, np.linspace(0, 1.5, 21), 1.5), spline(0.05, [0.0, 0.03, -0.1, -0.3, -0.4], 1.5)
    state = stopping.begin._replace(velocity=1.48)
    joined = [joined_to(plan, state, executed=executed) for executed in (stopping, None)]
    times = np.linspace(0, 0.5, 100)
    np.testing.assert_array_equal(*(motion.states_at(times) for motion in joined))


def test_a_difference_whose_fade_would_lead_far_away_fades_sooner():
    plan = spline(0.05, np.linspace(0, 0.5, 21), 0.5)
    joined = joined_to(plan, plan.begin._replace(velocity=plan.begin.velocity - 0.6), (2.0, 20.0, 2000.0))
    times = np.linspace(0, 0.5, 500)
    assert np.abs(joined.states_at(times)[0] - plan.states_at(times)[0]).max() < 0.02


def test_where_every_way_leads_back_the_one_that_leads_back_least_is_taken():
    """The joint moves forward beyond the end of a forward plan, by 10 mrad: the plan is old and has no stamp."""
    plan = spline(0.01, np.linspace(-0.08, -0.01, 28), 0.25, ends_at_rest=True)
    assert extremes(joined_to(plan, (0.0, 0.25), (0.377, 15.77, 715.0)))[0, 0, 0] > -0.011


def test_a_joint_that_is_ahead_of_its_plan_lets_it_come():
    """The plan passes the joint only near its end: the joint neither goes back nor on to the end."""
    rows = 0.03 * np.linspace(0, 1.8, 37) + 0.1 * np.clip(np.linspace(-1.3, 0.5, 37), 0, None) ** 2
    joined = joined_to(spline(0.05, rows, 0.03, ends_at_rest=True), (0.055,), (2.0, 13.7, 236.0))
    assert leads_back(joined, 1.6) < 1e-4 and joined.states_at(np.linspace(0, 1.4, 350))[0].max() < 0.06


def test_a_joint_ahead_of_short_plans_falls_back_to_them():
    """Each plan is stopped at its end and replaced 26 ms later: on its stop the joint could join the next at once."""
    speed, rates, planned = 0.39, (0.86, 3.04, 38.3), Motion(np.array([0.0, 0.1]), np.array([[[0.0], [0.39]]]))
    stop = fastest_stop(planned.end._replace(acceleration=np.zeros(1)), bounds(1, *rates))
    whole = planned.then(stop)
    state = State(np.array([6e-3]), np.array([speed]), np.zeros(1))
    for _ in range(20):
        joined = joined_to(whole._replace(plan_until=0.1), state, rates)
        assert way_back(joined.states_at(np.linspace(0, joined.duration, 200), 1)[0]).max() == 0
        state = joined.state_at(0.026)
        state = state._replace(position=state.position - speed * 0.026)
    assert np.abs(state.position) < 1e-3


@pytest.mark.parametrize("seed", range(60))
def test_a_chunk_is_joined_between_both_where_the_plan_has_corners(seed):
    """Nobody gave a limit of jerk, and the assumed one comes from the splines: a detour once led 19 mrad away."""
    random, step = np.random.default_rng(seed), 0.02
    speed, *turns = random.uniform(-1, 1, 3) * [1, 3, 3]
    corner, begins = random.uniform(0, 0.1), random.uniform(-0.1, 0.1, 2)

    def meant(times: np.ndarray) -> np.ndarray:
        after = np.maximum([times, times - corner], 0)
        return speed * times + turns @ after**2

    splines = [spline(step, meant(begin + step * np.arange(33))) for begin in begins]
    at = begins.max() + 0.01
    old, new = (one.from_time(at - begin) for one, begin in zip(splines, begins, strict=True))
    jerk = max(np.abs(extremes(one.until(0.2))[:, 3]).max() for one in (old, new))
    given, crossing = bounds(1, velocity=3.0, acceleration=30.0, jerk=max(jerk, 1.0)), np.full(1, CROSSING * jerk)
    joined, _ = join(old.begin, new, given, JOINING, executed=old, crossing=crossing)
    times = np.linspace(0, 0.4, 400)
    apart = [np.abs(one.states_at(times, 1)[0] - new.states_at(times, 1)[0]).max() for one in (joined, old)]
    assert apart[0] <= 1.1 * apart[1] + 1e-9


def test_a_floating_joint_does_not_go_back_to_planned_rest():
    """The joint's plan floats 13 mrad behind the joint, and a fade over 0.2 s would lead back by half of that."""
    state, floating = (1.9533, 0.0151, -2.437), np.ones(1, bool)
    joined = joined_to(resting(np.full(1, 1.9405), 1.3), state, (2.9, 23.5, 280.0), floating=floating)
    assert extremes(joined)[0, 0, 0] > state[0] - 1e-4


def test_a_plan_that_rings_at_its_end_does_not_make_a_joint_swing():
    """Splines through rows of one plan 0.05 s apart, near its end: a join adds little to the plan's own ringing."""
    plan = spline(0.05, [-2.480, -2.4925, *[-2.492741] * 6], -0.4, ends_at_rest=True).from_time(0.039)
    joined = joined_to(plan, np.add([part[0] for part in plan.begin], [-2e-4, 4e-3, 1.07]), (1.3, 10.4, 144.4))
    back, allowed = (leads_back(motion, 0.3, -1.0) for motion in (joined, plan))
    assert allowed > 5e-4 and back < 2 * allowed


def test_joints_look_at_no_more_ways_than_there_is_work_left_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    motion = Reach.motion
    monkeypatch.setattr(Reach, "motion", lambda self, *given: looked.append(0) or motion(self, *given))

    def looked_at(work: Work, seed: int) -> int:
        looked.clear()
        random = np.random.default_rng(seed)
        plan = a_plan(random)
        found = join(away_from(plan, random, 1.0), plan, BOUNDS, Joining((), 1.5), work=work)
        assert found is None or np.allclose(found[0].end.position, plan.end.position)
        return len(looked)

    free = [looked_at(Work(10**6), seed) for seed in range(40)]
    assert max(free) > 10
    for left in (0, 5, 10):
        assert max(looked_at(Work(left), seed) for seed in range(40)) <= plan_joints() + left
    work = Work(10)  # the work of a search that joins several readings of a plan
    assert sum(looked_at(work, seed) for seed in range(40)) <= 40 * plan_joints() + 10


def plan_joints() -> int:
    """Joints of a plan: each is joined, whatever work is left."""
    return len(BOUNDS.velocity)

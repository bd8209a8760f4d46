"""Plans on ~/position_trajectory that are complete: they end at their goal, within limits, and never beyond."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import bounds
from pipelines import NOW_S, SimulatedNode, rejected
from plans_within_limits import (
    FURTHEST,
    GIVEN,
    GOAL_RAD,
    ORDERS,
    PASSED_RAD,
    SLACK,
    SWUNG,
    VALUES,
    A,
    J,
    V,
    between,
    limits,
    outermost,
    played,
    random_plan,
)

from traj_integrator_ros.execution.limits import Limits, extremes, worst_violations
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.stopping import fastest_stop
from traj_integrator_ros.requests.rejection import RejectionReason

PARTS = ("positions", "velocities", "accelerations")


def seeds(count: int, limited: str, given: str = PARTS[0]) -> range:
    """Seeds that differ for each kind of limits and of plans."""
    kind = len(PARTS) * list(GIVEN).index(limited) + PARTS.index(given)
    return range(kind * count, (kind + 1) * count)


@pytest.mark.parametrize("limited", GIVEN)
@pytest.mark.parametrize("given", PARTS)
def test_random_plans_end_at_rest_at_their_goal_within_their_range(given: str, limited: str) -> None:
    for seed in seeds(10, limited, given):
        times, rows = random_plan(seed)
        parts = {}
        if given != "positions":
            parts["velocities"] = np.gradient(rows, times, axis=0)
            parts["velocities"][[0, -1]] = 0.0
        if given == "accelerations":
            parts["accelerations"] = np.gradient(parts["velocities"], times, axis=0)
            parts["accelerations"][[0, -1]] = 0.0
        dof = rows.shape[1]
        node = SimulatedNode(dof, **limits(GIVEN[limited], dof))
        node.measure(rows[0])
        trajectory = node.plan(times, rows, **parts)
        motion, points = played(trajectory), trajectory.points
        assert np.abs(points.position[-1] - rows[-1]).max() <= GOAL_RAD, seed
        assert not points.velocity[-1].any() and trajectory.motion.plan_until == np.inf, seed
        low, high = outermost(between(times, rows, *parts.values())) if parts else (rows.min(axis=0), rows.max(axis=0))
        reached = outermost(motion)
        assert (reached[0] >= low - PASSED_RAD).all() and (reached[1] <= high + PASSED_RAD).all(), seed
        swung = {} if trajectory.delay > 0 or given == "positions" else SWUNG
        for name in set(GIVEN[limited]) & set(ORDERS):
            if name == "jerk" and points.acceleration is None:
                continue  # accelerations of cubics jump
            largest = np.abs(extremes(motion)[:, ORDERS[name]]).max()
            assert largest <= VALUES[name] * swung.get(name, 1.0) * (1 + SLACK), (seed, name)


@pytest.mark.parametrize("limited", GIVEN)
def test_a_goal_in_motion_is_an_error_of_the_sender(limited: str) -> None:
    node = SimulatedNode(2, **limits(GIVEN[limited], 2))
    node.measure(0.0)
    refused = rejected(node.plan, [0, 1], [[0, 0], [0.5, 0.1]], velocities=[[0, 0], [0.0, 0.2]])
    assert refused.reason is RejectionReason.GOAL_IN_MOTION
    assert "points[-1].velocities: expected 0 at the goal, got 0.2 for b" in refused.message
    streaming = SimulatedNode(2, position_trajectory__end="stream", **limits(GIVEN[limited], 2))
    streaming.measure(0.0)
    assert streaming.plan([0, 1], [[0, 0], [0.5, 0.1]], velocities=[[0, 0], [0.0, 0.2]]) is not None


@pytest.mark.parametrize("stamped", [0.0, 1000.5])
def test_one_point_at_time_zero_is_a_path_wherever_the_robot_is(stamped: float) -> None:
    node = SimulatedNode(2, state_timeout=0.0, **limits(GIVEN["complete"], 2))
    node.measure([0.1, -0.2])
    found = [node.plan([0.0], [[0.5, 0.3]], stamp=stamped), *(node.tick(1000.0 + 0.01 * k) for k in range(1, 60))]
    (trajectory,) = [one for one in found if one is not None]
    np.testing.assert_allclose(trajectory.points.position[-1], [0.5, 0.3], atol=GOAL_RAD)
    assert np.abs(extremes(played(trajectory))[:, 3]).max() <= J * (1 + SLACK)


OUTSIDE = 3e-4
INWARD, ALONG, OUTWARD = 0.4, 0.0, -1e-3


@pytest.mark.parametrize("begins", [None, 0.0, -OUTSIDE], ids=["without a start", "clamped", "as measured"])
@pytest.mark.parametrize("fields", ["positions", "velocities"])
def test_a_robot_slightly_outside_a_limit_may_come_back_or_stay(begins, fields: str) -> None:
    for goal in (INWARD, ALONG, OUTWARD):
        node = SimulatedNode(2, **limits(GIVEN["complete"], 2) | {"limits__position_min": [0.0, -2.0]})
        node.measure([-OUTSIDE, 0.0])
        first = -OUTSIDE if begins is None else begins
        last = goal if goal != ALONG else first
        rows = np.array([[first, 0.0], [(first + last) / 2, 0.1], [last, 0.2]])
        times = np.array([0.0, 0.75, 1.5])
        if begins is None:
            rows, times = rows[1:], times[1:]
        parts = {"velocities": np.zeros_like(rows)} if fields == "velocities" else {}
        if goal == OUTWARD:
            refused = rejected(node.plan, times, rows, **parts)
            assert refused.reason is RejectionReason.LIMITS and "position of a exceeds its limit" in refused.message
        else:
            trajectory = node.plan(times, rows, **parts)
            np.testing.assert_allclose(trajectory.points.position[-1], rows[-1], atol=GOAL_RAD)
            assert outermost(played(trajectory))[0, 0] >= -OUTSIDE - GOAL_RAD


def test_a_plan_for_a_moving_robot_passes_its_points_and_ends_at_its_goal() -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        node = SimulatedNode(2, limits__start_deviation=0.0, **limits(GIVEN["complete"], 2))
        velocity = random.uniform(-0.8, 0.8, 2)
        node.execute([0.0, 0.0], velocity)
        times = random.uniform(0.2, 0.6, int(random.integers(2, 6))).cumsum()
        rows = velocity * 0.4 + random.normal(scale=0.2, size=(len(times), 2)).cumsum(axis=0)
        trajectory = node.plan(times, rows)
        motion, begins = played(trajectory), (trajectory.due_ns - trajectory.start_ns) * 1e-9
        assert np.abs(motion.end.position - rows[-1]).max() <= GOAL_RAD and not trajectory.points.velocity[-1].any()
        most = Limits(**{name: np.full(2, VALUES[name]) for name in ORDERS})
        assert not worst_violations(motion, most, of_points=True), seed
        if trajectory.delay == 0:
            np.testing.assert_allclose(motion.states_at(begins + times[:-1], 1)[0], rows[:-1], atol=GOAL_RAD)


TOO_FAST = {
    "all of it": ([0.0, 0.1], [[0.0], [1.0]]),
    "a step of it": ([0.0, 0.1, 0.6, 1.2], [[0.0], [0.05], [1.0], [1.05]]),
    "a short last step": ([0.0, 1.0, 1.001], [[0.0], [0.3], [0.6]]),
}


@pytest.mark.parametrize(("beside", "noise"), [(1e-4, 0.0), (1e-3, 0.0), (1e-2, 0.0), (1e-2, 1e-4)])
def test_a_recorded_motion_that_begins_beside_the_robot_takes_its_time(beside: float, noise: float) -> None:
    share = np.arange(1, 1001)[:, None] / 1000
    rows = beside + share**3 * (10 - 15 * share + 6 * share**2) * [0.1, -0.05]
    rows = rows + noise * np.random.default_rng(0).normal(size=rows.shape)
    node = SimulatedNode(2, **limits((*ORDERS,), 2))
    node.measure(0.0)
    trajectory = node.plan(share[:, 0], rows)
    assert trajectory.delay == 0 and np.abs(trajectory.points.position[-1] - rows[-1]).max() <= GOAL_RAD
    assert np.abs(played(trajectory).state_at(1.0).position - rows[-1]).max() < 1e-4, "it is there in time"
    most = Limits(**{name: np.full(2, VALUES[name]) for name in ORDERS})
    assert not worst_violations(played(trajectory), most, of_points=True)


@pytest.mark.parametrize("limited", GIVEN)
@pytest.mark.parametrize("fields", ["positions", "velocities"])
@pytest.mark.parametrize("name", TOO_FAST)
def test_a_plan_beyond_limits_is_slowed_refused_or_passed_as_set(name: str, fields: str, limited: str) -> None:
    times, rows = TOO_FAST[name]
    parts = {"velocities": np.zeros_like(rows)} if fields == "velocities" else {}
    node = SimulatedNode(1, **limits(GIVEN[limited], 1))
    node.measure(0.0)
    trajectory = node.plan(times, rows, **parts)
    assert (
        trajectory.delay == pytest.approx(trajectory.points.time_ns[-1] * 1e-9 - times[-1], abs=1e-6)
        and trajectory.delay > 0
    )
    report = node.published.executed.report()
    assert report.slowed == 1 and report.slowed_by_s == trajectory.delay
    assert node.published.executed.report().slowed_by_s == 0.0, "since the report before"
    strict = SimulatedNode(1, limits__action="reject", **limits(GIVEN[limited], 1))
    strict.measure(0.0)
    assert rejected(strict.plan, times, rows, **parts).reason is RejectionReason.LIMITS
    lenient = SimulatedNode(1, limits__action="warn", **limits(GIVEN[limited], 1))
    lenient.measure(0.0)
    assert lenient.plan(times, rows, **parts).points.time_ns[-1] == round(times[-1] * 1e9)
    assert [one.reason for one in lenient.warnings] == [RejectionReason.LIMITS]
    assert lenient.published.executed.report().slowed == 0


@pytest.mark.parametrize("limited", GIVEN)
def test_contradicting_rates_slow_a_plan_by_a_bounded_share(
    limited: str,
) -> None:
    for seed in seeds(5, limited):
        times, rows = random_plan(seed)
        random = np.random.default_rng(1000 + seed)
        velocities, accelerations = (random.uniform(-most, most, rows.shape) for most in (0.75 * V, 0.75 * A))
        velocities[[0, -1]] = accelerations[[0, -1]] = 0.0
        delays = []
        for parts in ({}, {"velocities": velocities, "accelerations": accelerations}):
            node = SimulatedNode(rows.shape[1], **limits(GIVEN[limited], rows.shape[1]))
            node.measure(rows[0])
            trajectory = node.plan(times, rows, **parts)
            assert np.abs(trajectory.points.position[-1] - rows[-1]).max() <= GOAL_RAD
            delays.append(trajectory.delay)
        assert delays[1] <= max(times[-1], delays[0]) * (1 + SLACK), seed


@pytest.mark.parametrize("limited", GIVEN)
def test_uneven_steps_do_not_lead_beyond_the_outermost_positions(limited: str) -> None:
    for seed in seeds(8, limited):
        random = np.random.default_rng(seed)
        count = int(random.integers(2, 15))
        times = np.concatenate([[0], (10 ** random.uniform(-2, 0, count)).cumsum()])
        rows = random.normal(scale=0.3, size=(count + 1, 1)).cumsum(axis=0).clip(-0.99 * FURTHEST, 0.99 * FURTHEST)
        node = SimulatedNode(1, **limits(GIVEN[limited], 1))
        node.measure(rows[0])
        trajectory = node.plan(times, rows)
        np.testing.assert_allclose(trajectory.points.position[-1], rows[-1], atol=GOAL_RAD)
        reached = outermost(played(trajectory))
        assert reached[0] >= rows.min() - GOAL_RAD and reached[1] <= rows.max() + GOAL_RAD, seed


@pytest.mark.parametrize("halfway", [0.0, 0.3, 0.5])
def test_a_turn_between_two_samples_is_as_smooth_as_planned(halfway: float) -> None:
    """The peak lies up to half a step after a row: to rest at that row instead would take a hundred times the jerk."""
    rate, dt = 3.0, 0.05
    times = dt * np.arange(round(2 * np.pi / rate / dt))
    rows = 0.2 * (1 - np.cos(rate * (times - (times[len(times) // 2] + halfway * dt) + np.pi / rate)))[:, None]
    node = SimulatedNode(1)
    node.measure(rows[0])
    motion = played(node.plan(times[1:], rows[1:]))
    within = motion.from_time(0.6).until(0.8)
    assert np.abs(extremes(within)[:, 3]).max() < 1.5 * 0.2 * rate**3
    assert extremes(motion)[1, 0, 0] <= 0.4 + PASSED_RAD


@pytest.mark.parametrize("says_rest", [True, False])
@pytest.mark.parametrize(("goal", "lasts"), [(-0.1, 1.0), (0.05, 5.0), (0.15, 0.5), (0.2, 2.0), (0.5, 5.0)])
def test_a_moving_joint_passes_its_goal_by_no_more_than_it_has_to(goal: float, lasts: float, says_rest: bool) -> None:
    most = {"velocity": 2.0, "acceleration": 10.0, "jerk": 500.0}
    node = SimulatedNode(1, **{f"limits__{name}": [value] for name, value in most.items()})
    node.execute(0.0, 1.5, at=NOW_S + node.parameters.publish_lead_time)
    motion = node.plan([lasts], [[goal]], velocities=[[0.0]] * says_rest).motion
    furthest = fastest_stop(State(np.zeros(1), np.full(1, 1.5), np.zeros(1)), bounds(1, **most)).end.position[0]
    assert extremes(motion)[1, 0, 0] <= max(goal, furthest) + 1e-6
    assert motion.end.position[0] == pytest.approx(goal, abs=1e-9)
    assert np.abs(extremes(motion)[:, 2]).max() <= 10.0 * (1 + 1e-6)

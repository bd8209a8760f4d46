"""Plans on ~/position_trajectory that are complete: they end at their goal, and pass unchanged within limits."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from pipelines import SimulatedNode, rejected
from ruckig import InputParameter, Ruckig, Synchronization, Trajectory

from traj_integrator_ros.execution.limits import Limits, extremes, worst_violations
from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.execution.rows import Points, motion_of_points
from traj_integrator_ros.handling.plan import ExecutableTrajectory
from traj_integrator_ros.handling.rejection import RejectionReason

V, A, J, FURTHEST = 2.0, 8.0, 80.0, 3.0
GOAL_RAD = 1e-6
"""How near a plan ends to its goal, and by how much it may pass the outermost of what its points say."""
SLACK = 1e-3
"""limits.tolerance, up to which a limit counts as kept."""
GIVEN = {
    "complete": ("velocity", "acceleration", "jerk", "position_min", "position_max"),
    "from a URDF": ("velocity", "acceleration", "position_min", "position_max"),
    "velocity only": ("velocity",),
}
SWUNG = {"velocity": 1.1, "acceleration": 2.0, "jerk": 2.2}
"""Times a limit: what a controller's polynomials reach between points of a motion within it, however long steps are."""
SWUNG_VELOCITY = 0.13
"""Times an acceleration and a step: the same of a velocity, beyond it."""
VALUES = {"velocity": V, "acceleration": A, "jerk": J, "position_min": -FURTHEST, "position_max": FURTHEST}
ORDERS = {"velocity": 1, "acceleration": 2, "jerk": 3}


def limits(names: tuple[str, ...], dof: int, **changes: float) -> dict[str, list[float]]:
    values = VALUES | changes
    return {f"limits__{name}": [values[name]] * dof for name in names}


def between(times: np.ndarray, *parts: np.ndarray) -> Motion:
    """What joint_trajectory_controller makes of points by itself."""
    return motion_of_points(Points(np.rint(times * 1e9).astype(np.int64), *parts, *[None] * (3 - len(parts))))


def played(trajectory: ExecutableTrajectory) -> Motion:
    return motion_of_points(trajectory.points)


def outermost(motion: Motion) -> np.ndarray:
    return extremes(motion)[:, 0]


def random_plan(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Times `[N + 1]` and positions `[N + 1, dof]` from rest: uneven steps, turns, goals that are held or come back."""
    random = np.random.default_rng(seed)
    dof, count = int(random.integers(1, 8)), int(random.integers(1, 12))
    start = random.uniform(-1, 1, dof)
    times = np.concatenate([[0], random.uniform(0.05, 0.6, count).cumsum()])
    if random.random() < 0.2:  # a short last step
        times[-1] = times[-2] + 10 ** random.uniform(-4, -2)
    rows = start + np.concatenate([np.zeros((1, dof)), random.normal(scale=0.3, size=(count, dof)).cumsum(axis=0)])
    rows = rows.clip(-0.99 * FURTHEST, 0.99 * FURTHEST)
    last = random.random()
    rows[-1] = rows[-2] if last < 0.3 else rows[0] if last < 0.5 else rows[-1]
    return times, rows


@pytest.mark.parametrize("limited", GIVEN)
@pytest.mark.parametrize("given", ["positions", "velocities", "accelerations"])
def test_random_plans_end_at_rest_at_their_goal_and_never_go_further_than_they_say(given: str, limited: str) -> None:
    for seed in range(70):  # of each kind of limits: 210 of each kind of plan
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
        assert not points.velocity[-1].any() and trajectory.brakes_at == np.inf, seed
        low, high = outermost(between(times, rows, *parts.values())) if parts else (rows.min(axis=0), rows.max(axis=0))
        reached = outermost(motion)
        assert (reached[0] >= low - GOAL_RAD).all() and (reached[1] <= high + GOAL_RAD).all(), seed
        swung = {} if trajectory.delay > 0 or given == "positions" else SWUNG
        for name in set(GIVEN[limited]) & set(ORDERS):
            if name == "jerk" and points.acceleration is None:
                continue  # accelerations of cubics jump
            largest = np.abs(extremes(motion)[:, ORDERS[name]]).max()
            assert largest <= VALUES[name] * swung.get(name, 1.0) * (1 + SLACK), (seed, name)


def trapezoids(way: np.ndarray, dt: float) -> tuple[np.ndarray, ...]:
    """Times, positions, velocities and accelerations of the fastest straight way within V and A, sampled every dt."""
    longest = np.abs(way).max()
    rising = min(V / A, np.sqrt(longest / A))
    peak = A * rising
    duration = 2 * rising + max(longest - peak * rising, 0) / peak
    times = np.append(np.arange(0, duration - 1e-6, dt), duration)
    left = duration - times
    along = [
        np.select([times < rising, left < rising], [begin, end], cruise)
        for begin, end, cruise in (
            (A * times**2 / 2, longest - A * left**2 / 2, peak * (times - rising / 2)),
            (A * times, A * left, np.full(len(times), peak)),
            (np.full(len(times), A), np.full(len(times), -A), np.zeros(len(times))),
        )
    ]
    along[1][-1] = 0.0
    return times, *(part[:, None] * way / longest for part in along)


def s_curves(way: np.ndarray, dt: float) -> tuple[np.ndarray, ...]:
    """The same within J, too."""
    dof = len(way)
    given, motion = InputParameter(dof), Trajectory(dof)
    given.current_position, given.target_position = [0.0] * dof, way.tolist()
    given.max_velocity, given.max_acceleration, given.max_jerk = [V] * dof, [A] * dof, [J] * dof
    given.synchronization = Synchronization.Phase
    Ruckig(dof).calculate(given, motion)
    times = np.append(np.arange(0, motion.duration - 1e-6, dt), motion.duration)
    states = np.array([motion.at_time(time)[:3] for time in times]).transpose(1, 0, 2)
    states[0, -1], states[1, -1] = way, 0.0
    return times, *states


PROFILES = {"trapezoids": (trapezoids, ("velocity", "acceleration")), "s-curves": (s_curves, tuple(ORDERS))}


@pytest.mark.parametrize("fields", [1, 2], ids=["velocities", "accelerations, too"])
@pytest.mark.parametrize("dt", [0.01, 0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("profile", PROFILES)
def test_plans_of_a_time_parameterization_at_exactly_the_limits_pass_unchanged(
    profile: str, dt: float, fields: int
) -> None:
    made, kept = PROFILES[profile]
    for seed in range(5):
        random = np.random.default_rng(seed)
        dof = int(random.integers(1, 8))
        start, way = random.uniform(-1, 1, dof), random.uniform(-2, 2, dof)
        times, position, *rates = made(way, dt)
        position, rates = position + start, rates[:fields]
        node = SimulatedNode(dof, **limits(kept, dof))
        node.measure(start)
        trajectory = node.plan(times, position, **dict(zip(("velocities", "accelerations"), rates, strict=False)))
        assert_unchanged(trajectory, between(times, position, *rates), times)


@lru_cache
def planned_by_toppra(parametrizer: str, seed: int):
    """A random path of 1 to 7 joints, as fast as V and A allow; with all else as it is by default."""
    toppra = pytest.importorskip("toppra", reason="toppra is not installed (requirements/peers.txt)")
    algorithm, constraint = (pytest.importorskip(f"toppra.{name}") for name in ("algorithm", "constraint"))
    toppra.setup_logging("ERROR")
    random = np.random.default_rng(seed)
    dof, count = int(random.integers(1, 8)), int(random.integers(2, 8))
    rows = np.concatenate([random.uniform(-1, 1, (1, dof)), random.normal(scale=0.5, size=(count, dof))]).cumsum(axis=0)
    path = toppra.SplineInterpolator(np.linspace(0, 1, len(rows)), rows, "clamped" if seed % 2 else "natural")
    bounds = [np.tile([-limit, limit], (dof, 1)) for limit in (V, A)]
    limited = [constraint.JointVelocityConstraint(bounds[0]), constraint.JointAccelerationConstraint(bounds[1])]
    return algorithm.TOPPRA(limited, path, parametrizer=parametrizer).compute_trajectory(0, 0)


@pytest.mark.parametrize("fields", [1, 2], ids=["velocities", "accelerations, too"])
@pytest.mark.parametrize("dt", [0.01, 0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("parametrizer", ["ParametrizeSpline", "ParametrizeConstAccel"])
def test_plans_of_toppra_at_exactly_the_limits_pass_unchanged(parametrizer: str, dt: float, fields: int) -> None:
    """Its motions exceed the limits between the places of its grid, by up to 1 % of velocity."""
    for seed in range(10):
        planned = planned_by_toppra(parametrizer, seed)
        times = np.append(np.arange(0, planned.duration - 1e-6, dt), planned.duration)
        position, *rates = (planned(times, order) for order in range(fields + 1))
        node = SimulatedNode(
            position.shape[1], max_horizon=1000, **limits(("velocity", "acceleration"), position.shape[1])
        )
        node.measure(position[0])
        trajectory = node.plan(times, position, **dict(zip(("velocities", "accelerations"), rates, strict=False)))
        assert_unchanged(trajectory, between(times, position, *rates), times)


def assert_unchanged(trajectory: ExecutableTrajectory, by_itself: Motion, times: np.ndarray) -> None:
    """The message has the plan's points, and a controller makes of it what it would make of the plan by itself."""
    assert trajectory.delay == 0 and len(trajectory.points.time_ns) == len(times)
    assert np.abs(trajectory.points.time_ns - np.rint(times * 1e9)).max() <= 1
    at = np.linspace(0, times[-1] * (1 - 1e-12), 2000)
    assert np.abs(played(trajectory).states_at(at)[0] - by_itself.states_at(at)[0]).max() <= GOAL_RAD


@pytest.mark.parametrize(("beyond", "passes"), [(0.02, True), (0.1, False)], ids=["within a grid's error", "beyond it"])
@pytest.mark.parametrize("name", ["velocity", "acceleration"])
@pytest.mark.parametrize("fields", [1, 2], ids=["velocities", "accelerations, too"])
def test_a_smooth_plan_beyond_a_limit_passes_as_far_as_a_time_parameterization_would_be_off(
    fields: int, name: str, beyond: float, passes: bool
) -> None:
    time, dt = 1.0, 0.02
    share = np.linspace(0, time, round(time / dt) + 1)[:, None] / time
    parts = (
        10 * share**3 - 15 * share**4 + 6 * share**5,
        30 * share**2 * (1 - share) ** 2,
        60 * share * (1 - share) * (1 - 2 * share),
    )
    largest = {"velocity": 1.875, "acceleration": 10 / np.sqrt(3)}[name]
    if name == "velocity" and passes:
        beyond /= 4
    way = VALUES[name] / largest * (1 + beyond)
    node = SimulatedNode(1, **limits((name,), 1))
    node.measure(0.0)
    rates = dict(zip(("velocities", "accelerations"), (way * part for part in parts[1 : fields + 1]), strict=False))
    trajectory = node.plan(share[:, 0] * time, way * parts[0], **rates)
    assert (trajectory.delay == 0) == passes
    if not passes:
        assert np.abs(extremes(played(trajectory))[:, ORDERS[name]]).max() <= VALUES[name] * (1 + SLACK)


def pieces_that_jump(order: int) -> tuple[np.ndarray, ...]:
    """Steps of 1 s in which the derivative of an order jumps up to twice, from -1, 0 or 1 to one of these.

    Returns derivatives 0 to `order` at the end `[order + 1, N]`, the last one at the beginning, and velocities within.
    """
    grid = np.linspace(0, 1, 41)
    levels, first, second = zip(
        *((level, a, b) for level in product((-1, 0, 1), repeat=3) for a in grid for b in grid if a <= b), strict=True
    )
    levels, first, second = np.array(levels, float), np.array(first), np.array(second)
    within = np.linspace(0, 1, 201)[:, None]

    def after(time: np.ndarray, power: int) -> np.ndarray:
        """The integral over `power` times, at a time."""
        jumps = levels[:, 0], levels[:, 1] - levels[:, 0], levels[:, 2] - levels[:, 1]
        return sum(
            jump * np.maximum(time - since, 0) ** power / np.prod(np.arange(1, power + 1), dtype=float)
            for jump, since in zip(jumps, (0.0, first, second), strict=True)
        )

    ends = [after(np.array(1.0), order - derivative) for derivative in range(order)]
    return np.array([*ends, levels[:, 2]]), levels[:, 0], after(within, order - 1)


def test_what_a_controller_makes_of_a_motion_within_limits_swings_as_far_as_is_allowed() -> None:
    step_ns = np.array([0, 10**9])

    def made(*parts: np.ndarray) -> np.ndarray:
        return extremes(motion_of_points(Points(step_ns, *parts, *[None] * (3 - len(parts)))))

    end, begin, velocity = pieces_that_jump(2)
    rest = np.zeros_like(begin)
    quintic = made(*(np.stack(rows) for rows in ((rest, end[0]), (rest, end[1]), (begin, end[2]))))
    cubic = made(np.stack([rest, end[0]]), np.stack([rest, end[1]]))
    of_acceleration = max(np.abs(one[:, 2]).max() for one in (quintic, cubic))
    assert 0.95 * SWUNG["acceleration"] < of_acceleration <= SWUNG["acceleration"] + 1e-9
    beyond = max(
        np.maximum(one[1, 1] - velocity.max(axis=0), velocity.min(axis=0) - one[0, 1]).max() for one in (quintic, cubic)
    )
    assert 0.95 * SWUNG_VELOCITY < beyond <= SWUNG_VELOCITY
    end, begin, _ = pieces_that_jump(3)
    of_jerk = np.abs(made(*(np.stack([rest, part]) for part in end[:3]))[:, 3]).max()
    assert 0.95 * SWUNG["jerk"] < of_jerk <= SWUNG["jerk"]


@pytest.mark.parametrize("fields", [1, 2], ids=["velocities", "accelerations, too"])
@pytest.mark.parametrize("dt", [0.02, 0.1])
def test_plans_whose_accelerations_jump_twice_within_a_step_pass_unchanged(dt: float, fields: int) -> None:
    for seed in range(40):
        random = np.random.default_rng(seed)
        levels, lengths = [1.0], [3.0]
        for _ in range(random.integers(1, 6)):
            levels += random.choice([-1.0, 0.0, 1.0], 2).tolist()
            lengths += random.uniform(0.05, 0.9, 2).tolist()
        speed = np.dot(levels, lengths)
        levels, lengths = np.array([*levels, -np.sign(speed)]), np.array([*lengths, abs(speed)])
        begins = np.concatenate([[0], lengths.cumsum()])
        times = np.append(np.arange(0, begins[-1] - 1e-9, 1.0), begins[-1])
        jumps = np.diff(levels, prepend=0.0)
        late = np.maximum(times[:, None] - begins[:-1], 0)
        rates = [late @ jumps, levels[np.searchsorted(begins[1:-1], times, side="right")]]
        rates[0][-1] = 0.0
        scale = A * dt
        position = (late**2 / 2 @ jumps * scale * dt)[:, None]
        rates = [(rates[0] * scale)[:, None], (rates[1] * A)[:, None]][:fields]
        fastest = np.abs(np.concatenate([[0], (levels * lengths).cumsum()])).max() * scale
        node = SimulatedNode(1, **limits(("velocity", "acceleration"), 1, velocity=fastest))
        node.measure(0.0)
        trajectory = node.plan(times * dt, position, **dict(zip(("velocities", "accelerations"), rates, strict=False)))
        assert_unchanged(trajectory, between(times * dt, position, *rates), times * dt)
        assert extremes(played(trajectory))[1, 1] <= fastest + SWUNG_VELOCITY * A * dt


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


@pytest.mark.parametrize("part", ["velocities", "accelerations"])
def test_a_field_that_only_some_points_have_is_named(part: str) -> None:
    node = SimulatedNode(1)
    parts = {"velocities": [[0.0], [0.0]], part: [[0.0], []]}
    parts = {name: [np.asarray(row) for row in rows] for name, rows in parts.items()}
    refused = rejected(node.plan, [0, 1], [[0.0], [0.1]], **parts)
    assert f"points[1].{part}: expected some, as in points[0], got 0" in refused.message


def test_joints_that_a_plan_leaves_out_stay_and_leave_it_as_it_is() -> None:
    node = SimulatedNode(3, **limits(GIVEN["complete"], 3))
    node.measure([0.1, 0.2, 0.3])
    times, position, velocity, acceleration = s_curves(np.array([0.5]), 0.05)
    trajectory = node.plan(times, position + 0.2, velocities=velocity, accelerations=acceleration, names="b")
    np.testing.assert_allclose(trajectory.points.position[:, 1], position[:, 0] + 0.2, atol=1e-12)
    assert (trajectory.points.position[:, [0, 2]] == [0.1, 0.3]).all() and len(trajectory.points.time_ns) == len(times)


@pytest.mark.parametrize("stamped", [0.0, 1000.5])
def test_one_point_at_time_zero_is_a_path_of_one_point_wherever_the_robot_is(stamped: float) -> None:
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
def test_a_robot_slightly_outside_a_limit_may_come_back_or_stay_but_not_go_further(begins, fields: str) -> None:
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


def test_a_plan_for_a_robot_in_motion_goes_on_from_there_and_ends_at_its_goal() -> None:
    for seed in range(40):
        random = np.random.default_rng(seed)
        node = SimulatedNode(2, limits__start_deviation=0.0, **limits(GIVEN["complete"], 2))
        velocity = random.uniform(-0.8, 0.8, 2)
        node.execute([0.0, 0.0], velocity)
        times = random.uniform(0.2, 0.6, int(random.integers(2, 6))).cumsum()
        rows = velocity * 0.4 + random.normal(scale=0.2, size=(len(times), 2)).cumsum(axis=0)
        trajectory = node.plan(times, rows)
        np.testing.assert_allclose(trajectory.points.position[-1], rows[-1], atol=GOAL_RAD)
        assert not trajectory.points.velocity[-1].any()
        most = Limits(**{name: np.full(2, VALUES[name]) for name in ORDERS})
        assert not worst_violations(played(trajectory), most, of_points=True), seed


TOO_FAST = {
    "all of it": ([0.0, 0.1], [[0.0], [1.0]]),
    "a step of it": ([0.0, 0.1, 0.6, 1.2], [[0.0], [0.05], [1.0], [1.05]]),
    "a short last step": ([0.0, 1.0, 1.001], [[0.0], [0.3], [0.6]]),
}


@pytest.mark.parametrize("limited", GIVEN)
@pytest.mark.parametrize("fields", ["positions", "velocities"])
@pytest.mark.parametrize("name", TOO_FAST)
def test_a_plan_beyond_limits_is_slowed_and_says_by_how_much_or_refused_or_as_it_is(
    name: str, fields: str, limited: str
) -> None:
    times, rows = TOO_FAST[name]
    parts = {"velocities": np.zeros_like(rows)} if fields == "velocities" else {}
    node = SimulatedNode(1, **limits(GIVEN[limited], 1))
    node.measure(0.0)
    trajectory = node.plan(times, rows, **parts)
    assert (
        trajectory.delay == pytest.approx(trajectory.points.time_ns[-1] * 1e-9 - times[-1], abs=1e-6)
        and trajectory.delay > 0
    )
    report = node.published.report()
    assert report.slowed == 1 and report.slowed_by_s == trajectory.delay
    assert node.published.report().slowed_by_s == 0.0, "since the report before"
    strict = SimulatedNode(1, limits__action="reject", **limits(GIVEN[limited], 1))
    strict.measure(0.0)
    assert rejected(strict.plan, times, rows, **parts).reason is RejectionReason.LIMITS
    lenient = SimulatedNode(1, limits__action="warn", **limits(GIVEN[limited], 1))
    lenient.measure(0.0)
    assert lenient.plan(times, rows, **parts).points.time_ns[-1] == round(times[-1] * 1e9)
    assert [one.reason for one in lenient.warnings] == [RejectionReason.LIMITS]
    assert lenient.published.report().slowed == 0

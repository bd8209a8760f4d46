"""Complete plans that are within the limits, as those of time parameterizations are: they pass unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import SimulatedNode
from plans_within_limits import GOAL_RAD, ORDERS, SLACK, SWUNG_VELOCITY, VALUES, A, J, V, between, limits, played
from ruckig import InputParameter, Ruckig, Synchronization, Trajectory

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.governor.executable import ExecutableTrajectory


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
    """The fastest straight way within V, A and J, in the same form."""
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
@pytest.mark.parametrize("dt", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("profile", PROFILES)
def test_plans_of_a_time_parameterization_pass_unchanged(profile: str, dt: float, fields: int) -> None:
    made, kept = PROFILES[profile]
    for seed in range(3):
        random = np.random.default_rng(seed)
        dof = int(random.integers(1, 8))
        start, way = random.uniform(-1, 1, dof), random.uniform(-2, 2, dof)
        times, position, *rates = made(way, dt)
        position, rates = position + start, rates[:fields]
        node = SimulatedNode(dof, **limits(kept, dof))
        node.measure(start)
        trajectory = node.plan(times, position, **dict(zip(("velocities", "accelerations"), rates, strict=False)))
        assert_unchanged(trajectory, between(times, position, *rates), times)


def assert_unchanged(trajectory: ExecutableTrajectory, by_itself: Motion, times: np.ndarray) -> None:
    """The message has the plan's points, and a controller interpolates it like the plan itself."""
    assert trajectory.delay == 0 and len(trajectory.points.time_ns) == len(times)
    assert np.abs(trajectory.points.time_ns - np.rint(times * 1e9)).max() <= 1
    at = np.linspace(0, times[-1] * (1 - 1e-12), 2000)
    assert np.abs(played(trajectory).states_at(at)[0] - by_itself.states_at(at)[0]).max() <= GOAL_RAD


@pytest.mark.parametrize(("beyond", "passes"), [(0.02, True), (0.1, False)], ids=["within a grid's error", "beyond it"])
@pytest.mark.parametrize("name", ["velocity", "acceleration"])
@pytest.mark.parametrize("fields", [1, 2], ids=["velocities", "accelerations, too"])
def test_a_smooth_plan_may_be_off_as_far_as_a_time_parameterization(
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


@pytest.mark.parametrize(("further", "passes"), [(0.0, True), (0.05, False)])
def test_positions_further_apart_than_their_velocities_allow_are_slowed(further: float, passes: bool) -> None:
    times, position, velocity, _ = s_curves(np.array([2.0]), 0.2)
    node = SimulatedNode(1, **limits(tuple(ORDERS), 1))
    node.measure(0.0)
    assert (node.plan(times, (1 + further) * position, velocities=velocity).delay == 0) == passes


@pytest.mark.parametrize(("beyond", "passes"), [(-0.02, True), (0.1, False)])
@pytest.mark.parametrize("fields", [1, 2], ids=["velocities", "accelerations, too"])
def test_a_plan_with_too_much_jerk_in_one_place_is_slowed(fields: int, beyond: float, passes: bool) -> None:
    """From rest to rest, in two joints, of which one turns from speeding up to slowing down too fast."""
    steps = np.repeat([0.01, 0.01 / (1 + beyond), 0.01], 10)
    state, rows = np.zeros(3), [np.zeros(3)]
    for step, jerk in zip(steps, np.repeat([J / 2, -J * (1 + beyond), J / 2], 10), strict=True):
        rates, powers = np.append(state[1:], jerk), np.array([step, step**2 / 2, step**3 / 6])
        state = state + np.array([rates[order:] @ powers[: 3 - order] for order in range(3)])
        rows.append(state)
    rows[-1] = state * [1.0, 0.0, 0.0]
    position, *rates = np.transpose(rows)[..., None] * [1.0, 0.5]
    node = SimulatedNode(2, **limits(tuple(ORDERS), 2))
    node.measure(0.0)
    fields_of = dict(zip(("velocities", "accelerations"), rates[:fields], strict=False))
    trajectory = node.plan(np.append(0.0, steps.cumsum()), position, **fields_of)
    assert (trajectory.delay == 0) == passes
    assert np.abs(extremes(played(trajectory))[:, 3]).max() <= J * (1 + SLACK)


@pytest.mark.parametrize("fields", [1, 2], ids=["velocities", "accelerations, too"])
@pytest.mark.parametrize("dt", [0.02, 0.1])
def test_plans_whose_accelerations_jump_twice_within_a_step_pass_unchanged(dt: float, fields: int) -> None:
    for seed in range(15):
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

"""Times under limits of velocity, acceleration and, for order 3, jerk; and plans that are only slowed down.

benchmarks.retiming has the problems at the end.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BPoly, CubicSpline
from scipy.optimize import linprog

from benchmarks.retiming.executed import MOST, executed_ratios, random_motion
from benchmarks.retiming.paths import as_limits, played, played_ratios, random_limits, random_path
from benchmarks.retiming.problems import FAMILIES, known_problems, random_problem, solve
from traj_integrator_ros.kernels.retime import MotionLimits, RetimeStatus, certify, retime


def by_linear_programs(waypoints: np.ndarray, limits: dict[str, np.ndarray], intervals: int) -> tuple[float, float]:
    """Duration and largest start speed from a reachability analysis with a general solver."""
    knots = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(waypoints, axis=0), axis=1))])
    pieces = len(knots) - 1
    parts = [intervals // pieces + (m < intervals % pieces) for m in range(pieces)]
    grid = np.concatenate(
        [np.linspace(knots[m], knots[m + 1], parts[m] + 1)[:-1] for m in range(pieces)] + [knots[-1:]]
    )
    path = CubicSpline(knots, waypoints, bc_type="natural")
    first, second, steps = path(grid, 1), path(grid, 2), np.diff(grid)
    bound = np.min((limits["velocity"] / np.maximum(np.abs(first), 1e-12)) ** 2, axis=1)
    high, low = limits["acceleration"], -limits["deceleration"]

    def rows(i):
        p = np.concatenate([first[i], first[i + 1] + 2 * steps[i] * second[i + 1]])
        matrix = np.stack([p, np.concatenate([second[i], second[i + 1]])], 1)
        return np.concatenate([matrix, -matrix]), np.concatenate([high, high, -low, -low])

    reachable = np.zeros(len(grid))
    for i in reversed(range(len(steps))):
        matrix, right = rows(i)
        scale = np.abs(matrix).max(axis=1)
        to_next = np.array([[2 * steps[i], 1.0], [-2 * steps[i], -1.0]])
        left = np.concatenate([matrix / scale[:, None], to_next])
        values = np.concatenate([right / scale, [reachable[i + 1], 0.0]])
        solved = linprog([0, -1], left, values, bounds=[(None, None), (0, bound[i])])
        reachable[i] = -solved.fun
    x = np.zeros(len(grid))
    for i in range(len(steps)):
        matrix, right = rows(i)
        most = np.array([(r - m[1] * x[i]) / m[0] for m, r in zip(matrix, right, strict=True) if m[0] > 1e-12])
        x[i + 1] = min(reachable[i + 1], x[i] + 2 * steps[i] * most.min())
    speed = np.sqrt(reachable[0]) * np.linalg.norm(first[0])
    return float(np.sum(2 * steps / (np.sqrt(x[1:]) + np.sqrt(x[:-1])))), float(speed)


def problem(seed: int, rows: int, dof: int = 7) -> tuple[torch.Tensor, dict[str, np.ndarray]]:
    """A random problem: waypoints `[1, rows, dof]` and limits."""
    rng = np.random.default_rng(seed)
    return torch.tensor(random_path(rng, rows, dof))[None], random_limits(rng, dof)


@pytest.mark.parametrize(("seed", "rows"), [(0, 7), (1, 4), (2, 7), (3, 2)])
def test_duration_and_start_speed_are_those_of_a_general_solver(seed: int, rows: int) -> None:
    waypoints, limits = problem(seed, rows, 4)
    motion = retime(waypoints, as_limits(limits), order=2, hold=False, intervals=40)
    duration, speed = by_linear_programs(waypoints[0].numpy(), limits, 40)
    assert float(motion.duration[0]) == pytest.approx(duration, rel=2e-5)
    assert float(motion.largest_start_speed[0]) == pytest.approx(speed, rel=1e-5)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("rows", [2, 5, 9, 14])
def test_the_waypoints_are_passed_and_limits_kept_between_them_and_used(order: int, rows: int) -> None:
    for seed in range(3 * rows, 3 * rows + 3):
        waypoints, limits = problem(seed, rows)
        motion = retime(waypoints, as_limits(limits), order=order)
        assert motion.ok.all(), motion.reason(0)
        found = played_ratios(motion, 0, limits)
        assert 0.995 <= found.max() <= 1 + 1e-6
        position, velocity, _ = motion.states(motion.row_times)
        assert torch.allclose(position, waypoints, atol=1e-6)
        assert velocity[0, [0, -1]].abs().max() < 1e-9
        assert (motion.row_times.diff() > 0).all()
        if order == 2:
            assert np.allclose(found, motion.ratio[0].numpy(), atol=2e-3)
        else:
            quicker = retime(waypoints, as_limits(limits), order=2)
            assert 1 <= float(motion.duration[0] / quicker.duration[0]) < 1.5


@pytest.mark.parametrize("order", [2, 3])
def test_a_batch_is_its_rows_one_by_one_on_any_number_of_threads(order: int) -> None:
    waypoints, limits = zip(*(problem(seed, 6) for seed in range(5)), strict=True)
    together = MotionLimits(**{name: torch.tensor(np.stack([each[name] for each in limits])) for name in limits[0]})
    batch = retime(torch.cat(waypoints), together, order=order, threads=3)
    for b in range(5):
        alone = retime(waypoints[b], as_limits(limits[b]), order=order, threads=1)
        count = int(alone.count[0])
        assert torch.equal(alone.times[0, :count], batch.times[b, :count])
        assert torch.equal(alone.position[0, :count], batch.position[b, :count])


def test_a_start_that_is_too_fast_is_refused_with_the_largest_possible() -> None:
    waypoints, limits = problem(7, 6)
    limits = as_limits(limits)
    largest = float(retime(waypoints, limits, order=2).largest_start_speed[0])
    refused = retime(waypoints, limits, order=2, start_speed=1.01 * largest)
    assert int(refused.status[0]) == RetimeStatus.START_TOO_FAST
    assert int(retime(waypoints, limits, start_speed=100.0).status[0]) == RetimeStatus.START_TOO_FAST
    told = refused.reason(0, [f"j{index}" for index in range(7)])
    assert f"{float(refused.largest_start_speed[0]):.6g}" in told and re.search(r"(velocity|acceleration) of j\d", told)
    assert float(refused.largest_start_speed[0]) == pytest.approx(largest, rel=1e-3)
    for order, share in ((2, 0.7), (3, 0.3)):
        accepted = retime(waypoints, limits, order=order, start_speed=share * largest)
        assert accepted.ok.all(), accepted.reason(0)
        assert accepted.velocity[0, 0].norm() == pytest.approx(share * largest, rel=1e-9 if order == 2 else 1e-6)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("speed", [0.0, 0.2])
def test_a_wanted_duration_is_met_and_a_shorter_one_refused(order: int, speed: float) -> None:
    waypoints, limits = problem(11, 5)
    options = {"limits": as_limits(limits), "order": order, "start_speed": speed}
    shortest = float(retime(waypoints, **options).duration[0])
    motion = retime(waypoints, **options, duration=1.3 * shortest)
    assert motion.ok.all(), motion.reason(0)
    assert float(motion.duration[0]) == pytest.approx(1.3 * shortest, rel=1e-6)
    assert played_ratios(motion, 0, limits).max() <= 1 + 5e-4
    refused = retime(waypoints, **options, duration=0.9 * shortest)
    assert int(refused.status[0]) == RetimeStatus.TOO_SHORT
    assert float(refused.duration[0]) == pytest.approx(shortest, rel=2e-2)


def test_equal_rows_and_rows_not_finite_have_their_own_status() -> None:
    waypoints = torch.zeros(3, 4, 2, dtype=torch.float64)
    waypoints[1, :, 0] = torch.tensor([0.0, 0.0, 1.0, 1.0])
    waypoints[2, 1, 1] = torch.nan
    limits = MotionLimits(velocity=1.0, acceleration=2.0, jerk=20.0)
    for order in (2, 3):
        motion = retime(waypoints, limits, order=order)
        assert motion.status.tolist() == [RetimeStatus.STILL, RetimeStatus.DONE, RetimeStatus.NOT_FINITE]
        assert motion.ok.tolist() == [True, True, False]
        assert motion.reason(2) == "a waypoint is not finite"
        assert float(motion.duration[0]) == 0


def a_plan(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float, dict[str, np.ndarray]]:
    """Rows 20 ms apart that use their limits: positions, velocities, accelerations, step, limits."""
    waypoints, limits = problem(seed, 5)
    limits["deceleration"] = limits["acceleration"]
    motion = retime(waypoints, as_limits(limits), intervals=100)  # finer: it ripples more
    steps = int(float(motion.duration[0]) / 0.02)
    times = torch.linspace(0, float(motion.duration[0]), steps + 1, dtype=torch.float64)
    return (*motion.states(times), float(times[1]), limits)


def slowed(plan: tuple, factor: float, order: int = 3):
    position, velocity, acceleration, dt, limits = plan
    powers = {"velocity": 1, "acceleration": 2, "deceleration": 2, "jerk": 3}
    bounds = {name: value / factor ** powers[name] for name, value in limits.items()}
    states = {"velocity": velocity, "acceleration": acceleration} if order == 3 else {}
    return retime(position, as_limits(bounds), order=order, mode="slow only", dt=dt, **states), bounds


def test_a_plan_within_its_limits_comes_back_to_the_last_bit() -> None:
    *states, dt, _ = plan = a_plan(1)
    motion, _ = slowed(plan, 0.8)
    assert motion.unchanged.all() and motion.ok.all()
    assert all(map(torch.equal, (motion.position, motion.velocity, motion.acceleration), states))
    assert torch.allclose(motion.times[0], dt * torch.arange(states[0].shape[1], dtype=torch.float64), atol=1e-12)
    assert torch.equal(motion.row_times, motion.times)


@pytest.mark.parametrize(("order", "factor"), [(3, 1.01), (3, 1.1), (3, 1.5), (2, 1.2)])
def test_a_plan_beyond_limits_is_slowed_less_than_as_a_whole(order: int, factor: float) -> None:
    plan = a_plan(2)
    motion, bounds = slowed(plan, factor, order)
    assert motion.ok.all() and not motion.unchanged.any(), motion.reason(0)
    assert played_ratios(motion, 0, bounds).max() <= 1 + 5e-4
    original = plan[3] * (plan[0].shape[1] - 1)
    assert original < float(motion.duration[0]) < factor * original
    position, _, _ = motion.states(motion.row_times)
    assert torch.allclose(position, plan[0], atol=1e-6)
    assert (motion.row_times.diff() >= plan[3] * (1 - 1e-6)).all()


@pytest.mark.parametrize("order", [2, 3])
def test_a_burst_is_slowed_by_itself_and_the_rest_stays_to_the_last_bit(order: int) -> None:
    t = 0.02 * torch.arange(301, dtype=torch.float64)[:, None]
    burst = 0.02 * torch.exp(-(((t - 3.1) / 0.05) ** 2) / 2) * torch.tensor([1.0, 0.0])
    plan = (torch.sin(2 * np.pi * t / 6) ** 3 * torch.tensor([0.8, 0.3]) + burst)[None]
    limits = {"velocity": 1.5, "acceleration": 4.0, "deceleration": 4.0, "jerk": 120.0}
    motion = retime(plan, as_limits(limits), order=order, mode="slow only", dt=0.02)
    assert motion.ok.all() and not motion.unchanged.any(), motion.reason(0)
    bounds = {name: np.full(2, value) for name, value in limits.items()}
    assert played_ratios(motion, 0, bounds).max() <= 1 + 1e-6
    count, late = int(motion.count[0]), float(motion.duration[0]) - 6.0
    assert 0 < late < 0.1
    assert torch.equal(motion.position[0, :100], plan[0, :100])
    assert torch.equal(motion.position[0, count - 100 : count], plan[0, -100:])
    assert torch.allclose(motion.row_times[0, -100:], t[-100:, 0] + late, atol=1e-12)
    assert torch.allclose(motion.states(motion.row_times)[0], plan, atol=1e-6)
    jumps = motion.states(motion.times[:, 1:] - 1e-9)[1] - motion.velocity[:, 1:]
    assert jumps[:, : count - 1].abs().max() < 1e-6, "one motion"


@pytest.mark.parametrize("order", [2, 3])
def test_problems_of_others_are_solved(order: int) -> None:
    for problem in known_problems():
        solved = solve(replace(problem, order=order))
        assert not solved.failure, problem
        assert solved.ratio.max() >= 0.99, "limits are used"


@pytest.mark.parametrize("family", FAMILIES)
def test_random_problems_are_solved(family: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(2):
        problem = random_problem(family, rng)
        assert not solve(replace(problem, waypoints=problem.waypoints[:200])).failure


@pytest.mark.parametrize("blending", [False, True])
def test_what_a_controller_executes_keeps_the_limits(blending: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(4):
        motion, limits = random_motion(rng)
        assert motion.ok.all(), motion.reason(0)
        assert 0.98 < executed_ratios(motion, limits, blending=blending).max() <= MOST


@settings(max_examples=40)
@given(order=st.integers(2, 3), rows=st.integers(2, 8), seed=st.integers(0, 2**20))
def test_ratios_are_the_extremes_and_no_excess_is_accepted(order: int, rows: int, seed: int) -> None:
    """Plans of any states: with limits beyond their extremes they are kept, with smaller ones they are not."""
    rng = np.random.default_rng(seed)
    dt = rng.uniform(0.01, 0.3, rows - 1)
    states = [rng.normal(size=(rows, 3)) * 10.0 ** rng.uniform(-2, 2) for _ in range(order)]
    values = np.abs(played(np.append(0, np.cumsum(dt)), states)).max(axis=0)
    names = ("velocity", "acceleration", "deceleration", "jerk")[: 3 + (order == 3)]
    most = values[[1, 2, 2, 3]]
    position, *derivatives = (torch.tensor(state)[None] for state in states)
    plan = dict(zip(("velocity", "acceleration"), derivatives, strict=False))
    for factor in (1.5, 0.99):
        limits = {name: factor * of for name, of in zip(names, most, strict=False)}
        motion = retime(position, as_limits(limits), order=order, mode="slow only", dt=torch.tensor(dt), **plan)
        assert bool(motion.unchanged[0]) == (factor > 1)
        if factor > 1:
            expected = [1 / factor] * order + [0.0] * (3 - order)
            assert np.allclose(motion.ratio[0].numpy(), expected, rtol=1e-5)
            assert (motion.ratio[0].numpy() >= np.array(expected) * (1 - 1e-9)).all()


# Exact extremes of a controller's interpolation between points


@settings(max_examples=100)
@given(orders=st.integers(1, 3), seed=st.integers(0, 2**20))
def test_certified_extremes_are_those_of_dense_samples(orders: int, seed: int) -> None:
    """Positions, velocities and accelerations differ by up to six decades; a second trajectory has fewer points."""
    rng = np.random.default_rng(seed)
    rows, dof, samples = 5, 2, 4001
    times = np.cumsum(10 ** rng.uniform(-2, 0, (2, rows)), axis=1)
    states = [rng.normal(size=(2, rows, dof)) * 10 ** rng.uniform(-3, 3) for _ in range(orders)]
    counts = np.array([rows, 3])
    told = certify(*(torch.tensor(each) for each in (times, *states)), counts=torch.tensor(counts))
    for b, joint in np.ndindex(2, dof):
        ends = np.stack([state[b, : counts[b], joint] for state in states], -1)
        pieces = [BPoly.from_derivatives(times[b, i : i + 2], ends[i : i + 2]) for i in range(counts[b] - 1)]
        for order in range(4):
            played_by = [piece.derivative(order) if order else piece for piece in pieces]
            values = np.concatenate([piece(np.linspace(*piece.x, samples)) for piece in played_by])
            curves = [
                piece.derivative(2)(np.linspace(*piece.x, samples)) * np.diff(piece.x) ** 2 for piece in played_by
            ]
            slack = 1e-9 * np.abs(values).max() + 1e-12, np.abs(curves).max() / (samples - 1) ** 2
            least, most = (float(each[b, order, joint]) for each in (told.lowest, told.highest))
            assert -slack[0] <= values.min() - least <= sum(slack) and -slack[0] <= most - values.max() <= sum(slack)


def test_certified_ratios_are_relative_to_the_limits_of_each_direction() -> None:
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    position, velocity = torch.tensor([[0.0], [0.5]]), torch.tensor([[0.0], [1.0]])  # p = t^2 / 2: acceleration 1
    limits = MotionLimits(velocity=2.0, acceleration=4.0, deceleration=0.5, jerk=1.0)
    ratio = certify(times, position, velocity).ratios(limits)
    assert torch.allclose(ratio[0, :, 0], torch.tensor([0.5, 0.25, 0.0], dtype=torch.float64), atol=1e-9)
    assert certify(times, -position, -velocity).ratios(limits)[0, 1, 0] == pytest.approx(2.0)

"""The way to a plan is the least squares within bounds, as a dense solver has it, from whatever state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, nnls

from traj_integrator_ros.execution import native

KINDS = 4
PRIORITIES = np.array([1.0, 1.0, 1e2, 1e4])
"""What an excess costs, of a position, a velocity, an acceleration and a jerk."""


class Way(NamedTuple):
    """What `track` finds: states `[M + 1, 3, D]` at knots, jerks `[M, D]`, and iterations `[D]`, 0 without a bound."""

    states: np.ndarray
    jerks: np.ndarray
    iterations: np.ndarray


class Problem(NamedTuple):
    """Arguments of `track`."""

    steps: np.ndarray
    weights: np.ndarray
    start: np.ndarray
    low: np.ndarray
    high: np.ndarray
    time_scale: float

    @property
    def units(self) -> np.ndarray:
        return self.time_scale ** np.arange(KINDS)


def track(
    steps: np.ndarray, weights: np.ndarray, start: np.ndarray, low: np.ndarray, high: np.ndarray, time_scale: float
) -> Way:
    """Of `src/tracking.cpp`."""
    count, dof = len(steps), start.shape[1]
    way = Way(np.empty((count + 1, 3, dof)), np.empty((count, dof)), np.empty(dof, np.int64))
    for joint in range(dof):
        own = (np.array(part[..., joint], np.float64, order="C") for part in (weights, start, low, high))
        of_weights, of_start, *sides = own
        states, jerks = np.empty((count + 1, 3)), np.empty(count)
        given = np.array(steps, np.float64), of_weights, float(time_scale), of_start, *sides
        way.iterations[joint] = native.track(*given, states, jerks)
        way.states[:, :, joint], way.jerks[:, joint] = states, jerks
    return way


def problem_of(seed: int, count: int, dof: int, tightness: float, terminal: float = 0.0) -> Problem:
    """A random start and random bounds, which the tightness brings near to it."""
    rng = np.random.default_rng(seed)
    tau, size = 10 ** rng.uniform(-2, 0.5), 10 ** rng.uniform(-9, 3)
    units = (tau ** np.arange(KINDS))[:, None]
    steps = tau * 10 ** rng.uniform(-0.8, -0.2) * (np.ones(count) if seed % 2 else 10 ** rng.uniform(-0.5, 0.5, count))
    weights = np.append((steps[1:] + steps[:-1]) / 2, steps[-1] / 2)[:, None] * ([1.0, 3.0, 3.0] * units[:3, 0] ** 2)
    weights[-1] += terminal * tau * units[:3, 0] ** 2
    weights = np.repeat(weights[:, :, None], dof, axis=2)
    start = size * rng.normal(size=(3, dof)) / units[:3]
    shape = KINDS, count, dof
    bounds = 10 ** rng.uniform(-0.5, 1, (2, KINDS, 1, dof)) * rng.uniform(1, 1.3, (2, *shape)) / tightness
    low, high = size / units[:, :, None] * bounds * [[[[-1.0]]], [[[1.0]]]]
    low[:, :, rng.random(dof) < 0.2], high[0, : count // 2] = -np.inf, np.inf
    return Problem(steps, weights, start, low, high, tau)


def weights_of(steps: np.ndarray, dof: int, of_velocity: float = 0.01, of_acceleration: float = 1e-4) -> np.ndarray:
    """The same weights of all joints `[M, 3, dof]`."""
    return np.multiply.outer(steps, np.repeat([[1.0], [of_velocity], [of_acceleration]], dof, axis=1))


class Dense(NamedTuple):
    """One joint as a quadratic program of its jerks, dimensionless: least cost where `sides @ jerks <= bounds`."""

    hessian: np.ndarray
    linear: np.ndarray
    constant: float
    sides: np.ndarray
    bounds: np.ndarray
    priorities: np.ndarray
    unit: float

    @classmethod
    def of(cls, problem: Problem, joint: int) -> Dense:
        steps, units = problem.steps / problem.time_scale, problem.units
        bounds = np.concatenate([-problem.low[:, :, joint], problem.high[:, :, joint]]) * np.tile(units, 2)[:, None]
        state = problem.start[:, joint] * units[:3]
        size = max(np.abs(state).max(), np.where(np.isfinite(bounds), -bounds, 0.0).max(), 1e-300)
        state, by_jerk = state / size, np.zeros((3, len(steps)))
        values, matrix = np.zeros((KINDS, len(steps))), np.zeros((KINDS, len(steps), len(steps)))
        for k, h in enumerate(steps):
            within = np.array([[1, h, h**2 / 2], [0, 1, h], [0, 0, 1]])
            state, by_jerk = within @ state, within @ by_jerk
            by_jerk[:, k] += [h**3 / 6, h**2 / 2, h]
            values[:3, k], matrix[:3, k], matrix[3, k, k] = state, by_jerk, 1.0
        weights = problem.weights[:, :, joint].T / units[:3, None] ** 2 / problem.time_scale
        weights = np.vstack([weights, steps])
        sides = np.concatenate([-matrix, matrix])
        right = bounds / size - np.concatenate([-values, values])
        there = np.isfinite(bounds)
        return cls(
            np.einsum("ckm,ck,ckn->mn", matrix, weights, matrix),
            np.einsum("ckm,ck,ck->m", matrix, weights, values),
            float((weights * values**2).sum() / 2),
            sides[there],
            right[there],
            np.broadcast_to(np.tile(PRIORITIES, 2)[:, None], there.shape)[there],
            size / units[3],
        )

    def cost(self, jerks: np.ndarray) -> float:
        return float(jerks @ self.hessian @ jerks / 2 + self.linear @ jerks + self.constant)

    def excess(self, jerks: np.ndarray) -> float:
        return float(self.priorities @ np.maximum(self.sides @ jerks - self.bounds, 0.0))

    def least_excess(self) -> float:
        count, jerks = self.sides.shape
        costs = np.concatenate([np.zeros(jerks), self.priorities])
        between = [(None, None)] * jerks + [(0.0, None)] * count
        found = linprog(costs, np.hstack([self.sides, -np.eye(count)]), self.bounds, bounds=between, method="highs")
        assert found.status == 0
        return found.fun

    def best(self) -> np.ndarray:
        """The least squares where bounds can be kept: least distance programming (Lawson and Hanson, chapter 23)."""
        root = np.linalg.cholesky(self.hessian).T
        free = -np.linalg.solve(self.hessian, self.linear)
        sides, bounds = -self.sides @ np.linalg.inv(root), self.sides @ free - self.bounds
        scales = np.linalg.norm(sides, axis=1)
        dual = np.vstack([sides.T, bounds]) / scales
        target = np.append(np.zeros(len(free)), 1.0)
        residual = dual @ nnls(dual, target, maxiter=30 * len(scales))[0] - target
        return free - np.linalg.solve(root, residual[:-1] / residual[-1])


SEEDS = st.integers(0, 2**20)


@settings(max_examples=40)
@given(seed=SEEDS, count=st.integers(1, 30), tightness=st.floats(0.3, 3.0), terminal=st.sampled_from([0.0, 10.0]))
def test_within_bounds_it_is_the_least_squares(seed, count, tightness, terminal):
    problem = problem_of(seed, count, 1, tightness, terminal)
    dense = Dense.of(problem, 0)
    way = track(*problem)
    jerks = way.jerks[:, 0] / dense.unit
    least = dense.least_excess()
    assert dense.excess(jerks) <= least * (1 + 1e-6) + 1e-6 * max(np.abs(jerks).max(), 1.0)
    if least < 1e-9:
        best = dense.best()
        assert dense.cost(jerks) == pytest.approx(dense.cost(best), rel=1e-6)
        assert np.abs(jerks - best).max() <= 1e-3 * max(np.abs(best).max(), 1.0)


@given(seed=SEEDS, count=st.integers(1, 60))
def test_without_active_bounds_it_takes_no_iteration(seed, count):
    problem = problem_of(seed, count, 3, 1e-6)
    way = track(*problem)
    assert not way.iterations.any()
    for joint in range(3):
        dense = Dense.of(problem, joint)
        free = -np.linalg.solve(dense.hessian, dense.linear)
        assert np.allclose(way.jerks[:, joint] / dense.unit, free, rtol=1e-6, atol=1e-6 * np.abs(free).max())


@given(seed=SEEDS, count=st.integers(1, 40), tightness=st.floats(0.1, 30.0))
def test_states_follow_from_start_and_jerks(seed, count, tightness):
    problem = problem_of(seed, count, 2, tightness)
    way = track(*problem)
    assert np.array_equal(way.states[0], problem.start)
    h = problem.steps[:, None, None]
    p, v, a = np.moveaxis(way.states[:-1], 1, 0)
    h, jerks = h[:, :, 0], way.jerks
    after = [p + h * v + h**2 / 2 * a + h**3 / 6 * jerks, v + h * a + h**2 / 2 * jerks, a + h * jerks]
    sizes = np.abs(way.states * problem.units[:3, None]).max() / problem.units[:3, None]
    assert (np.abs(np.stack(after, 1) - way.states[1:]) <= 1e-9 * sizes).all()


@given(SEEDS, st.integers(1, 40), st.floats(0.1, 30.0), st.sampled_from([2.0**-30, 2.0**10]))
def test_units_of_joints_change_nothing_else(seed, count, tightness, factor):
    problem = problem_of(seed, count, 1, tightness)
    way = track(*problem)
    other = track(*problem._replace(start=problem.start * factor, low=problem.low * factor, high=problem.high * factor))
    assert np.array_equal(other.states, way.states * factor)


@settings(max_examples=100)
@given(
    seed=SEEDS,
    count=st.integers(1, 120),
    exponents=st.tuples(*[st.floats(-9, 3)] * 5),
    time=st.floats(-4, 0),
    crossed=st.booleans(),
)
@example(seed=0, count=1, exponents=(3.0, -9.0, -9.0, -9.0, -9.0), time=0.0, crossed=True)
def test_each_finite_problem_has_a_finite_result(seed, count, exponents, time, crossed):
    rng = np.random.default_rng(seed)
    size, *bounds = 10.0 ** np.array(exponents)
    steps = np.clip(10**time * 10 ** rng.uniform(-0.5, 0.5, count), 1e-4, 1.0)
    high = np.array(bounds)[:, None, None] * rng.uniform(0.5, 2, (KINDS, count, 2))
    low = high * (1.1 if crossed else -1.0)
    high[rng.random(high.shape) < 0.1] = np.inf
    start = size * rng.normal(size=(3, 2)) * 10 ** rng.uniform(-3, 3, (3, 2))
    way = track(steps, weights_of(steps, 2), start, low, high, 1e-8 ** (1 / 6))
    assert all(np.isfinite(part).all() for part in way)
    assert (way.iterations <= 60).all()


def test_a_joint_on_its_plan_stays_there_to_the_last_bit():
    steps, bound = np.full(20, 0.02), np.ones((KINDS, 20, 2))
    start = np.array([[0.0, 0.1], [0.0, 0.0], [0.0, 0.0]])
    way = track(steps, weights_of(steps, 2), start, -bound, bound, 1e-7 ** (1 / 6))
    assert not way.states[:, :, 0].any() and way.states[1:, :, 1].any()


def test_a_start_beyond_its_bounds_comes_back_as_fast_as_they_let_it():
    steps = np.full(100, 0.02)
    low, high = np.full((KINDS, 100, 1), -np.inf), np.full((KINDS, 100, 1), np.inf)
    low[1:], high[1:] = [[[-1.0]], [[-2.0]], [[-50.0]]], [[[1.0]], [[2.0]], [[50.0]]]
    weights = weights_of(steps, 1, 0.012, 4.9e-5)
    way = track(steps, weights, np.array([[0.0], [3.0], [0.0]]), low, high, 6.6e-8 ** (1 / 6))
    velocity = way.states[:, 1, 0]
    fastest = 3.0 - 2.0 * (np.arange(101) * 0.02 - 0.02)  # the acceleration is there after 40 ms
    assert np.abs(velocity - fastest)[2:50].max() < 1e-5

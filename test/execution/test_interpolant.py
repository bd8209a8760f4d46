"""What rows mean: through them without noise, near them with it, as dense least squares have it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from traj_integrator_ros.execution.interpolant import MOST_MOVED, fit
from traj_integrator_ros.execution.motion import Motion

SEEDS = st.integers(0, 2**20)


def steps_of(seed: int, count: int) -> np.ndarray:
    """Equal and unequal steps."""
    rng = np.random.default_rng(seed)
    return np.full(count - 1, 0.02) if seed % 2 else 10 ** rng.uniform(-2.3, -1, count - 1)


def times_of(steps: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(steps)])


def smooth(seed: int, times: np.ndarray, dof: int = 3) -> np.ndarray:
    """A smooth motion `[N, dof]`."""
    rng = np.random.default_rng(seed)
    rates, phases, sizes = rng.uniform([0.6, 0, 0.05], [2.5, 6.3, 0.25], (4, dof, 3)).transpose(2, 0, 1)
    return (sizes * np.sin(rates * times[:, None, None] + phases)).sum(axis=1)


def at_rows(motion: Motion, times: np.ndarray) -> np.ndarray:
    """Positions at rows, the last from the last piece."""
    return np.vstack([motion.states_at(times[:-1], 1)[0], motion.end.position])


def accelerations_beside(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Positions, velocities and accelerations at the inner knots, from both sides `[3, N - 1, D]`."""
    c, h = motion.coefficients, motion.steps[:-1, None]
    a = 2 * c[:-1, 2] + 6 * c[:-1, 3] * h
    v = c[:-1, 1] + h * (2 * c[:-1, 2] + 3 * c[:-1, 3] * h)
    p = c[:-1, 0] + h * (c[:-1, 1] + h * (c[:-1, 2] + c[:-1, 3] * h))
    return np.stack([p, v, a]), np.stack([c[1:, 0], c[1:, 1], 2 * c[1:, 2]])


@given(seed=SEEDS, count=st.integers(2, 60), rests=st.booleans())
@example(seed=1, count=2, rests=False)
@example(seed=0, count=2, rests=True)
@example(seed=0, count=3, rests=True)
def test_smooth_rows_are_kept_to_rounding(seed, count, rests):
    steps = steps_of(seed, count)
    times = times_of(steps)
    rows = smooth(seed, times)
    motion, estimated = fit(steps, rows, rests)
    assert not estimated.any()
    assert np.abs(at_rows(motion, times) - rows).max() < 1e-14
    for before, after in zip(*accelerations_beside(motion), strict=True):
        assert np.abs(before - after).max(initial=0.0) <= 1e-8 * max(np.abs(after).max(initial=0.0), 1e-3)


@given(seed=SEEDS, count=st.integers(2, 60))
def test_a_motion_that_rests_ends_without_velocity_and_acceleration(seed, count):
    steps = steps_of(seed, count)
    rows = smooth(seed, times_of(steps)) + 1e-3 * np.random.default_rng(seed).normal(size=(count, 3))
    end = fit(steps, rows, True)[0].end
    assert np.array_equal(end.position, rows[-1]) or np.abs(end.position - rows[-1]).max() < 1e-14
    assert not end.velocity.any() and np.abs(end.acceleration).max() < 1e-9


def dense_jerks(steps: np.ndarray, rows: np.ndarray, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows and jerks of the least `sum of (f - row)^2 + ratio * integral of jerk^2`, by dense least squares."""
    count, columns = len(rows), []
    for unit in np.eye(count + 2):
        state, jerks, positions = unit[:3].copy(), unit[3:], [unit[0]]
        for h, jerk in zip(steps, jerks, strict=True):
            p, v, a = state
            state = np.array([p + h * v + h**2 / 2 * a + h**3 / 6 * jerk, v + h * a + h**2 / 2 * jerk, a + h * jerk])
            positions.append(state[0])
        columns.append(positions)
    positions = np.array(columns).T
    weights = np.sqrt(ratio * steps)[:, None] * np.eye(count + 2)[3:]
    found = np.linalg.lstsq(np.vstack([positions, weights]), np.append(rows, np.zeros(count - 1)), rcond=None)[0]
    return positions @ found, found[3:]


@settings(max_examples=40)
@given(seed=SEEDS, count=st.integers(12, 40))
def test_noisy_rows_give_the_penalized_least_squares(seed, count):
    steps = steps_of(seed, count)
    noisy = smooth(seed, times_of(steps), 1) + 1e-3 * np.random.default_rng(seed + 1).normal(size=(count, 1))
    motion, _ = fit(steps, noisy, most_moved=np.inf)
    jerks, rows = 6 * motion.coefficients[:, 3, 0], at_rows(motion, times_of(steps))[:, 0]
    moved = rows - noisy[:, 0]
    if np.abs(moved).max() < 1e-9:
        return
    # The ratio of weights for which it is the optimum follows from how jerks balance the distances of rows.
    response = np.maximum(times_of(steps)[:, None] - times_of(steps)[None, :-1], 0.0) ** 3 / 6
    response -= np.maximum(times_of(steps)[:, None] - times_of(steps)[None, 1:], 0.0) ** 3 / 6
    pulls = response.T @ moved
    ratio = -(pulls @ (steps * jerks)) / ((steps * jerks) @ (steps * jerks))
    best_rows, best_jerks = dense_jerks(steps, noisy[:, 0], ratio)
    assert np.abs(best_rows - rows).max() < 1e-6 * np.abs(moved).max() + 1e-9
    assert np.abs(best_jerks - jerks).max() < 1e-4 * np.abs(jerks).max()


@given(seed=SEEDS, noise=st.floats(1e-5, 3e-3), scale=st.sampled_from([2.0**-20, 1.0, 2.0**10]))
def test_noise_is_found_within_a_factor(seed, noise, scale):
    times = np.arange(50) * 0.02
    rows = scale * (smooth(seed, times) + noise * np.random.default_rng(seed + 1).normal(size=(50, 3)))
    _, estimated = fit(np.full(49, 0.02), rows, most_moved=MOST_MOVED * scale)
    assert (estimated > 0.5 * scale * noise).all() and (estimated < 1.6 * scale * noise).all()


@given(seed=SEEDS, size=st.floats(0.0, 0.2), noise=st.floats(0.0, 5e-3), rests=st.booleans())
def test_rows_move_by_a_bounded_distance(seed, size, noise, rests):
    rng = np.random.default_rng(seed)
    times = np.arange(40) * 0.02
    rows = smooth(seed, times) + noise * rng.normal(size=(40, 3)) + size * (times > 0.4)[:, None]
    most = np.array([1e-3, 5e-3, 0.0])
    motion, estimated = fit(np.full(39, 0.02), rows, rests, most_moved=most)
    moved = np.abs(at_rows(motion, times) - rows).max(axis=0)
    assert (moved <= np.maximum(4.5 * estimated, most) * (1 + 1e-9) + 1e-14).all()


@pytest.mark.parametrize("rests", [False, True])
def test_rows_that_stay_are_kept_to_the_last_bit(rests):
    motion, _ = fit(np.full(29, 0.03), np.full((30, 2), 0.7), rests)
    assert (motion.coefficients[:, 0] == 0.7).all() and not motion.moves


@settings(max_examples=80)
@given(
    seed=SEEDS,
    step=st.sampled_from([0.01, 0.02, 1 / 30, 0.05]),
    ramp=st.floats(1.5, 12.0),
    cruise=st.floats(0.0, 40.0),
    rests=st.booleans(),
)
def test_corners_of_profiles_are_no_noise(seed, step, ramp, cruise, rests):
    rng = np.random.default_rng(seed)
    rise, whole = ramp * step, (2 * ramp + cruise) * step
    times = np.arange(int(whole / step + 1e-9) + 1) * step + rng.uniform(0, whole % step)
    since, left = np.minimum(times, rise), np.minimum(whole - times, rise)
    speed = rng.uniform(0.1, 3.0)
    rows = speed * (np.clip(times, rise, whole - rise) - rise + since**2 / (2 * rise) - left**2 / (2 * rise) + rise / 2)
    motion, estimated = fit(np.full(len(times) - 1, step), rows[:, None], rests)
    assert estimated == 0.0
    assert np.array_equal(motion.coefficients[: len(times) - 3, 0, 0], rows[: len(times) - 3])


def test_a_noisy_joint_leaves_an_exact_one_alone():
    times = np.arange(50) * 0.02
    rows = smooth(3, times, 2)
    rows[:, 0] += 1e-3 * np.random.default_rng(1).normal(size=50)
    motion, estimated = fit(np.full(49, 0.02), rows)
    assert estimated[0] > 5e-4 and estimated[1] == 0.0
    alone, _ = fit(np.full(49, 0.02), rows[:, 1:])
    assert np.array_equal(motion.coefficients[:, :, 1:], alone.coefficients)


@pytest.mark.parametrize("velocity", [0.01, 0.05, 0.07, 0.3, 1.0])
@pytest.mark.parametrize("quantum", [1e-4, 5e-4, 1.5e-3])
def test_quantized_rows_are_smoothed(quantum, velocity):
    times = np.arange(50) * 0.02
    meant = velocity * (times + 0.02 * np.sin(2 * times))
    motion, estimated = fit(np.full(49, 0.02), (np.round(meant / quantum) * quantum)[:, None])
    states = motion.states_at(times[:-1], 3)[:, :, 0]
    assert estimated < 0.5 * quantum
    assert np.abs(states[0] - meant[:-1]).max() < 1.2 * quantum
    assert np.sqrt((states[2] ** 2).mean()) < 0.02 + 0.1 * velocity + 50 * quantum


@given(seed=SEEDS, count=st.integers(2, 40), rests=st.booleans())
def test_velocities_lead_from_the_start(seed, count, rests):
    rng = np.random.default_rng(seed)
    steps = 10 ** rng.uniform(-2, -1, count)
    start, velocities = rng.normal(size=3), np.diff(smooth(seed, times_of(steps)), axis=0) / steps[:, None]
    motion, _ = fit(steps, velocities, rests, start=start)
    through = np.vstack([start, start + np.cumsum(velocities * steps[:, None], axis=0)])
    assert np.abs(at_rows(motion, times_of(steps)) - through).max() < 1e-12


@pytest.mark.parametrize("count", [300, 20000])
def test_long_plans_are_like_short_ones(count):
    times = np.arange(count) * 0.005
    rows = smooth(9, times, 1)
    exact, none = fit(np.full(count - 1, 0.005), rows)
    assert not none and np.array_equal(exact.coefficients[:, 0], rows[:-1])
    noisy, some = fit(np.full(count - 1, 0.005), rows + 1e-3 * np.random.default_rng(6).normal(size=rows.shape))
    assert abs(some - 1e-3) < 2e-4
    assert np.sqrt(((at_rows(noisy, times) - rows) ** 2).mean()) < 4e-4


@pytest.mark.parametrize("count", [1, 2, 5])
def test_rows_of_one_time_alone_are_refused(count):
    with pytest.raises(ValueError, match="at least two times, got 1"):
        fit(np.zeros(count - 1), np.zeros((count, 1)))


@settings(max_examples=80)
@given(seed=SEEDS, count=st.integers(2, 40), size=st.floats(-9, 3), rests=st.booleans())
def test_each_finite_plan_has_a_finite_motion(seed, count, size, rests):
    rng = np.random.default_rng(seed)
    steps = 10 ** rng.uniform(-5, 0.5, count - 1) * (rng.random(count - 1) > 0.2) + (np.arange(count - 1) == 0)
    rows = 10**size * np.round(rng.normal(size=(count, 2)), seed % 9)
    motion, estimated = fit(steps, rows, rests)
    assert np.isfinite(motion.coefficients).all() and np.isfinite(estimated).all()

"""Joint limits, without ROS."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traj_integrator_ros.handling.limits import JointLimits, find_violation
from traj_integrator_ros.kernels import Trajectory

NAMES = ("a", "b")
LIMITS = JointLimits(
    joint_names=NAMES,
    position_min=np.array([-1.0, -np.inf]),
    position_max=np.array([2.0, np.inf]),
    velocity=np.array([1.0, 2.0]),
    acceleration=np.array([3.0, 4.0]),
    jerk=np.array([5.0, 6.0]),
)


def still(batch: int = 3, horizon: int = 4) -> Trajectory:
    return Trajectory(*(np.zeros((batch, horizon, 2), np.float32) for _ in range(4)))


@pytest.mark.parametrize(
    ("quantity", "joint", "value", "limit", "more"),
    [
        ("position", 0, 2.5, 2.0, "0.5"),
        ("position", 0, -1.5, -1.0, "0.5"),
        ("velocity", 1, 2.5, 2.0, "25 %"),
        ("velocity", 1, -2.5, -2.0, "25 %"),
        ("acceleration", 0, -3.1, -3.0, "3.33 %"),
        ("jerk", 1, 6.1, 6.0, "1.67 %"),
    ],
)
def test_a_violation_is_found_with_its_joint_row_step_value_and_limit(
    quantity: str, joint: int, value: float, limit: float, more: str
) -> None:
    trajectory = still()
    getattr(trajectory, quantity)[2, 3, joint] = value
    place = f"at step 3 of trajectory 2 ({value:g} of {limit:g})"
    told = f"{quantity} of {NAMES[joint]} exceeds its limit by {more} {place}"
    assert find_violation(trajectory, LIMITS) == told


@pytest.mark.parametrize(
    ("velocity", "acceleration", "told"),
    [
        (0.5, 2.9, ""),
        (0.5, 3.3, "acceleration of a exceeds its limit by 10 % at step 3 of trajectory 2 (3.3 of 3)"),
        (-0.5, -3.3, "acceleration of a exceeds its limit by 10 % at step 3 of trajectory 2 (3.3 of 3)"),
        (0.5, -1.2, "deceleration of a exceeds its limit by 20 % at step 3 of trajectory 2 (1.2 of 1)"),
        (-0.5, 1.2, "deceleration of a exceeds its limit by 20 % at step 3 of trajectory 2 (1.2 of 1)"),
        (0.0, 1.2, ""),
        (0.0, 3.3, "acceleration of a exceeds its limit by 10 % at step 3 of trajectory 2 (3.3 of 3)"),
    ],
)
def test_rows_keep_the_deceleration_where_joints_slow_down(velocity: float, acceleration: float, told: str) -> None:
    limits = replace(LIMITS, deceleration=np.array([1.0, np.inf]))
    trajectory = still()
    trajectory.velocity[2, 3, 0], trajectory.acceleration[2, 3, 0] = velocity, acceleration
    trajectory.velocity[0, 1, 1], trajectory.acceleration[0, 1, 1] = 1.0, -3.9  # none of its own: as acceleration
    assert find_violation(trajectory, limits) == told


def test_the_worst_of_several_violations_is_named() -> None:
    trajectory = still()
    trajectory.position[0, 1, 0], trajectory.velocity[1, 2, 1], trajectory.jerk[2, 3, 1] = 2.1, -2.5, 7.2
    told = find_violation(trajectory, LIMITS)
    assert told.startswith("velocity of b") and "at step 2" in told
    trajectory.jerk[2, 2, 0] = -9.0
    assert find_violation(trajectory, LIMITS).startswith("jerk of a exceeds its limit by")


@pytest.mark.parametrize("start_row", [0, 1])
def test_the_start_state_is_not_judged(start_row: int) -> None:
    trajectory = still()
    trajectory.velocity[:, : start_row + 1] = 9.0
    assert not find_violation(trajectory, LIMITS, start_row)
    trajectory.velocity[0, start_row + 1] = 9.0
    assert f"at step {start_row + 1} of" in find_violation(trajectory, LIMITS, start_row)


def test_values_at_the_limits_and_joints_without_one_pass() -> None:
    trajectory = still()
    trajectory.position[:, 1:] = [2.0, 1e6]
    trajectory.velocity[:, 1:] = [-1.0, 2.0]
    assert not find_violation(trajectory, LIMITS)
    assert not find_violation(trajectory, JointLimits(joint_names=NAMES))


@given(st.integers(0, 2**32 - 1))
def test_it_agrees_with_looking_at_every_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trajectory = Trajectory(*(rng.normal(scale=0.7, size=(2, 3, 2)).astype(np.float32) for _ in range(4)))
    bounds = [(LIMITS.position_min, LIMITS.position_max)]
    bounds += [(-getattr(LIMITS, name), getattr(LIMITS, name)) for name in ("velocity", "acceleration", "jerk")]
    any_beyond = any(
        (part[:, 1:] > high + 1e-3 * np.abs(high)).any() or (part[:, 1:] < low - 1e-3 * np.abs(low)).any()
        for part, (low, high) in zip(trajectory, bounds, strict=True)
    )
    told = find_violation(trajectory, LIMITS)
    assert bool(told) == any_beyond
    if told:
        quantity, joint, step, row, value = re.fullmatch(
            r"(\w+) of (\w).* at step (\d) of trajectory (\d) \((\S+) of .*", told
        ).groups()
        found = getattr(trajectory, quantity)[int(row), int(step), NAMES.index(joint)]
        assert found == pytest.approx(float(value), rel=1e-4)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from([0, 1]), st.sampled_from(["float32", "float64"]))
def test_what_is_surely_kept_has_no_violation(seed: int, batch: int, start_row: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(scale=0.7, size=(4, batch, 3, 2)).astype(dtype)
    assert LIMITS.surely_kept(values, start_row) == (not find_violation(Trajectory(*values), LIMITS, start_row))
    # Around the limits themselves, the quick answer may be no where the slow one is yes, but never the reverse.
    largest = np.stack([LIMITS.position_max, LIMITS.velocity, LIMITS.acceleration, LIMITS.jerk])
    near = largest[:, None, None] * (1 + rng.uniform(0, 2e-5, values.shape)) * rng.choice([-0.1, 1.0], values.shape)
    near = np.nan_to_num(near, posinf=0.0, neginf=0.0).astype(dtype)
    assert not (find_violation(Trajectory(*near), LIMITS, start_row) and LIMITS.surely_kept(near, start_row))


def test_without_limits_all_are_surely_kept() -> None:
    assert JointLimits(joint_names=NAMES).surely_kept(np.full((4, 2, 3, 2), 1e9))
    assert not LIMITS.surely_kept(np.full((4, 2, 3, 2), 1e9))

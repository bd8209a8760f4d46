"""Joint limits, without ROS."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traj_integrator_ros.limits.joint_limits import JointLimits, find_violation

NAMES = ("a", "b")
LIMITS = JointLimits(
    joint_names=NAMES,
    position_min=np.array([-1.0, -np.inf]),
    position_max=np.array([2.0, np.inf]),
    velocity=np.array([1.0, 2.0]),
    acceleration=np.array([3.0, 4.0]),
    jerk=np.array([5.0, 6.0]),
)


QUANTITIES = ("position", "velocity", "acceleration", "jerk")
POSITION, VELOCITY, ACCELERATION, JERK = range(4)


def still() -> np.ndarray:
    """Three trajectories of four rows."""
    return np.zeros((4, 3, 4, 2), np.float32)


PLACE = "at step 3 of trajectory 2"


@pytest.mark.parametrize(
    ("velocity", "acceleration", "told"),
    [
        (0.5, 2.9, ""),
        (0.5, 3.3, f"acceleration of a exceeds its limit by 10 % {PLACE} (3.3 of 3)"),
        (-0.5, -3.3, f"acceleration of a exceeds its limit by 10 % {PLACE} (3.3 of 3)"),
        (0.5, -1.2, f"deceleration of a exceeds its limit by 20 % {PLACE} (1.2 of 1)"),
        (-0.5, 1.2, f"deceleration of a exceeds its limit by 20 % {PLACE} (1.2 of 1)"),
        (0.0, 1.2, ""),
        (0.0, 3.3, f"acceleration of a exceeds its limit by 10 % {PLACE} (3.3 of 3)"),
    ],
)
def test_rows_keep_the_deceleration_where_joints_slow_down(velocity: float, acceleration: float, told: str) -> None:
    limits = replace(LIMITS, deceleration=np.array([1.0, np.inf]))
    trajectory = still()
    trajectory[[VELOCITY, ACCELERATION], 2, 3, 0] = velocity, acceleration
    trajectory[[VELOCITY, ACCELERATION], 0, 1, 1] = 1.0, -3.9  # no limit of deceleration: acceleration's counts
    assert find_violation(trajectory, limits) == told


def test_the_worst_of_several_violations_is_named() -> None:
    trajectory = still()
    trajectory[POSITION, 0, 1, 0], trajectory[VELOCITY, 1, 2, 1], trajectory[JERK, 2, 3, 1] = 2.1, -2.5, 7.2
    assert not find_violation(trajectory, JointLimits(joint_names=NAMES))
    told = find_violation(trajectory, LIMITS)
    assert told.startswith("velocity of b") and "at step 2" in told
    trajectory[JERK, 2, 2, 0] = -9.0
    assert find_violation(trajectory, LIMITS).startswith("jerk of a exceeds its limit by")


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from([0, 1]), st.sampled_from(["float32", "float64"]))
def test_it_agrees_with_looking_at_every_value(seed: int, batch: int, start_row: int, dtype: str) -> None:
    """Any values, and values around the limits themselves."""
    rng = np.random.default_rng(seed)
    largest = np.stack([LIMITS.position_max, LIMITS.velocity, LIMITS.acceleration, LIMITS.jerk])[:, None, None]
    near = largest * (1 + rng.uniform(0, 2e-5, (4, batch, 3, 2))) * rng.choice([-0.1, 1.0], (4, batch, 3, 2))
    bounds = [(LIMITS.position_min, LIMITS.position_max)]
    bounds += [(-getattr(LIMITS, name), getattr(LIMITS, name)) for name in QUANTITIES[1:]]
    for values in (rng.normal(scale=0.7, size=near.shape), np.nan_to_num(near, posinf=0.0, neginf=0.0)):
        trajectory = values.astype(dtype)
        any_beyond = any(
            (part > high + slack * np.abs(high)).any() or (part < low - slack * np.abs(low)).any()
            for part, (low, high), slack in zip(
                trajectory[:, :, start_row + 1 :].astype(float), bounds, (1e-5, 1e-3, 1e-3, 1e-3), strict=True
            )
        )
        told = find_violation(trajectory, LIMITS, start_row)
        assert bool(told) == any_beyond
        if told:
            quantity, joint, step, row, value = re.fullmatch(
                r"(\w+) of (\w).* at step (\d) of trajectory (\d) \((\S+) of .*", told
            ).groups()
            found = trajectory[QUANTITIES.index(quantity), int(row), int(step), NAMES.index(joint)]
            assert found == pytest.approx(float(value), rel=1e-4)

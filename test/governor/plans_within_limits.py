"""Complete plans of tests: limits, random plans, and what a controller makes of them by itself."""

from __future__ import annotations

import numpy as np

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.execution.rows import Points, motion_of_points
from traj_integrator_ros.governor.executable import ExecutableTrajectory

V, A, J, FURTHEST = 2.0, 8.0, 80.0, 3.0
GOAL_RAD = 1e-6
"""How near a plan ends to its goal, and by how much it may pass the outermost of its points."""
PASSED_RAD = 2e-6
"""Distance, rad, by which a plan may pass the extremes of a controller's interpolation of its points."""
SLACK = 1e-3
"""The share up to which a limit counts as kept."""
GIVEN = {
    "complete": ("velocity", "acceleration", "jerk", "position_min", "position_max"),
    "from a URDF": ("velocity", "acceleration", "position_min", "position_max"),
    "velocity only": ("velocity",),
}
SWUNG = {"velocity": 1.1, "acceleration": 2.0, "jerk": 2.2}
"""Ratio to a limit that a controller's polynomials reach between points of a motion within it, for steps of any length.
"""
SWUNG_VELOCITY = 0.13
"""Velocity beyond its limit that they reach, as a multiple of acceleration and step."""
VALUES = {"velocity": V, "acceleration": A, "jerk": J, "position_min": -FURTHEST, "position_max": FURTHEST}
ORDERS = {"velocity": 1, "acceleration": 2, "jerk": 3}


def limits(names: tuple[str, ...], dof: int, **changes: float) -> dict[str, list[float]]:
    values = VALUES | changes
    return {f"limits__{name}": [values[name]] * dof for name in names}


def between(times: np.ndarray, *parts: np.ndarray) -> Motion:
    """The motion that joint_trajectory_controller interpolates between points."""
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

"""A planned motion of a Franka Panda, for a demo without a recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..motions.samples import Nature, Samples

PANDA_JOINTS = tuple(f"panda_joint{i}" for i in range(1, 8))
LIMITS = {
    "position_min": np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973]),
    "position_max": np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973]),
    "velocity": np.array([2.172, 2.172, 2.172, 2.172, 2.607, 2.607, 2.607]),
    "acceleration": np.array([14.98, 7.49, 9.99, 12.48, 14.98, 19.98, 19.98]),
    "jerk": np.array([7490.0, 3745.0, 4995.0, 6240.0, 7490.0, 9990.0, 9990.0]),
}
"""Limits of config/franka.yaml: rad, rad/s, rad/s², rad/s³."""
ACCELERATION_SHARE = 0.25
"""Share of the acceleration limit that the motion uses, as in moveit_resources."""
JERK_LIMIT = 100.0
"""rad/s³ for every joint: a fifth of max_jerk in cuRobo's franka.yml, for a calm motion."""
SPEED = 0.6
"""Share of the velocity limit that the motion uses."""
PERIOD = 0.002
"""Sampling period of the motion [s]."""

START_POSITION = (0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398)
START_VELOCITY = (0.4, -0.2, 0.1, 0.15, -0.2, -0.3, 0.3)
START_ACCELERATION = (0.8, -0.4, 0.2, 0.3, -0.4, -0.5, 0.5)
WAYPOINTS = (
    # position [rad], velocity [rad/s] while passing
    ((0.9, 0.25, 0.35, -1.75, -0.45, 1.9, 1.3), (-0.35, 0.25, -0.1, 0.15, 0.2, 0.2, -0.3)),
    ((-0.5, 0.5, -0.55, -2.1, 0.8, 2.6, -0.1), (-0.3, -0.3, 0.2, -0.2, -0.1, -0.2, 0.2)),
    ((-1.2, -0.5, 0.5, -2.55, -0.9, 1.3, 1.6), (0.35, 0.1, -0.2, 0.25, 0.25, 0.3, -0.3)),
    ((0.7, -0.2, 0.9, -1.55, 1.1, 2.2, 0.3), (0.25, 0.2, -0.3, -0.3, -0.3, -0.2, 0.25)),
    ((0.2, 0.35, -0.7, -2.3, -0.6, 1.1, 1.9), (-0.3, -0.25, 0.15, 0.2, 0.2, 0.25, -0.3)),
    ((-0.9, 0.1, 0.3, -1.8, 0.5, 2.3, 0.6), (0.2, -0.2, -0.1, -0.15, -0.2, -0.2, 0.2)),
    ((0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398), (0.0,) * 7),
)


def limits_of(joint_names: Sequence[str]) -> dict[str, np.ndarray]:
    """The limits of a robot, which is recognized by its joints; empty for an unknown robot."""
    return LIMITS if tuple(joint_names) == PANDA_JOINTS else {}


def planned_motion() -> Samples:
    """A jerk-limited Panda motion through WAYPOINTS, exact, every PERIOD; it starts in motion and ends at rest."""
    from ruckig import InputParameter, Result, Ruckig, Trajectory

    dof = len(PANDA_JOINTS)
    planner, parameters = Ruckig(dof), InputParameter(dof)
    parameters.max_velocity = list(SPEED * LIMITS["velocity"])
    parameters.max_acceleration = list(ACCELERATION_SHARE * LIMITS["acceleration"])
    parameters.max_jerk = [JERK_LIMIT] * dof
    state = (START_POSITION, START_VELOCITY, START_ACCELERATION)
    samples: list[list[list[float]]] = []
    begin = 0.0  # time of a part from which its samples are taken, s
    for position, velocity in WAYPOINTS:
        parameters.current_position, parameters.current_velocity, parameters.current_acceleration = map(list, state)
        parameters.target_position, parameters.target_velocity = list(position), list(velocity)
        parameters.target_acceleration = [0.0] * dof
        part = Trajectory(dof)
        result = planner.calculate(parameters, part)
        if result not in (Result.Working, Result.Finished):
            raise RuntimeError(f"ruckig found no motion to {position}: {result}")
        times = np.arange(begin, part.duration, PERIOD)
        samples += [part.at_time(time)[:3] for time in times]
        begin, state = times[-1] + PERIOD - part.duration, (position, velocity, (0.0,) * dof)
    rows = np.array(samples)
    return Samples(
        PANDA_JOINTS, PERIOD * np.arange(len(rows)), *rows.swapaxes(0, 1), None,
        "planned on the spot with ruckig", "planned, jerk-limited, exact", Nature.EXACT,
    )  # fmt: skip

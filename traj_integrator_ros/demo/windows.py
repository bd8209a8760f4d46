"""Windows of a motion's future, as actions in every control space: what the demo's planner sends. Knows no ROS."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..kernels.types import ControlSpace
from ..motions.samples import QUANTITIES, Samples
from .planned import limits_of

BATCH = 32
"""Number of candidates in a window."""
MAX_HORIZON = 32
"""Largest number of rows of a window."""
DEGREE = 3
"""Degree of the B-splines."""
SEGMENT = 4
"""Number of rows in each segment of a B-spline."""
CANDIDATE_SPREAD = 0.5
"""Standard deviation of the acceleration that candidates add at the end of their window, as a share of the motion's
largest.
"""


def horizon_of(motion: Samples) -> int:
    """Return the number of rows of a window: half of a short motion, in whole segments, but at least DEGREE + 1."""
    return min(MAX_HORIZON, max(DEGREE + 1, len(motion.time) // 2 // SEGMENT) * SEGMENT)


def cut_window(
    space: ControlSpace, motion: Samples, first: int, random: np.random.Generator
) -> tuple[np.ndarray, dict[str, object]]:
    """Return actions `[BATCH, horizon, dof]` from sample `first` on, and the other arguments of `publish`.

    Row 0 is the motion itself, and the others leave it from the same start state, by A s⁴ with s = 0..1.
    """
    horizon, dt = horizon_of(motion), float(motion.time[1])
    span, s = horizon * dt, np.linspace(0, 1, horizon + 1)[:, None]
    reach = CANDIDATE_SPREAD * np.abs(motion.acceleration).max() * span**2 / 12
    amplitude = reach * np.clip(random.standard_normal((BATCH, 1, motion.dof)), -2, 2)
    amplitude[0] = 0
    leaving = s**4, 4 * s**3 / span, 12 * s**2 / span**2
    own = (getattr(motion, name)[first : first + horizon + 1] for name in QUANTITIES[:3])
    states = position, _, acceleration = [rows + amplitude * part for rows, part in zip(own, leaving, strict=True)]

    fields: dict[str, object] = {"dt": dt, "control_space": space, "joint_names": motion.joint_names}
    fields |= {name: rows[0, 0] for name, rows in zip(QUANTITIES, states, strict=False)}
    if space is ControlSpace.POSITION:
        return position[:, 1:], fields
    if space is ControlSpace.BSPLINE:
        # Control points of the spline through the motion, up to terms of fourth order; its ends are states.
        points = position - (SEGMENT * dt) ** 2 / 6 * acceleration
        fields |= {f"goal_{name}": rows[:, -1] for name, rows in zip(QUANTITIES, states, strict=False)}
        fields |= {"degree": DEGREE, "steps": SEGMENT, "goal_index": range(BATCH)}
        return points[:, 2 * SEGMENT : -SEGMENT - 1 : SEGMENT], fields
    # The velocity that reaches the next position in one step; likewise for acceleration and jerk.
    order = (ControlSpace.VELOCITY, ControlSpace.ACCELERATION, ControlSpace.JERK).index(space)
    return np.diff(states[order], axis=1) / dt, fields


def write_node_parameters(recording: Samples, planned: Samples, path: Path) -> None:
    """Write the node's parameter file: the motion's joints, its time step, and shapes to warm up."""
    import yaml

    if limits := {name: values.tolist() for name, values in limits_of(recording.joint_names).items()}:
        limits |= {"action": "retime", "start_deviation": 0.0}  # The robot goes on while a sequence is on its way.
    else:  # The robot jumps when its motion starts again.
        moved, fastest = np.abs(np.diff(recording.position, axis=0)).max(), np.abs(recording.velocity).max()
        assumed = {"assumed_velocity": float(max(1.0, 2 * fastest)), "start_deviation": float(max(0.1, 2 * moved))}
        limits = {"action": "warn", **assumed}
    values = {
        "joint_names": list(recording.joint_names),
        "dt": round(float(planned.time[1]), 9),
        "max_batch": 2 * BATCH,
        "max_horizon": 128,
        "warmup": [f"{BATCH}x{horizon_of(planned)}"],
        "state_timeout": max(5.0, 3 * float(np.diff(recording.time).max())),
        **{f"limits.{name}": value for name, value in limits.items()},
        "supervision.deviation": 0.0,  # The robot plays its recording whatever is sent to it.
        "publish.start_moving": True,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": values}}, sort_keys=False), encoding="utf-8")

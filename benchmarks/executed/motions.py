"""Intended motions: jerk-limited ones, a plan without an end, and recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.interpolate import BPoly, CubicSpline

from soak.streams.plans import Bounds, Way
from traj_integrator_ros.demo.planned import planned_motion
from traj_integrator_ros.demo.recording import RecordingError, load_recording, repeated
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.kernels import ControlSpace

VELOCITY, ACCELERATION, JERK = 2.0, 5.0, 50.0
"""Limits of the jerk-limited motions."""
PLAN_ACCELERATION = 2.0
"""Largest acceleration of the plan after its start-up."""
RAMP_S = 1.5
"""Time in which the plan accelerates, s."""
SHORTEST_STEP = 0.02
"""Shortest step of the chunks that recordings are cut into, s."""
_SUFFIXES = ".csv", ".yml", ".db3"


def jerk_limited(seed: int, dt: float, dof: int = 7) -> np.ndarray:
    """Position, velocity and acceleration `[3, H + 1, dof]` of a time-optimal motion from a moving start to rest."""
    random = np.random.default_rng(seed)
    state = np.stack([random.uniform(-most, most, dof) for most in (1, 1, 3)])
    return rows_of(Way(0.0, state, random.uniform(-2, 2, dof), bounds(dof)), dt, 2)


def bounds(dof: int) -> Bounds:
    """Limits of the jerk-limited motions, the same for all joints."""
    return Bounds(*(np.full(dof, limit) for limit in (VELOCITY, ACCELERATION, JERK)))


def rows_of(way: Way, dt: float, at_rest: int) -> np.ndarray:
    """States `[3, N, dof]` of a motion to rest, the last few of them at rest."""
    times = np.arange(int(np.ceil(way.duration / dt)) + at_rest) * dt
    return way.states(np.minimum(times, way.duration))


def actions_of(states: np.ndarray, space: ControlSpace, dt: float) -> np.ndarray:
    """Return actions that lead from row to row: positions, or mean velocities, accelerations or jerks of the steps."""
    if space is ControlSpace.POSITION:
        return states[0, 1:]
    order = {ControlSpace.VELOCITY: 0, ControlSpace.ACCELERATION: 1, ControlSpace.JERK: 2}[space]
    return np.diff(states[order], axis=0) / dt


def plan(time: np.ndarray | float) -> np.ndarray:
    """Return the positions of two joints in opposite directions: from rest, after RAMP_S at 0.5 to 2.5 rad/s."""
    time = np.asarray(time, np.float64)
    position = _PLAN(np.clip(time, 0, RAMP_S)) + np.where(time > RAMP_S, _going_on(time) - _going_on(RAMP_S), 0.0)
    return np.stack([position, -position], axis=-1)


def plan_state(time: float) -> State:
    """The plan's state at a time, s."""
    if time <= RAMP_S:
        states = [_PLAN(max(time, 0.0), order) for order in range(3)]
    else:
        states = [plan(time)[0], 1.5 + np.sin(2 * time), 2 * np.cos(2 * time)]
    return State(*(np.array([1.0, -1.0]) * state for state in states))


def _going_on(time: np.ndarray | float) -> np.ndarray:
    return 1.5 * np.asarray(time) - np.cos(2 * np.asarray(time)) / 2


def _ramp() -> BPoly:
    """Ramp from rest to the beginning of the plan, without a jump of the jerk."""
    end = np.array([1.5 + np.sin(2 * RAMP_S), 2 * np.cos(2 * RAMP_S), -4 * np.sin(2 * RAMP_S)])
    return BPoly.from_derivatives([0, RAMP_S], [[0, 0, 0], end]).antiderivative()


_PLAN = _ramp()


def recorded(folder: Path | None) -> Iterator[tuple[str, float, np.ndarray]]:
    """Name, step, s, and positions `[N, dof]` on an even grid, of each recording in a folder, or a planned motion."""
    if folder is None:
        motions = [("planned, jerk-limited", planned_motion())]
    else:
        motions = []
        for file in sorted(path for suffix in _SUFFIXES for path in folder.rglob(f"*{suffix}")):
            try:
                motions.append((file.relative_to(folder).as_posix(), load_recording(file)))
            except RecordingError as unreadable:
                print(f"left out: {unreadable}")
    for name, motion in motions:
        time, first = np.unique(motion.time, return_index=True)
        fresh = ~repeated(motion)[first]
        spline = CubicSpline(time[fresh], motion.position[first][fresh])
        step = max(round(float(np.median(np.diff(time))), 3), SHORTEST_STEP)
        times = np.arange(int((time[-1] - time[0]) / step)) * step + time[0]
        yield name, step, spline(times)

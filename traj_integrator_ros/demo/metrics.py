"""The demo's measurements of the trajectories received: velocity errors, start-up spikes, a controller's commands."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..kernels.types import ControlSpace, FiniteDifference, Trajectory
from ..motions.trajectories import FIELDS, PlannedTrajectory, planned_trajectory
from ..tools.checker import motion_between
from .cleaning import velocity_disagreement
from .motion import Motion
from .windows import StartFrom, Window

if TYPE_CHECKING:
    from trajectory_msgs.msg import JointTrajectory

CENTRAL_EXTRA = 4
"""A trajectory by central differences has this many points more than its sequence has actions."""
CENTRAL_GAIN = 4 / 3
"""Five-point second derivatives of positions are at most this many times their second differences."""
BOUND_OVER_CONSISTENCY = 1.2
"""A bound is at least this many times the recording's own inconsistency."""
MAX_DISAGREEMENT = 0.25
"""Largest inconsistency, as a share of its RMS velocity, with which a recording can be used to test integration."""
CYCLE = 0.001
"""Of a controller, s."""


@dataclass(frozen=True)
class Kept:
    """An answered window kept for the figures, with its first candidates."""

    window: Window
    batch: Trajectory


def scheme_of(window: Window, batch: Trajectory) -> FiniteDifference | None:
    """The scheme that a position window was answered with, by its number of points; None for other control spaces."""
    if window.kind.control_space is not ControlSpace.POSITION:
        return None
    is_central = batch.position.shape[1] == window.horizon + CENTRAL_EXTRA
    return FiniteDifference.CENTRAL if is_central else FiniteDifference.BACKWARD


def start_row(window: Window, batch: Trajectory) -> int:
    """The output row that is the start state: 0, for central differences 1 (row 0 is the ghost before it)."""
    return 1 if scheme_of(window, batch) is FiniteDifference.CENTRAL else 0


def velocity_errors(window: Window, batch: Trajectory) -> np.ndarray:
    """Velocity of row 0 minus the motion's own, [points, dof] in rad/s.

    Backward differences and velocity control: against the mean of the velocities at both ends of the step. Central
    differences: against the velocity at the same sample, up to where the held last action comes in. Acceleration and
    jerk: at the same sample; from joint_states as a change since the start, because they start from whatever state
    came last.
    """
    own, got = window.velocity, batch.velocity[0].astype(np.float64)
    if scheme_of(window, batch) is FiniteDifference.CENTRAL:
        # Output h is centred on sample h - 1 and depends on two samples after it; samples after the horizon are held.
        valid = window.horizon - 1
        return got[1 : 1 + valid] - own[:valid]
    points = batch.position.shape[1] - 1
    if window.kind.control_space in (ControlSpace.POSITION, ControlSpace.VELOCITY):
        return got[1:] - (own[:points] + own[1 : points + 1]) / 2
    if window.kind.start_from is StartFrom.JOINT_STATES:
        return (got[1:] - got[0]) - (own[1 : points + 1] - own[0])
    return got[1:] - own[1 : points + 1]


def own_disagreement(window: Window, scheme: FiniteDifference) -> np.ndarray:
    """Slopes of a window's positions minus the motion's own velocity in float64, [points, dof] in rad/s.

    At the points of `velocity_errors`, but for central differences near the ends of the motion, which have no stencil.
    """
    motion, own = window.path.motion, window.path.reference_velocity
    k = window.first + np.arange(window.horizon - 1)
    p = motion.position
    if scheme is FiniteDifference.BACKWARD:
        steps = (motion.time[k + 1] - motion.time[k])[:, None]
        return (p[k + 1] - p[k]) / steps - (own[k] + own[k + 1]) / 2
    k = np.clip(k, 2, motion.samples - 3)
    return (p[k - 2] - 8 * p[k - 1] + 8 * p[k + 1] - p[k + 2]) / (12 * motion.step) - own[k]


def own_start_up_acceleration(window: Window) -> float:
    """Largest |acceleration| [rad/s²] that a window's own numbers have at its first three points, in float64.

    Differences of what was sent, from the start that was sent with it: what a recording's samples are too coarse for,
    and where its velocities disagree with its positions, it shows as well. A start from joint_states has no
    acceleration.
    """
    data = window.data[:, :3].astype(np.float64)
    points = data.shape[1]
    dt = np.broadcast_to(np.asarray(window.dt, np.float64), window.horizon) if window.dt.size == 1 else window.dt
    steps = np.append(dt[1:], dt[-1])[:points, None].astype(np.float64)
    zero = np.zeros((1, data.shape[2]))
    position, velocity, acceleration = (zero, zero, zero) if window.start is None else window.start[:, None]
    space = window.kind.control_space
    if space is ControlSpace.ACCELERATION:
        return float(np.abs(data).max())
    if space is ControlSpace.JERK:
        return float(np.abs(acceleration + np.cumsum(data * steps, axis=1)).max())
    ghost = zero  # backward differences look at a position before the start, which has half of its acceleration
    if space is ControlSpace.POSITION:
        ghost = acceleration / 2
        data = np.diff(data, axis=1, prepend=np.broadcast_to(position, (len(data), *position.shape))) / steps
    rates = np.diff(data, axis=1, prepend=np.broadcast_to(velocity, (len(data), *velocity.shape)))
    accelerations = rates / steps
    accelerations[:, :1] += ghost
    return float(np.abs(accelerations).max())


def start_up_acceleration(window: Window, batch: Trajectory) -> float:
    """Largest |acceleration| [rad/s²] over all rows of a batch at the first three points after its start.

    For central differences the point at the start is included: it is computed from the same ghost points.
    """
    first = 1
    last = 4 + start_row(window, batch)
    return float(np.abs(batch.acceleration[:, first:last]).max())


class Commanded:
    """Takes joint trajectories one by one and keeps the largest values of any joint, with their trajectory."""

    def __init__(self) -> None:
        self.peaks = np.zeros(4)
        """Of position, velocity, acceleration and jerk, sampled as by a controller."""
        self.at_points = np.zeros(3)
        self.liveliest: PlannedTrajectory | None = None

    def add(self, message: JointTrajectory) -> None:
        """Sample the controller's interpolation of a message; a message with a single point moves nothing."""
        trajectory = planned_trajectory(message)
        motion = motion_between(trajectory)
        if motion is None:
            return
        largest = np.abs(motion.states_at(np.arange(0.0, motion.duration, CYCLE))).max(axis=(1, 2))
        if largest[2] > self.peaks[2]:
            self.liveliest = trajectory
        self.peaks = np.maximum(self.peaks, largest)
        for order, field_ in enumerate(FIELDS):
            if (values := trajectory.rows(field_)) is not None:
                self.at_points[order] = max(self.at_points[order], np.abs(values).max())

    def as_json(self) -> dict[str, dict[str, float]]:
        """For the report: largest values at 1 kHz, and at the points."""
        names = ("velocity_rad_s", "acceleration_rad_s2", "jerk_rad_s3")
        return {
            "at_1_khz": dict(zip(names, self.peaks[1:].tolist(), strict=True)),
            "at_points": dict(zip(names, self.at_points[1:].tolist(), strict=False)),
        }


def rms(errors: list[np.ndarray]) -> float | None:
    """Root mean square of errors that came in parts; None for none."""
    return float(np.sqrt(np.mean(np.concatenate([part.ravel() for part in errors]) ** 2))) if errors else None


@dataclass
class Measured:
    """Everything measured so far, by the name of the window's kind."""

    velocity: dict[str, list[np.ndarray]] = field(default_factory=lambda: defaultdict(list))
    """Errors, rad/s."""
    start_up: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    own_start_up: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The start-up accelerations of the windows that were sent."""
    batches: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    disagreement: dict[FiniteDifference, list[np.ndarray]] = field(default_factory=lambda: defaultdict(list))
    """Inconsistency of the motion itself, over the position windows."""
    not_finite: int = 0
    candidates: int = 0
    """Rows of the largest batch."""
    commanded: Commanded = field(default_factory=Commanded)

    def add(self, window: Window, batch: Trajectory) -> None:
        """Measure one answer. Positions count under the scheme that they were answered with."""
        name = window.kind.name
        scheme = scheme_of(window, batch)
        if scheme is not None:
            name = f"position/{scheme.value}"
            self.disagreement[scheme].append(own_disagreement(window, scheme))
        self.batches[name] += 1
        self.candidates = max(self.candidates, len(window.data))
        if not all(np.isfinite(values).all() for values in batch):
            self.not_finite += 1
            return
        self.velocity[name].append(velocity_errors(window, batch))
        self.start_up[name] = max(self.start_up[name], start_up_acceleration(window, batch))
        gain = CENTRAL_GAIN if scheme is FiniteDifference.CENTRAL else 1.0
        self.own_start_up[name] = max(self.own_start_up[name], gain * own_start_up_acceleration(window))


@dataclass(frozen=True)
class VelocityBound:
    """Bound of the RMS velocity error of a scheme [rad/s], and its reason."""

    limit: float
    reason: str


def velocity_bounds(measured: Measured, motion: Motion) -> dict[FiniteDifference, VelocityBound]:
    """The bounds for backward and central differences of position windows of a motion.

    A recording's velocities never are exactly the derivatives of its positions. The bound is that of its kind of
    source, or 1.2 times the disagreement of the positions sent with the recorded velocities where that is more, in
    float64 and over the same windows: any further error of the node is an error of integration.
    """
    bounds = {}
    for scheme in FiniteDifference:
        own = rms(measured.disagreement[scheme]) or 0.0
        bounds[scheme] = VelocityBound(motion.velocity_bound, f"for: {motion.kind}")
        if BOUND_OVER_CONSISTENCY * own > motion.velocity_bound:
            reason = f"{BOUND_OVER_CONSISTENCY} x the recording's own disagreement of {own:.4f} rad/s"
            bounds[scheme] = VelocityBound(BOUND_OVER_CONSISTENCY * own, reason)
    return bounds


def inconsistency(recording: Motion) -> str | None:
    """A sentence where positions and velocities of a recording contradict each other, else None."""
    speed = float(np.sqrt(np.mean(recording.velocity**2)))
    error = velocity_disagreement(recording)
    if error <= MAX_DISAGREEMENT * speed:
        return None
    return (
        f"the recording's velocities ({speed:.3f} rad/s RMS) are {error:.3f} rad/s RMS away from the slopes of its "
        "positions: check units, joint order and stamps"
    )

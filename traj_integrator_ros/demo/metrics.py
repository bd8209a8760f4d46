"""The demo's measurements of the trajectories received: velocity errors, start-up spikes, a controller's commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from ..kernels import AccelerationIntegrator, ControlSpace, FiniteDifference, Trajectory, control_map
from ..motions.trajectories import FIELDS, PlannedTrajectory, planned_trajectory
from ..tools.checker import motion_between
from .cleaning import velocity_disagreement
from .motion import VELOCITY_BOUNDS, Motion
from .windows import Window

if TYPE_CHECKING:
    from trajectory_msgs.msg import JointTrajectory

CENTRAL_EXTRA = 4
"""A trajectory by central differences has this many points more than its sequence has actions."""
BOUND_OVER_CONSISTENCY = 1.2
"""A bound is at least this many times the recording's own inconsistency."""
MAX_DISAGREEMENT = 0.25
"""Largest inconsistency, as a share of its RMS velocity, with which a recording can be used to test integration."""
CYCLE = 0.001
"""Of a controller, s."""


class Kept(NamedTuple):
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
    if window.kind.from_joint_states:
        return (got[1:] - got[0]) - (own[1 : points + 1] - own[0])
    return got[1:] - own[1 : points + 1]


def exact(window: Window, scheme: FiniteDifference | None) -> Trajectory:
    """What the plain torch reference makes of a window in float64, apart from the node's own kernels.

    They show errors of the motion itself: samples that are too coarse, or velocities that contradict positions. A
    start from joint_states is taken to be 0.
    """
    start = np.zeros((3, window.data.shape[2])) if window.start is None else window.start
    states = [torch.from_numpy(row.astype(np.float64))[None] for row in start]
    dt = torch.from_numpy(window.dt.astype(np.float64))
    map_ = control_map(window.kind.control_space, scheme or FiniteDifference.BACKWARD, AccelerationIntegrator.ZOH)
    actions, steps = torch.from_numpy(window.data).double(), dt if len(dt) > 1 else float(dt)
    return Trajectory(*(rows.numpy() for rows in map_.step(actions, *states, dt=steps, backend="reference")))


def start_up_acceleration(window: Window, batch: Trajectory) -> float:
    """Largest |acceleration| [rad/s²] over all rows of a batch at the first three points after its start.

    For central differences the point at the start is included: it is computed from the same ghost points.
    """
    last = 4 + start_row(window, batch)
    return float(np.abs(batch.acceleration[:, 1:last]).max())


class Commanded:
    """Takes joint trajectories one by one and keeps the largest values of any joint, with their trajectory."""

    def __init__(self) -> None:
        self.peaks = np.zeros((4, 1))
        """Of position, velocity, acceleration and jerk of each joint, sampled as by a controller."""
        self.at_points = np.zeros(3)
        self.liveliest: PlannedTrajectory | None = None

    def add(self, message: JointTrajectory) -> None:
        """Sample the controller's interpolation of a message; a message with a single point moves nothing."""
        trajectory = planned_trajectory(message)
        motion = motion_between(trajectory)
        if motion is None:
            return
        largest = np.abs(motion.states_at(np.arange(0.0, motion.duration, CYCLE))).max(axis=1)
        if largest[2].max() > self.peaks[2].max():
            self.liveliest = trajectory
        self.peaks = np.maximum(self.peaks, largest)
        for order, field_ in enumerate(FIELDS):
            if (values := trajectory.rows(field_)) is not None:
                self.at_points[order] = max(self.at_points[order], np.abs(values).max())

    def shares(self, limits: Mapping[str, np.ndarray]) -> dict[str, float]:
        """The largest share of a limit that any joint uses; not of jerk, which held accelerations have as steps."""
        orders = {name: order for order, name in ((1, "velocity"), (2, "acceleration")) if name in limits}
        return {name: float((self.peaks[order] / limits[name]).max()) for name, order in orders.items()}

    def as_json(self) -> dict[str, dict[str, float]]:
        """For the report: largest values at 1 kHz, and at the points."""
        names = ("velocity_rad_s", "acceleration_rad_s2", "jerk_rad_s3")
        return {
            "at_1_khz": dict(zip(names, self.peaks[1:].max(axis=1).tolist(), strict=True)),
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
    own_velocity: dict[str, list[np.ndarray]] = field(default_factory=lambda: defaultdict(list))
    """Those that the windows have if they are integrated exactly; as `own_start_up` is of their accelerations."""
    start_up: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    own_start_up: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    batches: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    not_finite: int = 0
    candidates: int = 0
    """Rows of the largest batch."""
    commanded: Commanded = field(default_factory=Commanded)

    def add(self, window: Window, batch: Trajectory) -> None:
        """Measure one answer. Positions count under the scheme that they were answered with."""
        scheme = scheme_of(window, batch)
        name = window.kind.name + (f"/{scheme.value}" if scheme else "")
        self.batches[name] += 1
        self.candidates = max(self.candidates, len(window.data))
        if not all(np.isfinite(values).all() for values in batch):
            self.not_finite += 1
            return
        own = exact(window, scheme)
        self.velocity[name].append(velocity_errors(window, batch))
        self.own_velocity[name].append(velocity_errors(window, own))
        self.start_up[name] = max(self.start_up[name], start_up_acceleration(window, batch))
        self.own_start_up[name] = max(self.own_start_up[name], start_up_acceleration(window, own))


class VelocityBound(NamedTuple):
    """RMS velocity error of a scheme [rad/s], None if no such window came back; its bound, and the reason for that."""

    error: float | None
    limit: float
    reason: str


def velocity_bounds(measured: Measured, motion: Motion) -> dict[FiniteDifference, VelocityBound]:
    """Errors and bounds for backward and central differences of position windows of a motion.

    A recording's velocities never are exactly the derivatives of its positions. The bound belongs to its kind of
    source, or 1.2 times the error of the same windows, exactly integrated, where that is more: any further error of
    the node is an error of integration.
    """
    bounds = {}
    for scheme in FiniteDifference:
        error, own = (rms(of.get(f"position/{scheme.value}", [])) for of in (measured.velocity, measured.own_velocity))
        limit, reason = VELOCITY_BOUNDS[motion.nature], f"for: {motion.kind}"
        if own and BOUND_OVER_CONSISTENCY * own > limit:
            limit = BOUND_OVER_CONSISTENCY * own
            reason = f"{BOUND_OVER_CONSISTENCY} x the recording's own disagreement of {own:.4f} rad/s"
        bounds[scheme] = VelocityBound(error, limit, reason)
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

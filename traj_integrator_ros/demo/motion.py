"""A joint motion over time, as the demo's player, planner and figures use it. Knows no ROS."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ..execution.points import Points, motion_of_points
from ..motions.samples import Nature, Samples

VELOCITY_BOUNDS = {Nature.MEASURED: 0.02, Nature.SET_POINTS: 0.005, Nature.EXACT: 0.003}
"""RMS [rad/s] that integrated velocities may differ, at least, from those of a source."""
UNIFORM_TOLERANCE = 0.01
"""Steps that differ from their mean by less than this share of it count as uniform."""


@dataclass(frozen=True)
class Motion(Samples):
    """Samples with velocities, without jerk. `repeated` is [N] bool: samples that repeat the one before although the
    robot moved (see cleaning.find_repeated_frames).
    """

    repeated: np.ndarray
    notes: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """N."""
        return len(self.time)

    @property
    def velocity_bound(self) -> float:
        """RMS [rad/s] that an integrated velocity may differ from this source's own one at least."""
        return VELOCITY_BOUNDS[self.nature]

    @property
    def step(self) -> float:
        """Mean step [s]."""
        return self.duration / (self.samples - 1)

    @property
    def is_uniform(self) -> bool:
        """Whether every step is the mean step, within UNIFORM_TOLERANCE."""
        return bool(np.all(np.abs(np.diff(self.time) - self.step) <= UNIFORM_TOLERANCE * self.step))

    def with_note(self, note: str, **changes: object) -> Motion:
        """The motion with some fields changed and one more sentence about it for the report."""
        return dataclasses.replace(self, notes=(*self.notes, note), **changes)  # type: ignore[arg-type]

    def rows(self, index: np.ndarray | slice) -> Motion:
        """The motion at some of its samples, its time starting at 0 again."""
        time = self.time[index]
        return dataclasses.replace(
            self,
            time=time - time[0],
            position=self.position[index],
            velocity=self.velocity[index],
            acceleration=None if self.acceleration is None else self.acceleration[index],
            repeated=self.repeated[index],
        )


def accelerations(motion: Motion) -> np.ndarray:
    """Acceleration [N, D] in rad/s²: the motion's own, or its velocity differentiated (second-order differences)."""
    if motion.acceleration is not None:
        return motion.acceleration
    return np.gradient(motion.velocity, motion.time, axis=0, edge_order=2)


def largest_acceleration(motion: Motion) -> float:
    """Largest |acceleration| of the motion [rad/s²]; without its one-sided differences where it is derived."""
    acceleration = accelerations(motion)
    inner = acceleration if motion.acceleration is not None else acceleration[1:-1]
    return float(np.abs(inner).max())


def cut(motion: Motion, seconds: float) -> Motion:
    """The first `seconds` of the motion, or the motion itself if it is not longer."""
    if motion.duration <= seconds:
        return motion
    stop = int(np.searchsorted(motion.time, seconds, side="right"))
    short = motion.rows(slice(0, stop))
    return short.with_note(f"cut to its first {short.duration:.1f} s of {motion.duration:.1f} s")


def resample(motion: Motion, step: float) -> Motion:
    """The motion on a uniform grid of `step` s, through its positions and velocities (cubic Hermite).

    Velocity and acceleration are the derivatives of the same cubic, so they match the positions exactly.
    """
    count = int(np.floor(motion.duration / step + 1e-9)) + 1
    time = np.arange(count) * step
    time_ns = np.rint(motion.time * 1e9).astype(np.int64)
    between = motion_of_points(Points(time_ns, motion.position, motion.velocity, None))
    position, velocity, acceleration, _ = between.states_at(time)
    if time[-1] >= between.knots[-1]:  # where the cubics are over
        position[-1], velocity[-1], acceleration[-1] = between.end
    fields = {"position": position, "velocity": velocity, "acceleration": acceleration}
    return dataclasses.replace(motion, time=time, repeated=np.zeros(count, dtype=bool), **fields)


def thin_out(motion: Motion, step: float) -> Motion:
    """Every n-th sample of a uniform motion, so that its step comes nearest to `step` s from a finer one."""
    stride = max(1, round(step / motion.step)) if motion.is_uniform else 1
    return motion.rows(slice(None, None, stride))

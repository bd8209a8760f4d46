"""Results of retiming."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .certificate import coefficients, derivative

KINDS = ("velocity", "acceleration", "jerk")


class RetimeStatus(enum.IntEnum):
    """Result for one trajectory; DONE, STILL and WITH_RESTS have a motion within the limits."""

    DONE = 0
    STILL = 1
    """All rows are equal: the result is one point with duration 0."""
    START_TOO_FAST = 2
    """No motion from the start speed keeps the limits; one from `largest_start_speed` does."""
    END_TOO_FAST = 3
    """No motion from the start reaches the speed at the end."""
    NOT_CONVERGED = 4
    EXCEEDS = 5
    """There is a motion, but it exceeds a limit; `ratio` says by how much."""
    NOT_FINITE = 6
    """A row or a time is not finite."""
    TOO_SHORT = 7
    """The wanted duration is shorter than the shortest one, which `duration` gives."""
    TOO_LONG = 8
    """A motion that moves at its start or end cannot take as long as wanted."""
    WITH_RESTS = 9
    """The motion keeps the limits, but has more rests than necessary, or passes parts at a constant rate."""


@dataclass(frozen=True)
class Retimed:
    """Motions of a batch. Everything is float64 (indices int64); missing values are 0, missing joints -1.

    `times`, `position`, `velocity` and `acceleration` are what a controller is to play: quintics between points with
    accelerations (order 3), cubics where `acceleration` is None (order 2). Times are whole nanoseconds.
    """

    status: Tensor
    """Status of each trajectory, a `RetimeStatus`, `[B]`."""
    duration: Tensor
    """Duration of each motion, s, `[B]`; with order 3 it is differentiable."""
    largest_start_speed: Tensor
    """Largest possible speed at the start, along the path and without regard to jerk, `[B]`."""
    count: Tensor
    """Number of points of each trajectory, `[B]`."""
    times: Tensor
    """Times of the points, s, `[B, P]`."""
    position: Tensor
    """Positions at the points, rad, `[B, P, D]`."""
    velocity: Tensor
    acceleration: Tensor | None
    row_times: Tensor
    """When each waypoint is passed, s, `[B, W]`."""
    ratio: Tensor
    """Greatest velocity, acceleration and jerk anywhere, relative to the limits, `[B, 3]`."""
    segment_ratio: Tensor
    """The same between each two waypoints, `[B, W - 1, 3]`."""
    segment_joint: Tensor
    """Joints that reach these ratios, `[B, W - 1, 3]`."""
    unchanged: Tensor
    """Whether a plan (mode "slow only") kept its limits and was returned to the last bit, bool `[B]`."""
    iterations: Tensor
    """Number of Newton steps, and of rounds of tightening, with order 3, `[B, 2]`."""

    @property
    def ok(self) -> Tensor:
        """Which trajectories have a motion within the limits, bool `[B]`."""
        return (self.status <= RetimeStatus.STILL) | (self.status == RetimeStatus.WITH_RESTS)

    def binding(self) -> tuple[Tensor, Tensor]:
        """Return the kind of limit (0 velocity, 1 acceleration, 2 jerk) and the joint that bind, `[B, W - 1]` each."""
        kind = self.segment_ratio.argmax(-1)
        return kind, self.segment_joint.gather(-1, kind[..., None])[..., 0]

    def worst(self, index: int) -> tuple[float, int, int]:
        """Return the greatest ratio of one trajectory, its kind of limit, and the segment in which it is reached."""
        kind = int(self.ratio[index].argmax())
        return float(self.ratio[index, kind]), kind, int(self.segment_ratio[index, :, kind].argmax())

    def points(self, index: int) -> tuple[Tensor, list[Tensor | None]]:
        """Return times `[P]` of one trajectory, and its positions, velocities and accelerations, `[P, D]` or None."""
        count, states = int(self.count[index]), (self.position, self.velocity, self.acceleration)
        return self.times[index, :count], [None if state is None else state[index, :count] for state in states]

    def reason(self, index: int, joint_names: Sequence[str] = ()) -> str:
        """Return why a trajectory has no motion within limits, or a slower one than usual; empty otherwise."""
        status = RetimeStatus(int(self.status[index]))
        if status <= RetimeStatus.STILL:
            return ""
        largest = f"{float(self.largest_start_speed[index]):.6g}"

        def binding(segment: int, kind: int) -> str:
            joint = int(self.segment_joint[index, segment, kind])
            return f"{KINDS[kind]} of {joint_names[joint] if len(joint_names) else f'joint {joint}'}"

        if status == RetimeStatus.EXCEEDS:
            most, kind, segment = self.worst(index)
            return f"{binding(segment, kind)} reaches {most:.6g} of its limit behind waypoint {segment}"
        if status == RetimeStatus.START_TOO_FAST:
            limit = binding(0, int(self.segment_ratio[index, 0].argmax()))
            return f"the start is too fast: the limit of {limit} allows at most {largest} along the path"
        return {
            RetimeStatus.END_TOO_FAST: "the end cannot be reached with the speed that is wanted there",
            RetimeStatus.NOT_CONVERGED: "no motion was found; without regard to jerk, one may begin with at most "
            f"{largest} along the path",
            RetimeStatus.WITH_RESTS: "the fastest motion was not found; this one rests in between, or keeps a rate",
            RetimeStatus.NOT_FINITE: "a waypoint is not finite",
            RetimeStatus.TOO_SHORT: f"the shortest duration is {float(self.duration[index].detach()):.9g} s",
            RetimeStatus.TOO_LONG: "a moving start or end cannot take that long",
        }[status]

    def states(self, times: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return position, velocity and acceleration that a controller commands at times `[T]` or `[B, T]`.

        Each is `[B, T, D]`. Times outside of the motion give the first or the last point, and trajectories without a
        motion give 0.
        """
        batch, points = self.times.shape
        at = torch.as_tensor(times, dtype=torch.float64, device=self.times.device).expand(batch, -1).contiguous()
        used = torch.arange(points, device=at.device) < self.count[:, None]
        knots = torch.where(used, self.times, torch.inf)
        last = (self.count - 2).clamp(min=0)[:, None]
        piece = torch.minimum((torch.searchsorted(knots, at, right=True) - 1).clamp(min=0), last)

        def of(values: Tensor, index: Tensor) -> Tensor:
            return values.gather(1, index[..., None].expand(-1, -1, values.shape[2]))

        after = torch.minimum(piece + 1, (self.count - 1).clamp(min=0)[:, None])
        begin, end = self.times.gather(1, piece), self.times.gather(1, after)
        h = torch.where(end > begin, end - begin, 1.0)[..., None]
        e = ((at - begin).clamp(min=0)[..., None] / h).clamp(max=1)
        given = [values for values in (self.position, self.velocity, self.acceleration) if values is not None]
        pieces = coefficients(h, *([of(values, points) for values in given] for points in (piece, after)))
        position, velocity, acceleration = (derivative(pieces, order, e) / h**order for order in range(3))
        return position, velocity, acceleration

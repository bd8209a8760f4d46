"""Policies that stream chunks: on a course by the clock, from what is measured to a goal, or at constant velocity."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .plans import Bounds, Course, Ramp, Spline, Way, retreat, spline_peaks

POSITION, VELOCITY, JERK = 1, 2, 4
"""Control spaces, as in ActionSequence."""


@dataclass
class Chunk:
    """What a policy sends, and what it means by it."""

    observed_ns: int
    stamp_ns: int
    """0: the first step begins when the node can begin it."""
    space: int
    dt: float
    data: np.ndarray
    """float32 `[H, D]`."""
    position: np.ndarray
    """Meant positions `[H + 1, D]`, the first where the plan begins."""
    peaks: Bounds
    """What the cubic spline through the rows asks for."""
    retreat: np.ndarray
    """How far that spline goes back against the direction of the stream `[D]`."""
    rests: bool
    """Whether the plan ends at rest."""
    arrivals_ns: list[int] = field(default_factory=list)

    @property
    def end_ns(self) -> int:
        """When the plan is over if its first step begins at the stamp."""
        return self.observed_ns + round(len(self.data) * self.dt * 1e9)


@dataclass(frozen=True)
class Form:
    """How a policy writes its chunks.

    Args:
        space: control space.
        dt: s.
        horizon: rows.
        stamped: whether the header has the time at which the first step begins.
        noise: of the rows, rad.

    """

    space: int
    dt: float
    horizon: int
    stamped: bool
    noise: float = 0.0


class Policy:
    """Makes chunks from what is measured; subclasses say along which motion.

    Args:
        form: of the chunks.
        direction: of a forward stream, +-1 `[D]`.
        random: for all that it draws.

    """

    def __init__(self, form: Form, direction: np.ndarray, random: np.random.Generator) -> None:
        self.form, self.direction, self.random = form, direction, random
        self.anchors: list[float] = []
        """When a plan was begun anew from what was measured, s."""

    def chunk(self, now_ns: int, measured: np.ndarray) -> Chunk | None:
        """Return a chunk that begins now, or None.

        Args:
            now_ns: time of the observation.
            measured: position and velocity `[2, D]`.

        """
        now = now_ns * 1e-9
        motion = self.motion(now, measured)
        if motion is None:
            return None
        form = self.form
        times = now + form.dt * np.arange(form.horizon + 1)
        position, velocity, acceleration = motion.states(times)
        rows = position[1:]
        if form.noise:
            rows = rows + self.random.normal(scale=form.noise, size=rows.shape)
        if form.space == POSITION:
            data = rows
        elif form.space == VELOCITY:
            data = np.diff(position, axis=0) / form.dt
        else:
            data = np.diff(acceleration, axis=0) / form.dt
        through = np.concatenate([position[:1], rows])
        ends = velocity[0], velocity[-1]
        peaks, spline = spline_peaks(form.dt, through, *ends), Spline(form.dt, through, *ends)
        if form.space == JERK:  # held jerks keep the accelerations of the rows, not their velocities
            means = (acceleration[1:] + acceleration[:-1]) / 2
            led = velocity[0] + form.dt * np.concatenate([np.zeros_like(means[:1]), means.cumsum(axis=0)])
            peaks = Bounds(*(np.abs(part).max(axis=0) for part in (led, acceleration, data)))
        return Chunk(
            now_ns,
            now_ns if form.stamped else 0,
            form.space,
            form.dt,
            data.astype(np.float32),
            through,
            peaks,
            retreat(self.direction * spline(spline.times())[0]),
            bool(np.abs(velocity[-1]).max() < 1e-9 and np.abs(acceleration[-1]).max() < 1e-9)
            and len(rows) > 1
            and bool((rows[-1] == rows[-2]).all()),
        )

    def motion(self, now: float, measured: np.ndarray) -> Course | Way | Ramp | None:
        """The motion that the policy means at a time, s."""
        raise NotImplementedError


class TimeIndexed(Policy):
    """Follows a course by the clock; begins it anew from where the robot is if the robot does not follow.

    Args:
        form, direction, random: as for Policy.
        course: until something disturbs it.
        anew: makes a course from a time and what is measured then.
        patience: how far the robot may be from the course, rad.
        pauses: intervals in which it says nothing, s; after each it begins anew.

    """

    def __init__(self, form, direction, random, course, anew, patience, pauses) -> None:
        super().__init__(form, direction, random)
        self._course, self._anew, self._patience, self._pauses = course, anew, patience, list(pauses)
        self._begun = course.begin
        self._courses = [course]

    def motion_at(self, times: np.ndarray) -> np.ndarray:
        """Meant positions `[N, D]` at increasing times, of a course that was never begun anew."""
        return self._course.states(times)[0]

    def retreat(self) -> np.ndarray:
        """How far any of the courses goes back against the direction of the stream `[D]`: those from a moving start."""
        most = np.zeros_like(self.direction)
        for course in self._courses:
            way = course.states(np.linspace(course.begin, course.end, 500))[0] * self.direction
            most = np.maximum(most, (np.maximum.accumulate(way, axis=0) - way).max(axis=0))
        return most

    def motion(self, now: float, measured: np.ndarray) -> Course | Ramp | None:
        """The course, which is begun anew after a pause, or where the robot is elsewhere."""
        anew = False
        if self._pauses and now >= self._pauses[0][0]:
            if now < self._pauses[0][1]:
                return None
            self._pauses.pop(0)
            anew = True
        planned = self._course.states(np.array([now]))[0, 0]
        if now - self._begun > 0.7 and np.abs(measured[0] - planned).max() > self._patience:
            anew = True
        if anew:
            self._course = self._anew(now, measured)
            self._courses.append(self._course)
            self._begun = now
            self.anchors.append(now)
        return self._course


class ClosedLoop(Policy):
    """Plans from what is measured to a goal, which changes from time to time.

    Args:
        form, direction, random: as for Policy.
        goals: times from which on goals are followed, s, and the goals `[D]`.
        bounds: of the motion.
        pauses: intervals in which it says nothing, s.

    """

    def __init__(self, form, direction, random, goals, bounds, pauses) -> None:
        super().__init__(form, direction, random)
        self._goals, self._bounds, self._pauses = goals, bounds, pauses

    def motion(self, now: float, measured: np.ndarray) -> Way | None:
        """The way from the measured state to the present goal."""
        if any(begin <= now < end for begin, end in self._pauses):
            return None
        self.anchors = [now]
        goal = [goal for begin, goal in self._goals if begin <= now][-1]
        velocity = np.clip(measured[1], -self._bounds.velocity, self._bounds.velocity)
        return Way(now, np.array([measured[0], velocity, np.zeros_like(velocity)]), goal, self._bounds)


class ConstantVelocity(Policy):
    """Goes on at one velocity from what is measured, until a time, and rests from then on where it is measured."""

    def __init__(self, form, direction, random, velocity, pauses) -> None:
        super().__init__(form, direction, random)
        self._velocity, self._pauses = velocity, pauses

    def motion(self, now: float, measured: np.ndarray) -> Ramp | None:
        """From the measured position on."""
        if any(begin <= now < end for begin, end in self._pauses):
            return None
        self.anchors = [now]
        return Ramp(now, measured[0], self._velocity)

"""Policies that stream chunks of a course by the clock, or of a motion from the measured state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.interpolate import CubicSpline

from rig.judge import way_back

from .plans import Bounds, Course, spline_peaks, spline_through

POSITION = 1
VELOCITY = 2
JERK = 4
"""Control space of jerks, as in ActionSequence."""


@dataclass
class Chunk:
    """A chunk of a policy, and the motion that it means."""

    observed_ns: int
    stamp_ns: int
    """Stamp, ns; with 0 the first step begins as soon as the node can begin it."""
    space: int
    dt: float
    data: np.ndarray
    """Actions, float32 `[H, D]`."""
    position: np.ndarray
    """Meant positions `[H + 1, D]`, the first where the plan begins."""
    peaks: Bounds
    """Peaks of the cubic spline through the rows."""
    spline: CubicSpline
    """The cubic spline through the rows, by the time since the observation, s."""
    rests: bool
    """True if the plan ends at rest."""

    @property
    def end_ns(self) -> int:
        """End of the plan if its first step begins at the stamp."""
        return self.observed_ns + round(len(self.data) * self.dt * 1e9)


@dataclass(frozen=True)
class Form:
    """A policy's form of chunks: control space, time between rows, s, and their number and noise, rad.

    If it is `stamped`, the header has the time at which the first step begins.
    """

    space: int
    dt: float
    horizon: int
    stamped: bool
    noise: float = 0.0


class Motion(Protocol):
    """Motion that a policy means: a course, a way or a ramp."""

    def states(self, times: np.ndarray) -> np.ndarray:
        """Position, velocity and acceleration `[3, N, D]` at increasing times, s."""


class Policy:
    """Makes chunks of a motion: of a course by the clock, or else of a motion from the state measured each time.

    After a pause, or if the robot does not follow, a new course begins where the robot is.

    The `direction` of a forward stream is +-1 `[D]`; `pauses` are intervals in which it sends nothing, s. `anew` makes
    a motion from a time and the state measured then, the `course` is the motion until something disturbs it, and
    `patience` the largest distance of the robot from it, rad.
    """

    def __init__(
        self,
        form: Form,
        direction: np.ndarray,
        random: np.random.Generator,
        pauses: Sequence[tuple[float, float]],
        anew: Callable[[float, np.ndarray], Motion] | None,
        course: Course | None = None,
        patience: float = np.inf,
    ) -> None:
        self.form, self.direction, self.random, self.pauses = form, direction, random, list(pauses)
        self.anchors: list[float] = []
        """Times at which a plan was begun again from the measured state, s."""
        self._anew, self._patience = anew, patience
        self._courses = [] if course is None else [course]
        self._begun = 0.0 if course is None else course.begin

    def chunk(self, now_ns: int, measured: np.ndarray) -> Chunk | None:
        """Return a chunk that begins now, or None in a pause. Measured are position and velocity `[2, D]`."""
        now = now_ns * 1e-9
        if any(begin <= now < end for begin, end in self.pauses):
            return None
        form = self.form
        times = now + form.dt * np.arange(form.horizon + 1)
        position, velocity, acceleration = self._motion(now, measured).states(times)
        rows = position[1:]
        if form.noise:
            rows = rows + self.random.normal(scale=form.noise, size=rows.shape)
        through = np.concatenate([position[:1], rows])
        spline = spline_through(form.dt, through, velocity[0], velocity[-1])
        data, peaks = rows, spline_peaks(spline)
        if form.space == VELOCITY:
            data = np.diff(position, axis=0) / form.dt
        elif form.space == JERK:  # held jerks keep the accelerations of the rows, not their velocities
            data = np.diff(acceleration, axis=0) / form.dt
            means = (acceleration[1:] + acceleration[:-1]) / 2
            led = velocity[0] + form.dt * np.concatenate([np.zeros_like(means[:1]), means.cumsum(axis=0)])
            peaks = Bounds(*(np.abs(part).max(axis=0) for part in (led, acceleration, data)))
        still = np.abs([velocity[-1], acceleration[-1]]).max() < 1e-9
        return Chunk(
            observed_ns=now_ns,
            stamp_ns=now_ns if form.stamped else 0,
            space=form.space,
            dt=form.dt,
            data=data.astype(np.float32),
            position=through,
            peaks=peaks,
            spline=spline,
            rests=bool(still and len(rows) > 1 and (rows[-1] == rows[-2]).all()),
        )

    def motion_at(self, times: np.ndarray) -> np.ndarray:
        """Meant positions `[N, D]` at increasing times, of the present course."""
        return self._courses[-1].states(times)[0]

    def retreat(self) -> np.ndarray:
        """Return the largest distance `[D]` by which any course goes back against the direction of the stream."""
        ways = [course.states(np.linspace(course.begin, course.end, 500))[0] for course in self._courses]
        return np.max([way_back(self.direction * way) for way in ways], axis=0)

    def _motion(self, now: float, measured: np.ndarray) -> Motion:
        if not self._courses:
            self.anchors = [now]
            return self._anew(now, measured)
        is_away = np.abs(measured[0] - self.motion_at(np.array([now]))[0]).max() > self._patience
        was_silent = bool(self.pauses) and now >= self.pauses[0][1]
        if was_silent:
            self.pauses.pop(0)
        if was_silent or (is_away and now - self._begun > 0.7):
            self._courses.append(self._anew(now, measured))
            self._begun = now
            self.anchors.append(now)
        return self._courses[-1]

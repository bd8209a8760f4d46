"""Scenes of one joint, without anything drawn: at rest, along a course, at a velocity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .plans import Bounds, Course, Way
from .policies import POSITION, VELOCITY, ConstantVelocity, Form, TimeIndexed
from .scenes import BEGIN_S, Link, Scene, Sending

FIRST_S = BEGIN_S + 0.3
LIMITS = Bounds(np.array([2.0]), np.array([10.0]), np.array([200.0]))
MEANT = Bounds(np.array([1.0]), np.array([4.0]), np.array([60.0]))


def quiet(end: float, *, complete: bool = True) -> Scene:
    """One joint at rest at 0, a link of 2 to 3 ms, and no policy."""
    form = Form(POSITION, 0.02, 1, stamped=False)
    sending = Sending(10.0, 0.0, (0.001, 0.002), 0.0, 0.0, 0.0, FIRST_S, FIRST_S + end)
    link = Link(0.002, 0.003)
    return Scene(
        seed=0, bounds=LIMITS, position_min=np.array([-5.0]), position_max=np.array([5.0]), complete=complete,
        start=np.zeros(1), lag=0.0, droop=np.zeros(1), noise=0.0, quantization=0.0, disturbances=(), to_controller=link,
        from_joints=link, from_controller=link, joint_rate=500, state_rate=250, state_is_next=False, hard=True,
        from_desired=False, lead_time=0.02, sending=sending, form=form,
        policy=lambda chance: ConstantVelocity(form, np.ones(1), chance, np.zeros(1), [(0.0, np.inf)]),
    )  # fmt: skip


def streaming(
    course: Course, form: Form, *, rate: float, seconds: float, inference: float = 0.005, pause=None
) -> Scene:
    """A policy that follows a course."""
    sending = Sending(rate, 0.0, (inference, inference + 0.001), 0.0, 0.0, 0.0, FIRST_S, FIRST_S + seconds)
    pauses = [pause] if pause else []

    def anew(now: float, measured: np.ndarray) -> Course:
        state = np.array([measured[0], measured[1], np.zeros(1)])
        left = course.states(np.array([1e6]))[0, 0] - course.states(np.array([FIRST_S]))[0, 0]
        return Course([Way(now, state, measured[0] + left, _of_course(course))])

    def policy(chance: np.random.Generator) -> TimeIndexed:
        return TimeIndexed(form, np.ones(1), chance, course, anew, 0.15, pauses)

    return replace(quiet(0.1), sending=sending, form=form, policy=policy)


def along(speed: float, seconds: float, *, form: Form | None = None, pause=None) -> Scene:
    """A policy that goes on at one speed once it has got there; 20 Hz."""
    bounds = replace_speed(speed)
    far = speed * seconds * 1.5
    course = Course([Way(FIRST_S, np.zeros((3, 1)), np.array([far]), bounds)])
    return streaming(course, form or Form(POSITION, 0.02, 40, True), rate=20, seconds=seconds, pause=pause)


def streaming_velocity(
    speed: float, seconds: float, *, horizon: int = 10, rate: float = 50, pauses: int = 0, form: Form | None = None
) -> Scene:
    """Velocities from a teleoperator, all the same; with pauses of 0.3 s in between."""
    form = form or Form(VELOCITY, 0.02, horizon, stamped=False)
    sending = Sending(rate, 0.0, (0.001, 0.002), 0.0, 0.0, 0.0, FIRST_S, FIRST_S + seconds)
    begins = [FIRST_S + k * seconds / pauses for k in range(1, pauses)]
    gaps = [(begin, begin + 0.3) for begin in begins]

    def policy(chance: np.random.Generator) -> ConstantVelocity:
        return ConstantVelocity(form, np.ones(1), chance, np.array([speed]), gaps)

    return replace(quiet(0.1), sending=sending, form=form, policy=policy)


def replace_speed(speed: float) -> Bounds:
    """The bounds of a plan with this speed."""
    return Bounds(np.array([speed]), MEANT.acceleration, MEANT.jerk)


def _of_course(course: Course) -> Bounds:
    fastest = np.abs(course.states(np.linspace(FIRST_S, course.end, 200))[1]).max(axis=0)
    return replace_speed(float(fastest.max()))

"""Scenes of one joint without random draws: at rest, along a course, at a velocity."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from soak.streams.plans import Bounds, Course, Ramp, Way
from soak.streams.policies import POSITION, VELOCITY, Form, Policy
from soak.streams.scenes import BEGIN_S, Scene, Sending

FIRST_S = BEGIN_S + 0.3
LIMITS = Bounds(np.array([2.0]), np.array([10.0]), np.array([200.0]))
MEANT = Bounds(np.array([1.0]), np.array([4.0]), np.array([60.0]))
REST = np.zeros((3, 1))


def quiet(*, complete: bool = True) -> Scene:
    """One joint at rest at 0, a link of 2 to 3 ms, and a silent policy."""
    form = Form(POSITION, 0.02, 1, stamped=False)
    sending = Sending(10.0, 0.0, (0.001, 0.002), 0.0, 0.0, 0.0, FIRST_S, FIRST_S + 0.1)
    return Scene(
        seed=0, bounds=LIMITS, position_min=np.array([-5.0]), position_max=np.array([5.0]), complete=complete,
        start=np.zeros(1), lag=0.0, droop=np.zeros(1), noise=0.0, quantization=0.0, disturbances=(),
        transport=(0.002, 0.003), joint_rate=500, state_rate=250, state_is_next=False,
        from_desired=False, lead_time=0.02, sending=sending, form=form,
        policy=lambda chance: Policy(form, np.ones(1), chance, [(0.0, np.inf)], None),
    )  # fmt: skip


def _sending(rate: float, inference: float, seconds: float) -> Sending:
    return Sending(rate, 0.0, (inference, inference + 0.001), 0.0, 0.0, 0.0, FIRST_S, FIRST_S + seconds)


def way_to(target: float, bounds: Bounds = MEANT) -> Way:
    """A way from rest at 0."""
    return Way(FIRST_S, REST, np.array([target]), bounds)


def streaming(way: Way, form: Form, *, rate: float, seconds: float) -> Scene:
    """A policy that follows a way by the clock."""
    sending, course = _sending(rate, 0.005, seconds), Course([way])
    policy = partial(Policy, pauses=(), anew=None, course=course)
    return replace(quiet(), sending=sending, form=form, policy=lambda chance: policy(form, np.ones(1), chance))


def streaming_velocity(
    speed: float, seconds: float, *, horizon: int = 10, rate: float = 50, pauses: int = 0, form: Form | None = None
) -> Scene:
    """Velocities from a teleoperator, all the same; with pauses of 0.3 s in between."""
    form = form or Form(VELOCITY, 0.02, horizon, stamped=False)
    begins = [FIRST_S + k * seconds / pauses for k in range(1, pauses)]
    gaps = [(begin, begin + 0.3) for begin in begins]

    def anew(now: float, measured: np.ndarray) -> Ramp:
        return Ramp(now, measured[0], np.array([speed]))

    sending = _sending(rate, 0.001, seconds)
    return replace(
        quiet(), sending=sending, form=form, policy=lambda chance: Policy(form, np.ones(1), chance, gaps, anew)
    )

"""Senders of the scenarios: motions that are meant, and policies, ramps and planners that send them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from soak.streams.plans import Bounds

from .. import intentions
from ..intentions import Motion, share_of_way
from .loop import Loop


def bounds_of(loop: Loop, share: float) -> Bounds:
    """Return a share of the limits of an arm."""
    arm = loop.robot.arm
    return Bounds(*(share * np.array(part, float) for part in (arm.velocity, arm.acceleration, arm.jerk)))


def within(loop: Loop, reach: float, margin: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest positions of a range around home, rad."""
    home, low, high = loop.robot.home, np.array(loop.robot.arm.low), np.array(loop.robot.arm.high)
    margin = np.minimum(margin, (high - low) / 4)
    return np.maximum(home - reach, low + margin), np.minimum(home + reach, high - margin)


def course(loop: Loop, seed: int, seconds: float, begin: float, share: float, reach: float = 0.6) -> Motion:
    """Return jerk-limited motions from place to place around home, with pauses."""
    return intentions.course(seed, loop.place, *within(loop, reach), bounds_of(loop, share), begin, seconds, pause=0.2)


def policy(
    loop: Loop, at: Motion, seconds: float, *, hz: float = 10.0, rows: int = 24, dt: float = 0.04,
    noise: float = 0.0005, bias: float | np.ndarray = 0.003, inference: float = 0.08, seed: int = 3,
) -> None:  # fmt: skip
    """Stream chunks that begin at their observation, arrive after an inference, and have errors: a bias and noise."""
    random, due, waiting = np.random.default_rng(seed), loop.now, []
    end = loop.now + seconds
    while loop.now < end:
        if loop.now >= due:
            u = at(due + dt * np.arange(1, rows + 1))[0]
            u = u + random.normal(scale=bias, size=(1, u.shape[1])) + random.normal(scale=noise, size=u.shape)
            waiting.append((due + inference + random.uniform(0, 0.01), due, u))
            due += 1 / hz
        while waiting and waiting[0][0] <= loop.now:
            _, since, u = waiting.pop(0)
            loop.sequence(u, dt, since=since)
        loop.go(0.002)


def warm(loop: Loop) -> None:
    """Move slowly by 2 degrees and back, as people do first."""
    arm, base = loop.robot.arm, loop.place
    x = 0.05 * np.arange(1, 41)
    inward = np.where(loop.robot.start > (np.array(arm.high) + np.array(arm.low)) / 2, -0.03, 0.03)
    loop.sequence(base + (share_of_way(x) - share_of_way(x - 1.0))[:, None] * inward, 0.05)
    loop.go(3.0)


def ramp(
    loop: Loop, joint: int, speed: float, goal: float, *, dt: float = 0.04, rows: int = 24, finger: float | None = None
) -> Callable[[], None]:
    """Return a function that sends rows of a joint, which accelerates within 0.4 s and goes on to a goal.

    With `finger`, m, the last joint goes there at once.
    """
    base, begin = loop.place, loop.now + 0.1

    def send() -> None:
        way = intentions.ramp(loop.now + dt * np.arange(1, rows + 1) - begin, speed, 0.4)
        u = np.repeat(base[None], rows, 0)
        u[:, joint] += np.clip(way, -abs(goal), abs(goal))
        u[:, -1] = u[:, -1] if finger is None else finger
        loop.sequence(u, dt)

    return send


def plan_to(loop: Loop, goal: np.ndarray, seconds: float = 2.0) -> None:
    """Send a plan from the measured state to a goal."""
    here, x = loop.robot.measured()[0], np.linspace(0.0, 1.0, 21)
    loop.plan(seconds * x, here + share_of_way(x)[:, None] * (goal - here))

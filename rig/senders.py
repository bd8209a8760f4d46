"""Senders: motions that are meant, and policies, ramps and planners that send them to a robot, live or simulated.

A robot has `now`, s, `place`, the command, `go`, and `sequence` and `plan`, which send.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from soak.streams.plans import Bounds, Course, Way

Motion = Callable[[np.ndarray], np.ndarray]
"""Position, velocity and acceleration `[3, N, dof]` at increasing times, s."""


def course(
    seed: int, start: np.ndarray, low: object, high: object, bounds: Bounds, begin: float, seconds: float,
    pause: float = 0.2,
) -> Motion:  # fmt: skip
    """Return the fastest motions from place to place between two positions, with pauses of up to `pause`, s."""
    random, place, ways, time = np.random.default_rng(seed), start, [], begin
    while time < begin + seconds:
        there = random.uniform(low, high, len(place))
        ways.append(Way(time, np.stack([place, 0 * place, 0 * place]), there, bounds))
        time, place = ways[-1].end + (random.uniform(0, pause) if pause else 0.0), there
    return Course(ways).states


def way(
    seed: int, bounds: tuple[float, float, float], reach: float, seconds: float, start: object, begin: float,
    pause: float = 0.3,
) -> Motion:  # fmt: skip
    """Return a course within `reach` of 0, and within bounds of velocity, acceleration and jerk of all joints."""
    place = np.asarray(start, float)
    most = Bounds(*(np.full(len(place), bound) for bound in bounds))
    return course(seed, place, -reach, reach, most, begin, seconds, pause)


def share_of_way(x: np.ndarray) -> np.ndarray:
    """Minimum jerk from 0 to 1 while x goes from 0 to 1."""
    x = np.clip(np.asarray(x, float), 0.0, 1.0)
    return x**3 * (10 - 15 * x + 6 * x**2)


def ramp(t: np.ndarray | float, v: float, T: float = 0.5) -> np.ndarray:
    """Return positions of a joint that accelerates smoothly to the velocity v within T."""
    t = np.maximum(np.asarray(t, float), 0)
    s = np.minimum(t / T, 1)
    return v * (T * (s**3 - s**4 / 2) + np.maximum(t - T, 0))


def ramping(
    robot: object, speed: float, *, joint: int | slice = slice(None), goal: float = np.inf, seconds: float = 0.5,
    rows: int = 16, dt: float = 0.05, off: float = 0.0, finger: float | None = None,
) -> Callable[[], None]:  # fmt: skip
    """Return a function that sends rows of joints, which accelerate to a speed, rad/s, and go on to a goal, rad.

    The motion begins in 0.1 s at the present command, plus `off`, rad. With `finger`, m, the last joint goes there.
    """
    base, begin = robot.place + off, robot.now + 0.1

    def send() -> None:
        moved = ramp(robot.now + dt * np.arange(1, rows + 1) - begin, speed, seconds)
        u = np.repeat(base[None], rows, 0)
        u[:, joint] += np.clip(moved, -abs(goal), abs(goal)).reshape(rows, *[1] * isinstance(joint, slice))
        u[:, -1] = u[:, -1] if finger is None else finger
        robot.sequence(u, dt)

    return send


def policy(
    robot: object, at: Motion, seconds: float, *, hz: float = 10.0, rows: int = 24, dt: float = 0.04,
    noise: float | np.ndarray = 0.0005, bias: float | np.ndarray = 0.003, inference: float = 0.08,
    jitter: float = 0.01, seed: int = 3,
) -> int:  # fmt: skip
    """Stream chunks that begin at their observation, arrive after an inference, and have errors: a bias and noise.

    Returns how many were sent.
    """
    random, begin, waiting, count = np.random.default_rng(seed), robot.now, [], 0
    while robot.now < begin + seconds:
        if robot.now >= (due := begin + count / hz):
            u = at(due + dt * np.arange(1, rows + 1))[0]
            u = u + random.normal(scale=bias, size=(1, u.shape[1])) + random.normal(scale=noise, size=u.shape)
            waiting.append((due + inference + random.uniform(0, jitter), due, u))
            count += 1
        while waiting and waiting[0][0] <= robot.now:
            _, since, u = waiting.pop(0)
            robot.sequence(u, dt, since=since)
        robot.go(0.002)
    return count


def plan_to(robot: object, goal: np.ndarray, seconds: float = 2.0) -> None:
    """Send a plan from the measured state to a goal."""
    here, x = robot.robot.measured()[0], np.linspace(0.0, 1.0, 21)
    robot.plan(seconds * x, here + share_of_way(x)[:, None] * (goal - here))

"""Free motion, in which the supervision must notice nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from soak.streams.plans import Bounds, Way

from ..table import Figures
from .drives import Drive
from .loop import Loop
from .motions import bounds_of, course, policy, share_of_way, within


def streamed(loop: Loop, seed: int, *, share: float = 0.4, reach: float = 0.6, seconds: float = 8.0,
             **options: object) -> None:  # fmt: skip
    """A policy streams chunks along a course."""
    at = course(loop, 3 + seed, seconds - 1.5, loop.now + 0.5, share, reach)
    policy(loop, at, seconds, seed=3 + seed, **options)
    loop.go(1.5)


def by_chance(seed: int) -> dict[str, object]:
    """Draw a fast policy and an arm whose drives differ in stiffness and do not know its load; states may be late."""
    random = np.random.default_rng(710 + seed)
    drive = Drive(hz=tuple(random.uniform(4.0, 12.0, 7)), zeta=random.uniform(0.8, 1.1), delay=int(random.integers(9)))
    share, payload, late = random.uniform(0.7, 0.9), random.uniform(0.0, 2.5), random.choice([0.0, 0.02, 0.08])
    warms = bool(random.integers(2))
    return {"drive": drive, "share": share, "payload": payload, "late": late, "warms": warms, "seconds": 6.0}


def retargeted(loop: Loop, seed: int) -> Figures:
    """Goals change during a motion: nearer, further or the same again, once or up to 50 times a second.

    A goal must not be passed if the joints can stop before it.
    """
    random, beyond = np.random.default_rng(6 + seed), 0.0
    low, high = within(loop, 0.6)
    for _ in range(3):
        every, lasts = 1 / random.choice([2.0, 10.0, 50.0]), random.uniform(0.5, 2.0)
        first = random.uniform(low, high)

        def send(goal: np.ndarray = first, lasts: float = lasts) -> None:
            loop.plan(np.array([lasts]), goal[None], end="goal")

        loop.go(random.uniform(0.1, 0.8), every, send)
        here, stands = loop.place, _stands(loop)
        goal = np.clip(stands + np.sign(stands - here) * random.uniform(0.0, 0.4, loop.robot.dof), low, high)
        since = loop.now
        loop.go(random.uniform(0.5, 2.0), every, lambda send=send, goal=goal: send(goal))
        loop.go(3.0)
        stoppable = (goal - stands) * np.sign(stands - here) >= 0
        passed = np.sign(stands - here) * (loop.log(since).command - goal)
        beyond = max(beyond, float(np.where(stoppable, passed, 0.0).max()))
    return {"beyond_mrad": 1e3 * beyond}


def _stands(loop: Loop) -> np.ndarray:
    """Return the positions, rad, at which joints stop that brake 50 ms from now with 0.7 of their limits."""
    position, velocity, acceleration = loop.robot.reference.parts
    _, most, jerk = bounds_of(loop, 0.7)
    speed = np.abs(velocity + acceleration * np.abs(acceleration) / (2 * jerk)) + 0.05 * np.abs(acceleration)
    way = speed * (0.05 + np.abs(acceleration) / jerk) + speed / 2 * (speed / most + most / jerk)
    return position + np.sign(velocity) * way


def teleoperated(loop: Loop, seed: int, *, seconds: float = 8.0, top: float = 0.8) -> None:
    """A joystick sends velocities at 30 Hz, with steps, pauses and reversals."""
    random, begin, home = np.random.default_rng(4 + seed), loop.now, loop.robot.home
    changes, time = [(0.0, np.zeros(loop.robot.dof))], 0.3
    while time < seconds - 1:
        u = np.zeros(loop.robot.dof)
        u[random.integers(0, 6, 2)] = random.choice([-1, 1], 2) * random.uniform(0.2, 1, 2) * top
        changes += [(time, u), (time + random.uniform(0.3, 0.8), -u if random.random() < 0.5 else 0 * u)]
        time = changes[-1][0] + random.uniform(0.3, 0.6)
        changes.append((time, 0 * u))
        time += random.uniform(0, 0.3)

    def send() -> None:
        u = [what for at, what in changes if at <= loop.now - begin][-1]
        away = loop.place - home
        u = np.where((np.abs(away) > 0.6) & (np.sign(u) == np.sign(away)), 0.0, u)
        loop.sequence(np.repeat(u[None], 4, 0), 1 / 30, space=2)

    loop.go(seconds, 1 / 30, send)
    loop.go(1.5)


def planned(loop: Loop, seed: int, *, share: float = 0.5, count: int = 3) -> None:
    """Plans as from a time parameterization are executed one after the other."""
    random, (low, high), zeros = np.random.default_rng(8 + seed), within(loop, 0.6), np.zeros(loop.robot.dof)
    for _ in range(count):
        goal = random.uniform(low, high)
        way = Way(0.0, np.stack([loop.place, zeros, zeros]), goal, bounds_of(loop, share))
        times = np.append(np.arange(0.0, way.duration - 0.02, 0.1), way.duration)
        position, velocity, acceleration = way.states(times)
        velocity[-1] = 0.0
        loop.plan(times, position, velocity, acceleration, end="goal")
        loop.go(way.duration + 0.8)


def replanned(loop: Loop, seed: int, *, hz: float = 20.0, dt: float = 0.05, measured: bool = True) -> None:
    """A planner plans to goals again and again, from the state that it reads."""
    random, (low, high), ones = np.random.default_rng(5 + seed), within(loop, 0.5), np.ones(loop.robot.dof)
    bounds = Bounds(0.81 * ones, 3.0 * ones, 60.0 * ones)
    for goal in (random.uniform(low, high) for _ in range(2)):

        def send(goal: np.ndarray = goal) -> None:
            state = loop.robot.measured() if measured else (loop.place, loop.robot.reference.velocity)
            speed = np.where(np.abs(state[1]) < 0.005, 0.0, np.clip(state[1], -0.8, 0.8))
            rows = Way(0.0, np.stack([state[0], speed, 0 * speed]), goal, bounds).states(dt * np.arange(1, 21))[0]
            loop.sequence(rows, dt, start=(state[0], speed) if measured else ())

        loop.go(3.0, 1 / hz, send)
    loop.go(1.0)


def to_and_fro(
    loop: Loop, seed: int = 0, *, speed: float = 0.03, amplitude: float = 0.15, joint: int = 1, seconds: float = 14.0,
    settle: float = 0.5,
) -> None:  # fmt: skip
    """One joint moves slowly to and fro, with smooth turns, against stiction and backlash."""
    here = loop.place[joint]

    def at(t: np.ndarray) -> np.ndarray:
        phase = 2 * np.pi * t * speed / (4 * amplitude)
        return here + amplitude * np.arcsin(0.985 * np.sin(phase)) / np.arcsin(0.985)

    _one_joint(loop, joint, at, seconds, settle)


def swing(
    loop: Loop, seed: int, *, joint: int = 1, low: float = -1.2, high: float = 0.4, period: float = 3.0,
    seconds: float = 9.0,
) -> None:  # fmt: skip
    """A joint swings through the vertical, where its sag changes its sign."""
    middle, half = (low + high) / 2, (high - low) / 2
    phase = np.arcsin(np.clip((loop.place[joint] - middle) / half, -1.0, 1.0))

    def at(t: np.ndarray) -> np.ndarray:
        eased = np.where(t < 1.0, t * np.minimum(t, 1.0) / 2, t - 0.5)
        return middle + half * np.sin(phase + 2 * np.pi / period * eased)

    _one_joint(loop, joint, at, seconds, 0.5)


def _one_joint(loop: Loop, joint: int, at: Callable[[np.ndarray], np.ndarray], seconds: float, settle: float) -> None:
    """Stream chunks without errors of one joint's positions by the time since a while from now, s."""
    base, begin = loop.place, loop.now + settle

    def motion(times: np.ndarray) -> np.ndarray:
        rows = np.repeat(base[None], len(times), 0)
        rows[:, joint] = at(np.maximum(times - begin, 0.0))
        return np.stack([rows, 0 * rows, 0 * rows])

    policy(loop, motion, seconds, bias=0.0, noise=0.0)
    loop.go(1.5)


def cold(loop: Loop, seed: int) -> None:
    """Brakes are released under a load that the drives do not know; then a plan is executed, then a policy."""
    loop.go(1.5)
    here, x = loop.robot.measured()[0], np.linspace(0.0, 1.0, 21)
    loop.plan(2.0 * x, here + 0.15 * share_of_way(x)[:, None])
    loop.go(3.0)
    policy(loop, course(loop, 3 + seed, 4.0, loop.now + 0.5, 0.25), 5.0, bias=0.0)
    loop.go(1.0)


def tilting(loop: Loop, seed: int, *, degrees: float = 12.0) -> None:
    """The base tilts while a policy moves the arm."""
    started_s = loop.clock_s

    def force(time_s: float) -> np.ndarray:
        angle = np.radians(degrees) * (0.5 - 0.5 * np.cos(np.pi / 2 * max(time_s - started_s - 1.0, 0.0)))
        loop.robot.lean(9.81 * np.array([np.sin(angle), 0.0, -np.cos(angle)]))
        return np.zeros(3)

    loop.robot.force = force
    policy(loop, course(loop, 3 + seed, 7.0, loop.now + 0.5, 0.25), 8.0, bias=0.002)
    loop.go(1.0)

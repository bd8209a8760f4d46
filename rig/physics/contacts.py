"""Contacts: with walls and tables, and with people who push."""

from __future__ import annotations

import numpy as np

from ..senders import plan_to, ramping, share_of_way
from ..table import Figures
from .free import to_and_fro
from .loop import Loop

_TOUCHES_N = 3.0
_TRIES = 5


def met(loop: Loop, joint: int, begin: float, speed: float) -> Figures:
    """Return figures of a contact: when the command slows, and with which force the arm presses."""
    log, end = loop.log(begin), loop.now
    touching = np.flatnonzero(log.force > _TOUCHES_N)
    if not len(touching):
        return {"unnoticed_s": np.inf, "touched": 0.0}
    first = touching[0]
    speeds = np.abs(np.gradient(log.command[:, joint], log.time))
    slows = np.flatnonzero((np.arange(len(speeds)) > first) & (speeds < 0.9 * abs(speed)))
    noticed = log.time[slows[0]] if len(slows) else np.inf

    def between(a: float, b: float) -> np.ndarray:
        return log.force[(log.time >= a) & (log.time <= b)]

    return {
        "early": float(loop.guard.brakes > 0 and not np.isfinite(noticed)),
        "unnoticed_s": float(noticed - log.time[first]),
        "force_most": float(between(log.time[first] + 0.05, end).max(initial=0.0)),
        "force_1s": float(np.median(between(noticed + 0.9, noticed + 1.1))) if np.isfinite(noticed) else np.inf,
        "force_last": float(np.median(between(end - 0.2, end))),
        "gap_mrad": 1e3 * float(np.abs(log.command - log.place)[first:].max()),
    }


def ran_into(
    loop: Loop, seed: int, *, speed: float, joint: int, angle: float, seconds: float = 3.0, streamed: bool = False,
    first: float = 0.0, width: float | None = None,
) -> Figures:  # fmt: skip
    """A stream runs into a wall and goes on for a while; later a plan leads back from the measured state.

    With a `width`, m, the hand closes around an object meanwhile.
    """
    loop.go(0.01 * seed)
    home = loop.place
    if first:  # so that the monitor learns a lag that stiction causes
        to_and_fro(loop, speed=first, amplitude=0.1, joint=joint, seconds=0.4 / first, settle=0.0)
    begin, finger = loop.now, None
    if width is not None:
        loop.robot.object.offer(width)
        finger = loop.robot.arm.gripper.closed
    send = ramping(loop, speed, joint=joint, goal=angle + (1.2 if joint == 0 else 0.8), finger=finger)
    loop.go(angle / abs(speed) + 0.4 + seconds, 0.1, send)
    loop.go(2.0)
    figures = met(loop, joint, begin, speed)
    figures["brakes"], tries = loop.guard.brakes, 0
    while tries < _TRIES and np.abs(loop.robot.output()[0] - home).max() > 0.06:
        tries += 1
        if streamed:
            here, since = loop.robot.measured()[0], loop.now

            def send(here: np.ndarray = here, since: float = since) -> None:
                share = share_of_way((loop.now + 0.04 * np.arange(1, 25) - since) / 2.0)
                loop.sequence(here + share[:, None] * (home - here), 0.04)

            loop.go(2.2, 0.1, send)
        else:
            plan_to(loop, home)
            loop.go(2.2)
        loop.go(0.6)
    loop.go(1.0)
    return figures | {"tries": tries, "home_off_mrad": 1e3 * float(np.abs(loop.robot.output()[0] - home).max())}


def pushed(loop: Loop, seed: int, *, newton: float = 80.0, seconds: float = 0.8, moving: float = 0.0) -> Figures:
    """A person pushes the hand sideways and lets go during a stream; then a plan begins at the command."""
    home, begin_s = loop.place, loop.clock_s + 1.0

    def force(time_s: float) -> np.ndarray:
        x = (time_s - begin_s) / seconds
        return np.array([0.0, newton * np.sin(np.pi * x) ** 2 if 0 < x < 1 else 0.0, 0.0])

    loop.robot.force = force
    loop.go(4.0, 0.1, ramping(loop, -moving, joint=0, goal=moving * 1.6))
    loop.go(1.5)
    now, x = loop.place, np.linspace(0.0, 1.0, 21)
    loop.plan(2.0 * x, now + share_of_way(x)[:, None] * (home + 0.1 - now))
    loop.go(3.0)
    return {"next_off_mrad": 1e3 * float(np.abs(loop.robot.output()[0] - home - 0.1).max())}


def insisting(
    loop: Loop, seed: int, *, speed: float, joint: int, angle: float, seconds: float = 8.0, what: str = "positions"
) -> Figures:
    """A sender plans into an obstacle, again and again from where it sees the arm; then it goes back.

    Last, it goes to a place before the obstacle. `what` are chunks of positions or velocities, or plans to a goal.
    """
    toward, begin = np.arange(loop.robot.dof) == joint, loop.now

    def send(speed: float = speed, rows: int = 24) -> None:
        ways = speed * 0.04 * np.arange(1, rows + 1)[:, None] * toward
        here = loop.robot.measured()[0]
        if what == "velocities":
            loop.sequence(speed * np.ones((4, 1)) * toward, 0.04, space=2)
        elif what == "plans":
            plan_to(loop, here + 2 * ways[-1], 2 * rows * 0.04)
        else:
            loop.sequence(here + ways, 0.04)

    every = 1.5 if what == "plans" else 0.1
    loop.go(seconds, every, send)
    figures = met(loop, joint, begin, speed)
    loop.go(2.0)
    place = loop.robot.output()[0][joint]
    loop.go(1.0, every, lambda: send(-speed))
    loop.go(1.0)
    away, place = place - loop.robot.output()[0][joint], loop.robot.output()[0][joint]
    loop.go(0.4, every, lambda: send(rows=8))
    loop.go(1.0)
    again = loop.robot.output()[0][joint] - place
    return figures | {"short_of_back": 0.8 * speed - away, "short_of_again": 0.8 * 0.3 * speed - again}

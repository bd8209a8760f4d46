"""Faults: encoders that slip or misread, second publishers, stalls, missing states, and obstacles that go away."""

from __future__ import annotations

import numpy as np

from ..senders import ramping
from ..table import Figures
from .loop import Loop
from .motions import course, policy

_OF_VELOCITY = 0.4
"""Speed of courses in a stall, as a share of the limits of velocity."""


def of_command(loop: Loop, begin: float) -> Figures:
    """Return figures of the command: its distance, and its fastest cycle as a share of the velocity limits."""
    log = loop.log(begin)
    speeds = np.abs(np.diff(log.command, axis=0)) / loop.robot.period * 1e9
    return {
        "way": float(np.abs(log.command - log.command[0]).max()),
        "fastest": float((speeds / np.array(loop.robot.arm.velocity)).max()),
    }


def drawn(seed: int) -> dict[str, object]:
    """Draw an arm with drives, and go on with what has drawn it."""
    random = np.random.default_rng(71 + seed)
    arm, drives = [("panda", ["pd3", "pd6", "pd12", "stiff"]), ("ur5e", ["cascade", "cascade_ff"])][random.integers(2)]
    return {"arm": arm, "drive": str(random.choice(drives)), "random": random}


def slips(loop: Loop, seed: int, *, random: np.random.Generator) -> Figures:
    """The encoder of a joint slips at rest, while nothing is sent."""
    begin = loop.now
    loop.go(0.5)
    joint = random.integers(loop.robot.dof)
    loop.slip = random.choice([-1.0, 1.0]) * random.uniform(0.06, 1.0) * (np.arange(loop.robot.dof) == joint)
    loop.go(4.0)
    return of_command(loop, begin) | {"unnoticed": float(loop.guard.brakes == 0)}


def loaded(loop: Loop, seed: int) -> Figures:
    """A load that nobody has told of hangs on the hand at rest: the command does not sink with the arm."""
    begin, weight = loop.now, np.array([0.0, 0.0, -9.81 * np.random.default_rng(seed).uniform(0.5, 1.0)])
    loop.robot.force = lambda _: weight
    loop.go(6.0)
    return of_command(loop, begin) | {"unnoticed": float(loop.guard.brakes == 0)}


def contradicted(loop: Loop, seed: int, *, random: np.random.Generator) -> Figures:
    """A second publisher sends other positions; then plans come to stay at the measured position."""
    place = random.choice([-1.0, 1.0]) * random.uniform(0.05, 1.0) + loop.robot.home
    loop.publishes_too(place, random.choice([10.0, 50.0, 100.0, 250.0]))
    loop.go(0.3)
    begin, sent = loop.now, len(loop.sent)
    for there in (place, loop.robot.output()[0]) * 3:
        loop.plan(np.array([1.0]), there[None], end="goal")
        loop.go(0.17)
    loop.go(1.0)
    return of_command(loop, begin) | {"begun": len(loop.sent) - sent}


def stalled(loop: Loop, seed: int, *, random: np.random.Generator) -> Figures:
    """The network stalls from the robot, or in both directions, during a motion; the policy goes on."""
    begin = loop.now
    at = course(loop, 3 + seed, 4.0, begin + 0.3, _OF_VELOCITY)
    loop.stall, loop.ways = (begin + 1.3, begin + 1.3 + random.uniform(0.05, 1.0)), _ways(random)
    policy(loop, at, 4.0, seed=seed)
    loop.go(1.5)
    return of_command(loop, begin)


def _ways(random: np.random.Generator) -> tuple[str, ...]:
    """Draw the directions of a stall; of one to the robot alone, nobody knows before messages are missed."""
    return [("from", "to"), ("from",)][random.integers(2)]


def stopped_in_a_stall(loop: Loop, seed: int, *, random: np.random.Generator) -> Figures:
    """As `stalled`, with a stop in the stall, which the controller may refuse on arrival; then a policy goes on."""
    begin, lasts = loop.now, random.uniform(0.05, 1.0)
    at = course(loop, 3 + seed, 4.0, begin + 0.3, _OF_VELOCITY)
    loop.stall, loop.ways = (begin + 1.3, begin + 1.3 + lasts), _ways(random)
    policy(loop, at, 1.3 + random.uniform(0.05, lasts), seed=seed)  # Before, the node cannot know of the stall.
    loop.stop()
    loop.go(2.0)
    stood = float(np.abs(loop.robot.reference.velocity).max())
    policy(loop, course(loop, 4 + seed, 2.0, loop.now + 0.3, 0.4), 2.5, seed=seed)
    loop.go(1.5)
    return of_command(loop, begin) | {"moves": stood}


def misread(loop: Loop, seed: int, *, random: np.random.Generator) -> Figures:
    """Single joint states are far off while a policy moves the arm."""
    begin = loop.now
    at = course(loop, 3 + seed, 4.0, begin + 0.3, 0.4)
    for _ in range(4):
        joint = np.eye(loop.robot.dof)[random.integers(6)]
        loop.misread = random.choice([-1.0, 1.0]) * random.uniform(0.2, 2.0) * joint
        policy(loop, at, 1.0, seed=seed)
    loop.go(1.5)
    return of_command(loop, begin)


def missed(loop: Loop, seed: int, *, random: np.random.Generator) -> None:
    """A bus loses joint states for 40 to 200 ms, at rest and in slow motion."""
    joint, speed, send = int(random.integers(3)), random.uniform(0.03, 0.15), None
    for number in range(8):
        missing = loop.now + random.uniform(0.0, 0.3)
        loop.missing = missing, missing + random.uniform(0.04, 0.2)
        if number == 2:
            send = ramping(loop, speed, joint=joint, goal=0.4)
        loop.go(0.6, 0.1, send)
    loop.go(1.5)


def passed_by(loop: Loop, seed: int, *, random: np.random.Generator) -> Figures:
    """Somebody holds the hand back for a while; a policy plans to its goal from the measured position."""
    home, begin_s = loop.place, loop.clock_s
    goal, until_s = home + 0.6 * (np.arange(loop.robot.dof) == 0), begin_s + random.uniform(1.5, 6.0)

    def held(time_s: float) -> np.ndarray:
        over, speed = (part[0] for part in loop.robot.output())
        over -= home[0] + 0.2
        lever = -2000.0 * over - 40.0 * max(speed, 0.0) if time_s < until_s and over > 0 else 0.0
        return np.array([0.0, max(lever, -120.0), 0.0])

    loop.robot.force = held

    def send() -> None:
        here = loop.robot.measured()[0]
        share = np.minimum(0.04 * np.arange(1, 25) * 0.3 / max(np.abs(goal - here).max(), 1e-6), 1.0)
        loop.sequence(here + share[:, None] * (goal - here), 0.04)

    loop.go(until_s - begin_s + 8.0, 0.1, send)
    loop.go(1.0)
    return {"short": float(np.abs(loop.robot.output()[0] - goal)[0])}

"""SO-101 and ALOHA without ROS: what `--robot.type=smooth` commands at 100 Hz of a policy's actions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.chunks import Kind
from kit.controller import SECOND

from ..table import Figures
from .arms import ARMS
from .robot import PhysicalRobot
from .scene import SMALL

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "lerobot"))
from lerobot_robot_ros2_control.servos import Servos

_CYCLE_S, _BEGIN_S, _JUDGED_S = 0.01, 10.0, 2.5
"""Time between commands, the clock at the beginning, and the time from which on motions are judged, s."""
_LIMITS = np.radians([[200.0], [1000.0], [20000.0]])
"""Velocity, acceleration and jerk by default, rad and s."""
_MOVES, _STANDS = 0.1, 0.2
"""Speed, rad/s, from which on a policy's motion counts as one, and the share of it below which a command stands."""
_LATE = 0.4
"""Part of a period before an action is executed at which the next one counts as late."""

QUICK, ACT = Kind(0.1, 0.1, 0.0, 1 / 30, 50), Kind(0.2, 0.1, 0.0, 0.02, 100)
SLOW, SLOW_ACT = (kind._replace(period=0.8, delay=0.8) for kind in (QUICK, ACT))
OFF = {"apart": 0.01, "noise": 1e-3}
"""Errors of policies whose chunks are off by 5 mrad each and their actions by 1 mrad."""


def meant(arm: str, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return what a policy means: sines around home, from rest, rad `[..., dof]` at times, s."""
    spec, random = ARMS[arm], np.random.default_rng(seed)
    home, low, high = (np.array(part) for part in (spec.home, spec.low, spec.high))
    sizes = random.uniform(0.2, 0.4, (2, len(home))) * np.minimum(np.minimum(high - home, home - low) / 2, 0.6)
    rates = random.uniform(0.6, 2.5, (2, len(home)))

    def at(times: np.ndarray) -> np.ndarray:
        times = np.maximum(np.asarray(times, float), 0.0)
        eased = np.where(times < 1.0, times**3 * (1.0 - times / 2), times - 0.5)
        return home + (sizes * np.sin(rates * eased[..., None, None])).sum(axis=-2)

    return at


def size_of(arm: str) -> np.ndarray:
    """Return the share of an error of an arm's joint, rad, that a joint of small range has `[dof]`."""
    return np.minimum(np.subtract(ARMS[arm].high, ARMS[arm].low), 1.0)


class Played:
    """Servos of one or more arms of a kind on a simulated clock; `policies` are told each of its cycles."""

    def __init__(self, arm: str, count: int, dt: float, **options: object) -> None:
        small = SMALL | {"resolution": SMALL["resolution"] * size_of(arm)}
        self.robots = [PhysicalRobot(arm, arm, **small) for _ in range(count)]
        for robot in self.robots:
            robot.settle()
        names = [f"{joint}_{side}" for side in range(count) for joint in ARMS[arm].joints]
        self.time, self.command = 0.0, np.concatenate([robot.home for robot in self.robots])
        limits = np.repeat(_LIMITS, len(names), axis=1)
        self.servos = Servos(
            names, self._write, limits, self.measured(), dt, rate=1 / _CYCLE_S, clock=self._now_ns, **options
        )
        self.rows: list[tuple[float, np.ndarray, np.ndarray]] = []

    def _now_ns(self) -> int:
        return round((_BEGIN_S + self.time) * SECOND)

    def _write(self, position: np.ndarray) -> None:
        self.command = position.copy()

    def measured(self) -> np.ndarray:
        """Return the places of all joints, rad or m."""
        return np.concatenate([robot.measured()[0] for robot in self.robots])

    def go(self, seconds: float, act: Callable[[], None]) -> None:
        """Let time pass; `act` is called before each command."""
        for _ in range(round(seconds / _CYCLE_S)):
            act()
            self.servos.cycle()
            self.rows.append((self.time, self.command, self.measured()))
            for robot, command in zip(self.robots, np.split(self.command, len(self.robots)), strict=True):
                robot.follow(command, round(1000 * _CYCLE_S))
            self.time += _CYCLE_S


def chunks(
    seed: int, *, arm: str = "so101", count: int = 1, seconds: float = 8.0, policy: Kind = QUICK, **options: object
) -> Figures:
    """A policy streams whole chunks, each stamped with its observation.

    Figures: largest commanded acceleration of the worst joint and rms of all, as shares of the policy's own; how late
    the command and the joints are; the longest time for which the command stands although the policy moves; refusals.
    """
    played, motions = Played(arm, count, policy.dt, **options), [meant(arm, 10 * seed + side) for side in range(count)]
    random, waiting, due = np.random.default_rng(seed), [], 0.0
    size = np.tile(size_of(arm), count)

    def at(times: np.ndarray) -> np.ndarray:
        return np.concatenate([motion(times) for motion in motions], axis=-1)

    def act() -> None:
        nonlocal due
        if played.time >= due - 1e-9:
            stamp_ns, share = played.servos.observe(played.measured()), np.linspace(0, 1, policy.horizon)[:, None]
            rows = at(played.time + policy.dt * np.arange(1, policy.horizon + 1))
            rows += size * policy.apart * (random.normal(size=size.size) / 2 + share * random.normal(size=size.size))
            rows += size * policy.noise * random.normal(size=rows.shape)
            waiting.append((played.time + policy.delay, rows, stamp_ns))
            due += policy.period
        while waiting and waiting[0][0] <= played.time + 1e-9:
            played.servos.send_chunk(*waiting.pop(0)[1:])

    played.go(seconds, act)
    return figures(played, at)


def figures(played: Played, at: Callable[[np.ndarray], np.ndarray]) -> Figures:
    """Return figures of commands and joints beside what the policy means."""
    times, commands, places = (np.array(part) for part in zip(*played.rows, strict=True))
    later = times >= _JUDGED_S
    times, commands, places = times[later], commands[later], places[later]
    own, made = (np.diff(rows, 2, axis=0) / _CYCLE_S**2 for rows in (at(times), commands))
    speeds = [np.linalg.norm(np.diff(rows, axis=0), axis=1) / _CYCLE_S for rows in (at(times), commands)]
    stands = (speeds[0] > _MOVES) & (speeds[1] < _STANDS * speeds[0])
    shifts = np.arange(-50, 300) / 1e3

    def late(rows: np.ndarray) -> float:
        offs = [np.std(rows - at(times - late), axis=0).max() for late in shifts]
        return 1e3 * float(shifts[np.argmin(offs)])

    return {
        "most": float((np.abs(made).max(axis=0) / np.abs(own).max(axis=0)).max()),
        "rms": float(np.linalg.norm(made) / np.linalg.norm(own)),
        "late_ms": late(commands),
        "joints_late_ms": late(places),
        "stands_s": _CYCLE_S * longest(stands),
        "rejected": played.servos.rejected,
    }


def longest(true: np.ndarray) -> int:
    """Return the length of the longest row of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], true.astype(int), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def paused(
    seed: int, *, arm: str = "so101", count: int = 1, hz: float = 30.0, rows: int = 30, inference: float = 0.8,
    rounds: int = 3, **options: object,
) -> Figures:  # fmt: skip
    """Single actions come one by one along a straight way, and none during each inference: it stops, and goes on.

    Figures: largest acceleration as a share of the limit, how far it goes back, in actions, how far it passes a last
    action, as a share of what the fastest stop has to, and the last distance from the way.
    """
    played, done, due = Played(arm, count, 1 / hz, **options), 0, 0.0
    home, high = np.array(ARMS[arm].home, float), np.array(ARMS[arm].high)
    way = np.tile(np.minimum(high - home, 1.0) * 0.5 / (rows * rounds), count)
    begin = played.measured()  # the joints have sagged from where they were sent

    def act() -> None:
        nonlocal done, due
        if played.time >= due - 1e-9 and done < rows * rounds:
            played.servos.observe(played.measured())
            done += 1
            played.servos.send(begin + way * done)
            due += 1 / hz + inference * (done % rows == 0)

    played.go(rounds * (rows / hz + inference) + 1.0, act)
    commands = np.array([row[1] for row in played.rows])
    speeds = np.diff(commands, axis=0) / _CYCLE_S
    made = np.abs(np.diff(commands, 2, axis=0)).max(axis=0) / _CYCLE_S**2
    ahead = (commands - begin) / way
    back = (np.maximum.accumulate(ahead, axis=0) - ahead).max(axis=0)
    # The fastest stop takes 2 sqrt(speed / jerk). It begins when the next action counts as late, a cycle and a lead of
    # one later at most, while the last one is executed.
    speed = np.abs(way) * hz
    passes = speed * (np.sqrt(speed / _LIMITS[2, 0]) + 2 * _CYCLE_S - _LATE / hz)
    return {
        "most": float(made.max() / _LIMITS[1, 0]),
        "back": float(back.max()),
        "passed": float((back * np.abs(way) / passes).max()),
        "off": float(np.abs(ahead[-1] - rows * rounds).max()),
        "last": float(np.abs(speeds[-1]).max()),
        "rejected": played.servos.rejected,
    }

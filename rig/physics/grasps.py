"""Grasps while a policy moves the arm: objects hold the gripper back, slip and are lost; channels are switched."""

from __future__ import annotations

from math import inf

import numpy as np

from .arms import ARMS
from .drives import Drive
from .free import begun, of_free
from .motions import course, policy

ARM = "panda with a hand"
SOFT = Drive(hz=(3.0,) * 7 + (8.0,), zeta=0.7)
"""Soft drives of the arm; a finger at 3 Hz would stand up to 7 mm away from its command by friction."""
_OPEN, _CLOSED = 0.039, 0.001
"""Places of a finger, m, to which a policy sends it."""
_NOTHING_M = 1e-7
"""Distance, m, that rounding of points causes."""
_LEAST = 4e-3
"""Distance of a finger from its command, m, that has to be told as a grasp."""
_HOLDS_S, _OPENS_S = 1.8, 1.2
"""Times, s, for which a hand closes and opens."""


def grasps(seed: int = 0, *, drive: str | Drive = "pd6", count: int = 3, share: float = 0.4,
           **parameters: object) -> dict[str, float]:  # fmt: skip
    """Objects of 10 to 60 mm, from foam to steel, are grasped; some slip by up to 15 mm, or fall out of the hand."""
    loop = begun(ARM, drive, seed, **parameters)
    random, begin = np.random.default_rng(40 + seed), loop.now
    moves = course(loop, 3 + seed, count * (_HOLDS_S + _OPENS_S) + 1.0, begin + 0.5, share)
    errors = np.append(np.full(loop.robot.dof - 1, 3e-3), 2e-4)
    unseen = dead = 0
    for _ in range(count):
        closes, half = loop.now + random.uniform(0.1, 0.3), random.uniform(5e-3, 0.03)
        stiffness = 10 ** random.uniform(2.7, 4.7)  # N/m
        gradually, fate, at_s = random.integers(2), random.integers(3), loop.clock_s + random.uniform(0.8, 1.1)
        slips = random.uniform(2e-3, 7.5e-3) if fate == 1 else inf if fate == 2 else 0.0

        def held(time_s: float, half: float = half, stiffness: float = stiffness, slips: float = slips,
                 at_s: float = at_s) -> tuple[float, float]:  # fmt: skip
            slipped = 0.0 if time_s < at_s else min((time_s - at_s) / 0.3, 1.0) * slips if slips < inf else inf
            return max(half - slipped, 0.0), stiffness

        def at(times: np.ndarray, closes: float = closes, lasts: float = 0.4 if gradually else 1e-3) -> np.ndarray:
            states = moves(times)
            closing, opening = (np.clip((times - since) / lasts, 0.0, 1.0) for since in (closes, closes + _HOLDS_S))
            states[0, :, -1] = _OPEN + (_CLOSED - _OPEN) * (closing - opening)
            return states

        loop.robot.grasped = held
        policy(loop, at, _HOLDS_S, bias=errors, noise=errors / 6, seed=int(random.integers(1000)))
        found = loop.core.grips
        unseen += not found and loop.robot.measured()[0][-1] > _CLOSED + _LEAST
        dead += any(not grip.moves for grip in found)
        policy(loop, at, _OPENS_S, bias=errors, noise=errors / 6, seed=int(random.integers(1000)))
        unseen += bool(loop.core.grips)
    loop.go(1.0)
    return of_free(loop, begin) | {"unseen": int(unseen), "dead": dead}


def switched(seed: int = 0, *, count: int = 6, share: float = 0.4, dt: float = 0.04,
             **parameters: object) -> dict[str, float]:  # fmt: skip
    """The hand is a channel that is open or closed, and switches every 0.3 to 1.1 s while a policy moves the arm."""
    kinds = ["arm"] * (len(ARMS[ARM].joints) - 1) + ["binary"]
    loop = begun(ARM, "pd6", seed, warms=False, joints__kind=kinds, **parameters)
    random, begin = np.random.default_rng(60 + seed), loop.now
    switches = begin + 1.0 + random.uniform(0.3, 1.1, count).cumsum()
    seconds = switches[-1] - begin + 0.5
    moves, errors = course(loop, 3 + seed, seconds, begin + 0.5, share), np.append(np.full(len(kinds) - 1, 3e-3), 0.0)
    places = np.array([loop.robot.home[-1], _CLOSED])

    def at(times: np.ndarray) -> np.ndarray:
        states = moves(times)
        states[0, :, -1] = places[switches.searchsorted(times) % 2]
        return states

    policy(loop, at, seconds, dt=dt, bias=errors, noise=errors / 6, seed=seed)
    loop.go(1.0)
    log = loop.log(begin)
    command = log.command[:, -1]
    changes = log.time[1:][np.abs(np.diff(command)) > _NOTHING_M]
    right = len(changes) == count
    return {
        "brakes": loop.guard.brakes,
        "between": int((np.abs(command[:, None] - places).min(axis=1) > _NOTHING_M).sum()),
        "off_s": float(np.abs(changes - switches).max()) if right else inf,
    }

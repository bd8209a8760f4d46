"""Grasps while a policy moves the arm: objects hold the gripper back, slip and are lost; channels are switched."""

from __future__ import annotations

from math import inf

import numpy as np

from ..senders import Motion
from ..table import Figures
from .arms import ARMS
from .drives import Drive
from .loop import Loop
from .motions import course, policy

ARM = "panda with a hand"
FIRM = Drive(hz=(6.0,) * 7 + (12.0,))
"""Drive of an arm with a finger, which friction would keep 2 mm away from its command at 6 Hz."""
SWITCHED = {"arm": ARM, "warms": False, "joints__kind": ["arm"] * (len(ARMS[ARM].joints) - 1) + ["binary"]}
"""The hand as a channel that is open or closed."""
_NOTHING_M = 1e-7
"""Distance, m, that rounding of points causes."""
_HOLDS_S, _OPENS_S = 0.9, 1.2
"""Times, s: a gripper closes, holds what it is left alone with for as long, and is open."""
_TOLD = 1.2
"""Distance of a gripper from its command that has to be told as a grasp, as a share of the one from which it counts."""


def grasps(loop: Loop, seed: int, *, count: int = 3, share: float = 0.4) -> Figures:
    """Objects of 10 to 60 mm, from foam to wood, are grasped; some turn and are narrower then, or fall out.

    Figures are grasps that are not told within 0.9 s (`unseen`), grippers that are told to hold
    something, or not to move, although they are where they were sent (`false`), and those that do hold something but
    are told not to move (`dead`); `kept` is the share of objects that are held to the end.
    """
    random, arm = np.random.default_rng(40 + seed), loop.robot.arm
    moves = course(loop, 3 + seed, count * (2 * _HOLDS_S + _OPENS_S) + 1.0, loop.now + 0.5, share)
    reach, gripper = arm.high[-1] - arm.low[-1], arm.gripper
    errors = np.append(np.full(loop.robot.dof - 1, 3e-3), 5e-3 * min(reach, 1.0))
    grip = loop.core.published.guard.grips
    least = _TOLD * 0.05 * min(reach, 1.0)
    counts = dict.fromkeys(("unseen", "false", "dead", "kept"), 0)

    def away() -> float:
        return abs(loop.place[-1] - loop.robot.measured()[0][-1])

    def judge(holds: bool) -> None:
        found = grip.held
        counts["unseen"] += int(holds and not found and away() > least)
        counts["false"] += int(bool(found) and away() < least / _TOLD**2)
        counts["dead"] += any(not one.moves for one in found)

    for _ in range(count):
        closes, width = loop.now + random.uniform(0.1, 0.3), random.uniform(0.01, 0.06)
        lasts, fate = random.choice([1e-3, 0.4]), random.choice(["stays", "turns", "falls"])

        def at(times: np.ndarray, closes: float = closes, lasts: float = lasts) -> np.ndarray:
            states = moves(times)
            closing, opening = (np.clip((times - since) / lasts, 0.0, 1.0) for since in (closes, closes + 2 * _HOLDS_S))
            states[0, :, -1] = gripper.opened + (gripper.closed - gripper.opened) * (closing - opening)
            return states

        def act(seconds: float, at: Motion = at) -> None:
            policy(loop, at, seconds, bias=errors, noise=errors / 6, seed=int(random.integers(1000)))

        loop.robot.object.offer(width, 10 ** random.uniform(2.0, 4.1), random.uniform(0.02, 0.2))
        act(_HOLDS_S)
        loop.robot.object.let_go()
        if fate == "turns":
            loop.robot.object.turn(random.uniform(0.5, 0.9) * width)
        elif fate == "falls":
            loop.robot.object.fall()
        act(_HOLDS_S)
        judge(holds=loop.robot.object.is_kept)
        counts["kept"] += loop.robot.object.is_kept / count
        act(_OPENS_S)
        judge(holds=False)
    loop.go(1.0)
    return counts


def switched(loop: Loop, seed: int, *, count: int = 6, share: float = 0.4) -> Figures:
    """The hand is a channel that is open or closed, and switches every 0.3 to 1.1 s while a policy moves the arm."""
    random, begin, arm = np.random.default_rng(60 + seed), loop.now, loop.robot.arm
    switches = begin + 1.0 + random.uniform(0.3, 1.1, count).cumsum()
    seconds = switches[-1] - begin + 0.5
    moves, errors = (
        course(loop, 3 + seed, seconds, begin + 0.5, share),
        np.append(np.full(loop.robot.dof - 1, 3e-3), 0.0),
    )
    places = np.array([loop.robot.home[-1], arm.gripper.closed + 1e-3])

    def at(times: np.ndarray) -> np.ndarray:
        states = moves(times)
        states[0, :, -1] = places[switches.searchsorted(times) % 2]
        return states

    policy(loop, at, seconds, bias=errors, noise=errors / 6, seed=seed)
    loop.go(1.0)
    log = loop.log(begin)
    command = log.command[:, -1]
    changes = log.time[1:][np.abs(np.diff(command)) > _NOTHING_M]
    right = len(changes) == count
    return {
        "between": int((np.abs(command[:, None] - places).min(axis=1) > _NOTHING_M).sum()),
        "off_s": float(np.abs(changes - switches).max()) if right else inf,
    }

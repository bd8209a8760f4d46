"""Stops, emergency stops, and arms that a hand leads."""

from __future__ import annotations

import numpy as np

from ..senders import plan_to, ramping
from ..table import Figures
from .loop import Loop

_FAST = 0.35
"""Speed at which a hand leads an arm, rad/s."""


def stopped(loop: Loop, seed: int, *, speed: float = 1.0) -> Figures:
    """~/stop is called during a stream, which goes on; then the stop is released, and the arm moves back."""
    loop.go(1.0, 0.1, ramping(loop, speed, joint=0, goal=1.5))
    begin, place = loop.now, loop.robot.output()[0]
    behind = np.abs(loop.guard.monitor.off).max()
    made = loop.stop(hold=True)
    announced = np.abs(made.motion.end.position - loop.place).max() + behind
    loop.go(2.0, 0.1, ramping(loop, speed, joint=0, goal=1.5))
    travelled = np.abs(loop.log(begin).place - place).max()
    loop.stop()
    loop.refused.clear()
    loop.go(3.0, 0.1, ramping(loop, -speed, joint=0, goal=1.0))
    loop.go(1.0)
    return {"announced_off": float(abs(announced / travelled - 1.0))}


def emergency_stop(loop: Loop, seed: int, *, speed: float = 0.5) -> Figures:
    """Drives are switched off in motion and the arm falls while a stream goes on; then they are switched on again."""
    home, robot = loop.place, loop.robot
    send = ramping(loop, speed, joint=0, goal=1.2)
    loop.go(1.2, 0.1, send)
    robot.power, robot.off = False, True
    loop.go(2.0, 0.1, send)
    begin = loop.now
    robot.restart()
    robot.power, robot.off = True, False
    loop.go(3.0, 0.1, send)
    speed_after = float(np.abs(loop.log(begin).speed).max())
    loop.go(2.0)
    plan_to(loop, home)
    loop.go(3.5)
    return {"speed_after": speed_after, "home_off_mrad": 1e3 * float(np.abs(robot.output()[0] - home).max())}


def guided(loop: Loop, seed: int, *, restart: bool = False, distance: float = 0.3) -> Figures:
    """Between two motions a hand leads the arm; then the drives take over, and a plan begins at the measured state."""
    home, robot = loop.place, loop.robot
    loop.go(2.5, 0.1, ramping(loop, 0.4, joint=0, goal=0.4))
    _lead(loop, distance)
    warned = loop.guard.brakes > 0
    if restart:
        robot.restart()
    robot.guided = False
    loop.go(0.3)
    begin = loop.now
    plan_to(loop, home)
    loop.go(4.0)
    return {
        "warned": float(not warned),
        "next_speed": float(np.abs(loop.log(begin).speed).max()),
        "home_off_mrad": 1e3 * float(np.abs(robot.output()[0] - home).max()),
    }


def _lead(loop: Loop, distance: float) -> None:
    """Let a hand lead the first joint, whose drive yields, by a distance, rad, and hold it there."""
    robot, begin = loop.robot, loop.robot.output()[0]
    robot.guided = True

    def force(_: float) -> np.ndarray:
        place, speed = (part[0] for part in robot.output())
        goes = place - begin[0] < distance
        return np.array([0.0, 25.0 * (_FAST - speed) if goes else -40.0 * speed, 0.0])

    robot.force = force
    loop.go(3.5)
    robot.force = None
    loop.go(2.0)

"""Stops, emergency stops, and arms that a hand leads."""

from __future__ import annotations

import numpy as np

from .free import begun
from .loop import Loop
from .motions import plan_to, ramp

_FAST = 0.35
"""Speed at which a hand leads an arm, rad/s."""


def stopped(seed: int = 0, *, arm: str = "panda", drive: str = "pd6", speed: float = 1.0,
            **parameters: object) -> dict[str, float]:  # fmt: skip
    """~/stop is called during a stream, which goes on; then the stop is released, and the arm moves back."""
    loop = begun(arm, drive, seed, **parameters)
    loop.go(1.0, 0.1, ramp(loop, 0, speed, 1.5))
    begin, place = loop.now, loop.robot.output()[0]
    behind = np.abs(loop.guard.monitor.behind).max()
    made = loop.stop(hold=True)
    announced = np.abs(made.motion.end.position - loop.place).max() + behind
    loop.go(2.0, 0.1, ramp(loop, 0, speed, 1.5))
    travelled = np.abs(loop.log(begin).place - place).max()
    loop.stop()
    loop.refused.clear()
    loop.go(3.0, 0.1, ramp(loop, 0, -speed, 1.0))
    loop.go(1.0)
    return {
        "brakes": loop.guard.brakes,
        "refused": len(loop.refused),
        "announced_off": float(abs(announced / travelled - 1.0)),
    }


def emergency_stop(seed: int = 0, *, arm: str = "panda", drive: str = "pd6", speed: float = 0.5,
                   **parameters: object) -> dict[str, float]:  # fmt: skip
    """Drives are switched off in motion and the arm falls while a stream goes on; then they are switched on again."""
    loop = begun(arm, drive, seed, **parameters)
    home, robot = loop.place, loop.robot
    send = ramp(loop, 0, speed, 1.2)
    loop.go(1.2, 0.1, send)
    robot.power, robot.off = False, True
    loop.go(2.0, 0.1, send)
    begin = loop.now
    robot.restart()
    robot.power, robot.off = True, False
    loop.go(3.0, 0.1, send)
    after = loop.log(begin)
    loop.go(2.0)
    plan_to(loop, home)
    loop.go(3.5)
    return {
        "brakes": loop.guard.brakes,
        "speed_after": float(np.abs(after.speed).max()),
        "moved_mrad": 1e3 * float(np.abs(after.place - after.place[0]).max()),
        "home_off_mrad": 1e3 * float(np.abs(robot.output()[0] - home).max()),
    }


def guided(seed: int = 0, *, arm: str = "panda", drive: str = "pd6", restart: bool = False, distance: float = 0.3,
           **parameters: object) -> dict[str, float]:  # fmt: skip
    """Between two motions a hand leads the arm; then the drives take over, and a plan begins at the measured state."""
    loop = begun(arm, drive, seed, **parameters)
    home, robot = loop.place, loop.robot
    loop.go(2.5, 0.1, ramp(loop, 0, 0.4, 0.4))
    lead(loop, distance)
    warned = loop.guard.brakes > 0
    if restart:
        robot.restart()
    robot.guided = False
    loop.go(0.3)
    begin = loop.now
    loop.refused.clear()
    plan_to(loop, home)
    loop.go(4.0)
    return {
        "warned": float(not warned),
        "refused": len(loop.refused),
        "next_speed": float(np.abs(loop.log(begin).speed).max()),
        "home_off_mrad": 1e3 * float(np.abs(robot.output()[0] - home).max()),
    }


def lead(loop: Loop, distance: float) -> None:
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

"""Scenes with physical arms: what is done with which arm, and the largest figures that are allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from traj_integrator_ros.requests.rejection import RejectionReason

from ..table import Figures, Scene, Verdict
from .arms import ARMS, wall
from .drives import Drive
from .loop import Loop
from .motions import warm
from .robot import PhysicalRobot

Act = Callable[..., Figures | None]
"""What is done with a loop, given the seed and options; returns figures beside those of free motion."""
SMALL = {"resolution": 1.534e-3, "velocity_hz": 8.0, "rate": 100}
"""Arguments of a small robot's arm: encoders of 4,096 steps, a bus of 100 Hz."""
_SMALL = {"so101": SMALL, "hobby": SMALL | {"backlash": np.pi / 180}}
"""Drives of small robots; gears have a play of 1 degree behind soft ones."""
_OF_LOOP = "arm", "drive", "payload", "settle", "warms", "late", "tells", "start_from", "joints__kind"
PRESSES = {"force_1s": 190.0, "force_last": 190.0}
"""Largest figures of contacts without reports: nobody knows the controller's command, and the arm presses on."""


def physical(
    act: Act, most: Mapping[str, float], *, draw: Callable[[int], dict[str, object]] | None = None,
    walled: bool = False, without: Mapping[str, float] | None = None, **options: object,
) -> Scene:  # fmt: skip
    """Return a scene.

    Args:
        act: what is done.
        most: the largest allowed figures.
        draw: draws options by a seed.
        walled: whether the hand meets a wall, where `joint` has moved by `angle`, of a `stiffness`, N/m (0: it stands).
        without: largest figures that differ without reports.
        options: options of `begun` and of the act.

    """

    def play(seed: int, reports: bool) -> Verdict:
        given = options | (draw(seed) if draw else {})
        allowed = {**most}
        if not reports:
            allowed |= {name: top for name, top in PRESSES.items() if name in most} | {**(without or {})}
        return Verdict.of(figures(act, seed, reports, walled, **given), allowed)

    return Scene(act.__doc__, play)


def figures(act: Act, seed: int, reports: bool, walled: bool, **given: object) -> Figures:
    """Do something with an arm; return brakes and refusals, the largest error, and the figures of the act."""
    own = {name: value for name, value in given.items() if name not in _OF_LOOP}
    of_loop = {name: value for name, value in given.items() if name in _OF_LOOP}
    if walled:
        own = {"joint": 0, "angle": 0.6, "speed": 1.0} | own
        arm = ARMS[of_loop.get("arm", "panda")]
        toward = np.copysign(1.0, own["speed"]) * (np.arange(len(arm.joints)) == own["joint"])
        pose = np.array(arm.home, float) + own["angle"] * toward
        of_loop["world"] = wall(arm, pose, toward, stiffness=own.pop("stiffness", 0.0))
    loop = begun(seed, reports=reports, **of_loop)
    begin = loop.now
    found = act(loop, seed, **own)
    log = loop.log(begin)
    error = 1e3 * float(np.abs(log.command - log.place).max())
    # Without reports, chunks wait for the controller or a joint state; the newest is executed.
    refused = sum(reports or one.reason is not RejectionReason.SUPERSEDED for _, one in loop.refused)
    return {"brakes": loop.guard.brakes, "refused": refused, "error_mrad": error} | (found or {})


def begun(seed: int = 0, *, arm: str = "panda", drive: str | Drive = "pd6", settle: float = 1.0, warms: bool = True,
          reports: bool = True, payload: float = 0.0, world: str = "", **options: object) -> Loop:  # fmt: skip
    """Return a loop whose arm has settled and, if it `warms`, has moved by 2 degrees and back, as people do first."""
    small = _SMALL.get(drive, {}) if isinstance(drive, str) else {}
    robot = PhysicalRobot(arm, drive, payload=payload, world=world, **small)
    robot.settle(settle)
    times = {"states_hz": 50.0, "jitter": 0.004} if small else {}
    loop = Loop(robot, seed=seed, reports_hz=50.0 if reports else 0.0, **times, **options)
    loop.go(0.3)
    if warms:
        warm(loop)
    return loop


def servoed(act: Callable[..., Figures], most: Mapping[str, float], **options: object) -> Scene:
    """Return a scene of servos, in which no controller reports."""
    played = partial(act, **options)
    return Scene(act.__doc__, lambda seed, _: Verdict.of(played(seed), most))

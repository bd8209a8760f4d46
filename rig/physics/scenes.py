"""Table of scenes: what is done with which arm, and the largest figures that are allowed."""

from __future__ import annotations

from collections.abc import Mapping

from . import contacts, faults, free, grasps, power, smooth
from .scene import Scene

HOBBY = {"arm": "vx300s", "drive": "hobby"}
ALOHA = {"arm": "aloha", "count": 2}
SO101 = {"arm": "so101", "drive": "so101"}
UR = {"arm": "ur5e", "drive": "cascade"}
HAND = {"arm": grasps.ARM, "drive": grasps.FIRM}
LATE = {"warms": False, "late": 0.08}
NEAR = {"angle": 0.08, "seconds": 4.0}
FREE = {"brakes": 0, "refused": 0}
GRASPS = FREE | {"unseen": 0, "false": 0, "dead": 0}
MET = {"unnoticed_s": 0.3, "force_1s": 20, "tries": 1, "home_off_mrad": 60}
"""Largest figures of contacts: time until the command slows; force a second later; tries until a plan back is executed.
"""
SLOWLY = {"unnoticed_s": 0.6, "force_last": 20, "tries": 1, "home_off_mrad": 60}
"""Largest figures of slow contacts, in which the stream goes on and meets the obstacle again."""
SOFTLY = SLOWLY | {"unnoticed_s": 0.8, "force_last": 60}
"""Largest figures of soft drives and soft walls: the former deviate more in free motion, the latter push later."""
INTEGRATED = SLOWLY | {"force_last": 190}
"""Largest figures of drives with integrators, which keep pressing with the torque that they had."""
INSISTS = {"force_most": 190, "short_of_back": 0, "short_of_again": 0.1}
"""Largest figures of senders that go on into an obstacle: it is met again and again, gently."""
FAST = MET | {"force_1s": 70}
"""Largest figures of fast contacts: the command goes back by at most 0.1 rad, so that soft drives keep pressing."""

EXACT = {"most": 1.05, "late_ms": 0, "stands_s": 0, "rejected": 0}
"""Largest figures of chunks without errors, which the command follows to the last bit."""
NOISY = {"rms": 1.25, "stands_s": 0, "rejected": 0}
"""Largest figures of chunks that are off by 5 mrad, with actions off by 1 mrad, at a bandwidth of 2.5 Hz."""
PAUSED = {"most": 1.01, "passed": 1.0, "off": 1e-3, "last": 1e-3}
"""Largest figures of single actions with pauses: it passes a last action by what the fastest stop does, and returns."""


def walled(most: Mapping[str, float], **options: object) -> Scene:
    """Return a scene in which a stream runs into a wall."""
    return Scene(contacts.ran_into, most, walled=True, **options)


def insisting(**options: object) -> Scene:
    """Return a scene in which a sender goes on into a wall."""
    return Scene(contacts.insisting, INSISTS, walled=True, **({"speed": 0.3, "angle": 0.4} | options))


SCENES: dict[str, Scene | smooth.Servoed] = {
    "policy": Scene(free.streamed, FREE),
    "policy at 3 Hz, mixed drives": Scene(free.streamed, FREE, drive="mixed", hz=3.0, rows=20, dt=0.05, bias=0.008),
    "policy, stiff": Scene(free.streamed, FREE, drive="stiff"),
    "policy, UR fed forward": Scene(free.streamed, FREE, arm="ur5e", drive="cascade_ff", share=0.3),
    "policy, hobby": Scene(free.streamed, FREE, share=0.35, **HOBBY),
    "policy, fast": Scene(free.streamed, FREE, share=0.8),
    "first motion is fast, states 80 ms late": Scene(free.streamed, FREE, share=0.8, **LATE),
    "first motion is fast, states 80 ms late, nobody says so": Scene(
        free.streamed, FREE, share=0.8, tells=False, **LATE
    ),
    "fast policy, unlike drives, by chance": Scene(free.streamed, FREE, draw=free.by_chance),
    "goals that change in motion": Scene(free.retargeted, FREE | {"beyond_mrad": 1.0}),
    "policy, soft, 1 kg": Scene(free.streamed, FREE, drive="pd3", payload=1.0),
    "teleoperation": Scene(free.teleoperated, FREE),
    "teleoperation, hobby": Scene(free.teleoperated, {"brakes": 0}, **HOBBY),
    "plans": Scene(free.planned, FREE),
    "plans, soft": Scene(free.planned, FREE, drive="pd3"),
    "replanning from what is measured": Scene(free.replanned, FREE, start_from="measured"),
    "replanning from the command": Scene(free.replanned, FREE, measured=False),
    "slow, hobby": Scene(free.to_and_fro, FREE, **HOBBY),
    "slow, stiction": Scene(free.to_and_fro, FREE, arm="ur5e", drive="pd5"),
    "swing, hobby": Scene(free.swing, FREE, **HOBBY),
    "first motion under a load": Scene(free.cold, FREE, settle=0.0, warms=False, payload=4.0),
    "tilting base": Scene(free.tilting, FREE),
    "wall at 1.0": walled(FAST),
    "wall at 0.5, UR": walled(INTEGRATED, speed=0.5, **UR),
    "wall at 0.5, hobby": walled(MET, speed=0.5, **HOBBY),
    "wall at 0.03": walled(SLOWLY, speed=0.03, **NEAR),
    "wall at 0.03, UR": walled(INTEGRATED, speed=0.03, **NEAR, **UR),
    "wall at 0.05, soft": walled(SOFTLY, drive="pd3", speed=0.05, **NEAR),
    "wall at 0.05, hobby": walled(SLOWLY, speed=0.05, **NEAR, **HOBBY),
    "table at 0.05": walled(SLOWLY, joint=1, speed=0.05, angle=0.1, seconds=4.0),
    "soft wall at 0.1": walled(SOFTLY, speed=0.1, angle=0.2, stiffness=2000.0),
    "wall, streamed back": walled(MET, speed=0.5, streamed=True),
    "wall after slow motion, hobby": walled(MET, speed=0.5, first=0.03, **HOBBY),
    "grasps": Scene(grasps.grasps, GRASPS, **HAND),
    "grasps, SO-101": Scene(grasps.grasps, GRASPS, **SO101),
    "switched hand": Scene(grasps.switched, {"brakes": 0, "between": 0, "off_s": 0.045}, **grasps.SWITCHED),
    "wall at 0.5, with a grasp": walled(MET, speed=0.5, width=0.04, **HAND),
    "wall at 0.03, with a grasp": walled(SLOWLY, speed=0.03, width=0.04, **NEAR, **HAND),
    "wall at 0.5, SO-101, with a grasp": walled(MET, speed=0.5, width=0.03, **SO101),
    "pushed at rest": Scene(contacts.pushed, FREE | {"next_off_mrad": 60}),
    "pushed in motion": Scene(contacts.pushed, FREE, moving=0.5),
    "insisting policy": insisting(),
    "insisting policy, hobby": insisting(**HOBBY),
    "insisting joystick": insisting(what="velocities"),
    "insisting planner": insisting(what="plans"),
    "slipped encoder": Scene(faults.slips, {"way": 0.1, "fastest": 0.1, "unnoticed": 0}, draw=faults.drawn),
    "load that nobody knows": Scene(faults.loaded, {"way": 0.1, "fastest": 0.1, "unnoticed": 0}, **HOBBY),
    "second publisher": Scene(faults.contradicted, {"way": 0.1, "fastest": 0.1, "begun": 0}, draw=faults.drawn),
    "stalled network": Scene(faults.stalled, {"fastest": 1.1}, draw=faults.drawn),
    "stop while the network stalls": Scene(
        faults.stopped_in_a_stall, {"fastest": 1.1, "moves": 0.01}, draw=faults.drawn
    ),
    "misread encoder": Scene(faults.misread, FREE | {"fastest": 1.1}, draw=faults.drawn),
    "missing joint states": Scene(faults.missed, FREE, draw=faults.drawn),
    "obstacle that goes away": Scene(faults.passed_by, {"short": 0.06}, draw=faults.drawn),
    "stop in motion": Scene(power.stopped, FREE | {"announced_off": 0.1}),
    "emergency stop": Scene(power.emergency_stop, {"speed_after": 0.1, "home_off_mrad": 60}),
    "led by a hand": Scene(power.guided, {"warned": 0, "next_speed": 0.8, "home_off_mrad": 60}),
    "led by a hand, restart": Scene(power.guided, {"home_off_mrad": 60}, restart=True),
    "chunks, SO-101 without ROS": smooth.Servoed(smooth.chunks, EXACT),
    "chunks, SO-101 without ROS, 0.8 s": smooth.Servoed(smooth.chunks, EXACT, policy=smooth.SLOW),
    "chunks, ALOHA without ROS": smooth.Servoed(smooth.chunks, EXACT, policy=smooth.ACT, **ALOHA),
    "chunks, ALOHA without ROS, 0.8 s": smooth.Servoed(smooth.chunks, EXACT, policy=smooth.SLOW_ACT, **ALOHA),
    "noisy chunks, SO-101 without ROS": smooth.Servoed(
        smooth.chunks, NOISY, policy=smooth.QUICK._replace(**smooth.OFF), bandwidth=2.5
    ),
    "noisy chunks, ALOHA without ROS": smooth.Servoed(
        smooth.chunks, NOISY, policy=smooth.ACT._replace(**smooth.OFF), bandwidth=2.5, **ALOHA
    ),
    "pauses, SO-101 without ROS": smooth.Servoed(smooth.paused, PAUSED),
    "pauses, ALOHA without ROS": smooth.Servoed(smooth.paused, PAUSED, hz=50.0, **ALOHA),
}

PRESSES = {"force_1s": 190, "force_last": 190}
"""Figures of contacts without reports: nobody knows the controller's command, and the arm presses on."""
WITHOUT: dict[str, Mapping[str, float]] = {
    "wall at 0.03, UR": {"tries": 2},
    "wall at 0.05, hobby": {"unnoticed_s": 1.1},
    "led by a hand": {"home_off_mrad": 500},
}
"""Largest figures that differ without reports; an arm has to rest for 1 s after a hand has led it."""

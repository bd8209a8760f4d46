"""Table of scenes: what is done with which arm, and the largest figures that are allowed."""

from __future__ import annotations

from collections.abc import Mapping

from ..table import SCENES, Scene
from . import contacts, faults, free, grasps, power, smooth
from .scene import physical, servoed

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
LED = {"warned": 0, "next_speed": 0.8, "home_off_mrad": 60}
"""Largest figures after a hand has led the arm; without reports, it has to rest for 1 s then."""
PAUSED = {"most": 1.01, "passed": 1.0, "off": 1e-3, "last": 1e-3}
"""Largest figures of single actions with pauses: it passes a last action by what the fastest stop does, and returns."""


def walled(most: Mapping[str, float], **options: object) -> Scene:
    """Return a scene in which a stream runs into a wall."""
    return physical(contacts.ran_into, most, walled=True, **options)


def insisting(**options: object) -> Scene:
    """Return a scene in which a sender goes on into a wall."""
    return physical(contacts.insisting, INSISTS, walled=True, **({"speed": 0.3, "angle": 0.4} | options))


SCENES |= {
    "policy": physical(free.streamed, FREE),
    "policy at 3 Hz, mixed drives": physical(free.streamed, FREE, drive="mixed", hz=3.0, rows=20, dt=0.05, bias=0.008),
    "policy, stiff": physical(free.streamed, FREE, drive="stiff"),
    "policy, UR fed forward": physical(free.streamed, FREE, arm="ur5e", drive="cascade_ff", share=0.3),
    "policy, hobby": physical(free.streamed, FREE, share=0.35, **HOBBY),
    "policy, fast": physical(free.streamed, FREE, share=0.8),
    "first motion is fast, states 80 ms late": physical(free.streamed, FREE, share=0.8, **LATE),
    "first motion is fast, states 80 ms late, nobody says so": physical(
        free.streamed, FREE, share=0.8, tells=False, **LATE
    ),
    "fast policy, unlike drives, by chance": physical(free.streamed, FREE, draw=free.by_chance),
    "goals that change in motion": physical(free.retargeted, FREE | {"beyond_mrad": 1.0}),
    "policy, soft, 1 kg": physical(free.streamed, FREE, drive="pd3", payload=1.0),
    "teleoperation": physical(free.teleoperated, FREE),
    "teleoperation, hobby": physical(free.teleoperated, {"brakes": 0}, **HOBBY),
    "plans": physical(free.planned, FREE),
    "plans, soft": physical(free.planned, FREE, drive="pd3"),
    "replanning from what is measured": physical(free.replanned, FREE, start_from="measured"),
    "replanning from the command": physical(free.replanned, FREE, measured=False),
    "slow, hobby": physical(free.to_and_fro, FREE, **HOBBY),
    "slow, stiction": physical(free.to_and_fro, FREE, arm="ur5e", drive="pd5"),
    "swing, hobby": physical(free.swing, FREE, **HOBBY),
    "first motion under a load": physical(free.cold, FREE, settle=0.0, warms=False, payload=4.0),
    "tilting base": physical(free.tilting, FREE),
    "wall at 1.0": walled(FAST),
    "wall at 0.5, UR": walled(INTEGRATED, speed=0.5, **UR),
    "wall at 0.5, hobby": walled(MET, speed=0.5, **HOBBY),
    "wall at 0.03": walled(SLOWLY, speed=0.03, **NEAR),
    "wall at 0.03, UR": walled(INTEGRATED, speed=0.03, without={"tries": 2}, **NEAR, **UR),
    "wall at 0.05, soft": walled(SOFTLY, drive="pd3", speed=0.05, **NEAR),
    "wall at 0.05, hobby": walled(SLOWLY, speed=0.05, without={"unnoticed_s": 1.1}, **NEAR, **HOBBY),
    "table at 0.05": walled(SLOWLY, joint=1, speed=0.05, angle=0.1, seconds=4.0),
    "soft wall at 0.1": walled(SOFTLY, speed=0.1, angle=0.2, stiffness=2000.0),
    "wall, streamed back": walled(MET, speed=0.5, streamed=True),
    "wall after slow motion, hobby": walled(MET, speed=0.5, first=0.03, **HOBBY),
    "grasps": physical(grasps.grasps, GRASPS, **HAND),
    "grasps, SO-101": physical(grasps.grasps, GRASPS, **SO101),
    "switched hand": physical(grasps.switched, {"brakes": 0, "between": 0, "off_s": 0.045}, **grasps.SWITCHED),
    "wall at 0.5, with a grasp": walled(MET, speed=0.5, width=0.04, **HAND),
    "wall at 0.03, with a grasp": walled(SLOWLY, speed=0.03, width=0.04, **NEAR, **HAND),
    "wall at 0.5, SO-101, with a grasp": walled(MET, speed=0.5, width=0.03, **SO101),
    "pushed at rest": physical(contacts.pushed, FREE | {"next_off_mrad": 60}),
    "pushed in motion": physical(contacts.pushed, FREE, moving=0.5),
    "insisting policy": insisting(),
    "insisting policy, hobby": insisting(**HOBBY),
    "insisting joystick": insisting(what="velocities"),
    "insisting planner": insisting(what="plans"),
    "slipped encoder": physical(faults.slips, {"way": 0.1, "fastest": 0.1, "unnoticed": 0}, draw=faults.drawn),
    "load that nobody knows": physical(faults.loaded, {"way": 0.1, "fastest": 0.1, "unnoticed": 0}, **HOBBY),
    "second publisher": physical(faults.contradicted, {"way": 0.1, "fastest": 0.1, "begun": 0}, draw=faults.drawn),
    "stalled network": physical(faults.stalled, {"fastest": 1.1}, draw=faults.drawn),
    "stop while the network stalls": physical(
        faults.stopped_in_a_stall, {"fastest": 1.1, "moves": 0.01}, draw=faults.drawn
    ),
    "misread encoder": physical(faults.misread, FREE | {"fastest": 1.1}, draw=faults.drawn),
    "missing joint states": physical(faults.missed, FREE, draw=faults.drawn),
    "obstacle that goes away": physical(faults.passed_by, {"short": 0.06}, draw=faults.drawn),
    "stop in motion": physical(power.stopped, FREE | {"announced_off": 0.1}),
    "emergency stop": physical(power.emergency_stop, {"speed_after": 0.1, "home_off_mrad": 60}),
    "led by a hand": physical(power.guided, LED, without={"home_off_mrad": 500}),
    "led by a hand, restart": physical(power.guided, {"home_off_mrad": 60}, restart=True),
    "chunks, SO-101 without ROS": servoed(smooth.chunks, EXACT),
    "chunks, SO-101 without ROS, 0.8 s": servoed(smooth.chunks, EXACT, policy=smooth.SLOW),
    "chunks, ALOHA without ROS": servoed(smooth.chunks, EXACT, policy=smooth.ACT, **ALOHA),
    "chunks, ALOHA without ROS, 0.8 s": servoed(smooth.chunks, EXACT, policy=smooth.SLOW_ACT, **ALOHA),
    "noisy chunks, SO-101 without ROS": servoed(
        smooth.chunks, NOISY, policy=smooth.QUICK._replace(**smooth.OFF), bandwidth=2.5
    ),
    "noisy chunks, ALOHA without ROS": servoed(
        smooth.chunks, NOISY, policy=smooth.ACT._replace(**smooth.OFF), bandwidth=2.5, **ALOHA
    ),
    "pauses, SO-101 without ROS": servoed(smooth.paused, PAUSED),
    "pauses, ALOHA without ROS": servoed(smooth.paused, PAUSED, hz=50.0, **ALOHA),
}

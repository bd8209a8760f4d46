"""Table of scenarios: what is done with which arm, and the largest figures that are allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from . import contacts, faults, free, grasps, power, smooth

Figures = dict[str, float]
Scenario = tuple[Callable[..., Figures], Mapping[str, float]]
"""A run with a seed, and the largest allowed figures."""

HOBBY = {"arm": "vx300s", "drive": "hobby"}
ALOHA = {"arm": "aloha", "count": 2}
SO101 = {"arm": "so101", "drive": "so101"}
UR = {"arm": "ur5e", "drive": "cascade"}
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
PAUSED = {"most": 1.01, "back": 2.3, "off": 1e-3, "last": 1e-3}
"""Largest figures of single actions with pauses: it passes the last action by about the time of 60 ms, and returns."""

SCENARIOS: dict[str, Scenario] = {
    "policy": (free.streamed, FREE),
    "policy at 3 Hz, mixed drives": (partial(free.streamed, drive="mixed", hz=3.0, rows=20, dt=0.05, bias=0.008), FREE),
    "policy, stiff": (partial(free.streamed, drive="stiff"), FREE),
    "policy, UR fed forward": (partial(free.streamed, arm="ur5e", drive="cascade_ff", share=0.3), FREE),
    "policy, hobby": (partial(free.streamed, share=0.35, **HOBBY), FREE),
    "policy, fast": (partial(free.streamed, share=0.8), FREE),
    "first motion is fast, states 80 ms late": (partial(free.streamed, share=0.8, warms=False, late=0.08), FREE),
    "first motion is fast, states 80 ms late, nobody says so": (
        partial(free.streamed, share=0.8, warms=False, late=0.08, tells=False),
        FREE,
    ),
    "fast policy, unlike drives, by chance": (free.by_chance, FREE),
    "goals that change in motion": (free.retargeted, FREE | {"beyond_mrad": 1.0}),
    "policy, soft, 1 kg": (partial(free.streamed, drive="pd3", payload=1.0), FREE),
    "teleoperation": (free.teleoperated, FREE),
    "teleoperation, hobby": (partial(free.teleoperated, **HOBBY), {"brakes": 0}),
    "plans": (free.planned, FREE),
    "plans, soft": (partial(free.planned, drive="pd3"), FREE),
    "replanning from what is measured": (partial(free.replanned, measured=True), FREE),
    "replanning from the command": (partial(free.replanned, measured=False), FREE),
    "slow, hobby": (partial(free.slow, **HOBBY), FREE),
    "slow, stiction": (partial(free.slow, arm="ur5e", drive="pd5"), FREE),
    "swing, hobby": (partial(free.swing, **HOBBY), FREE),
    "first motion under a load": (free.cold, FREE),
    "tilting base": (free.tilting, FREE),
    "wall at 1.0": (contacts.wall, FAST),
    "wall at 0.5, UR": (partial(contacts.wall, speed=0.5, **UR), INTEGRATED),
    "wall at 0.5, hobby": (partial(contacts.wall, speed=0.5, **HOBBY), MET),
    "wall at 0.03": (partial(contacts.wall, speed=0.03, angle=0.08, seconds=4.0), SLOWLY),
    "wall at 0.03, UR": (partial(contacts.wall, speed=0.03, angle=0.08, seconds=4.0, **UR), INTEGRATED),
    "wall at 0.05, soft": (partial(contacts.wall, drive="pd3", speed=0.05, angle=0.08, seconds=4.0), SOFTLY),
    "wall at 0.05, hobby": (partial(contacts.wall, speed=0.05, angle=0.08, seconds=4.0, **HOBBY), SLOWLY),
    "table at 0.05": (partial(contacts.wall, joint=1, speed=0.05, angle=0.1, seconds=4.0), SLOWLY),
    "soft wall at 0.1": (partial(contacts.wall, speed=0.1, angle=0.2, stiffness=2000.0), SOFTLY),
    "wall, streamed back": (partial(contacts.wall, speed=0.5, streamed=True), MET),
    "wall after slow motion, hobby": (partial(contacts.wall, speed=0.5, first=0.03, **HOBBY), MET),
    "grasps": (grasps.grasps, GRASPS),
    "grasps, SO-101": (partial(grasps.grasps, **SO101), GRASPS),
    "switched hand": (grasps.switched, {"brakes": 0, "between": 0, "off_s": 0.045}),
    "wall at 0.5, with a grasp": (
        partial(contacts.wall, arm=grasps.ARM, drive=grasps.FIRM, speed=0.5, width=0.04),
        MET,
    ),
    "wall at 0.03, with a grasp": (
        partial(contacts.wall, arm=grasps.ARM, drive=grasps.FIRM, speed=0.03, angle=0.08, seconds=4.0, width=0.04),
        SLOWLY,
    ),
    "wall at 0.5, SO-101, with a grasp": (partial(contacts.wall, speed=0.5, width=0.03, **SO101), MET),
    "pushed at rest": (contacts.pushed, FREE | {"next_off_mrad": 60}),
    "pushed in motion": (partial(contacts.pushed, moving=0.5), FREE),
    "insisting policy": (contacts.insisting, INSISTS),
    "insisting policy, hobby": (partial(contacts.insisting, **HOBBY), INSISTS),
    "insisting joystick": (partial(contacts.insisting, what="velocities"), INSISTS),
    "insisting planner": (partial(contacts.insisting, what="plans"), INSISTS),
    "slipped encoder": (faults.slips, {"way": 0.1, "fastest": 0.1, "unnoticed": 0}),
    "second publisher": (faults.contradicted, {"way": 0.1, "fastest": 0.1, "begun": 0}),
    "stalled network": (faults.stalled, {"fastest": 1.1}),
    "stop while the network stalls": (faults.stopped_in_a_stall, {"fastest": 1.1, "moves": 0.01}),
    "misread encoder": (faults.misread, FREE | {"fastest": 1.1}),
    "missing joint states": (faults.missed, FREE),
    "obstacle that goes away": (faults.passed_by, {"short": 0.06}),
    "stop in motion": (power.stopped, FREE | {"announced_off": 0.1}),
    "emergency stop": (power.emergency_stop, {"speed_after": 0.1, "home_off_mrad": 60}),
    "led by a hand": (power.guided, {"warned": 0, "next_speed": 0.8, "home_off_mrad": 60}),
    "led by a hand, restart": (partial(power.guided, restart=True), {"home_off_mrad": 60}),
    "chunks, SO-101 without ROS": (smooth.chunks, EXACT),
    "chunks, SO-101 without ROS, 0.8 s": (partial(smooth.chunks, policy=smooth.SLOW), EXACT),
    "chunks, ALOHA without ROS": (partial(smooth.chunks, policy=smooth.ACT, **ALOHA), EXACT),
    "chunks, ALOHA without ROS, 0.8 s": (partial(smooth.chunks, policy=smooth.SLOW_ACT, **ALOHA), EXACT),
    "noisy chunks, SO-101 without ROS": (
        partial(smooth.chunks, policy=smooth.noisy(smooth.QUICK), bandwidth=2.5),
        NOISY,
    ),
    "noisy chunks, ALOHA without ROS": (
        partial(smooth.chunks, policy=smooth.noisy(smooth.ACT), bandwidth=2.5, **ALOHA),
        NOISY,
    ),
    "pauses, SO-101 without ROS": (smooth.paused, PAUSED),
    "pauses, ALOHA without ROS": (partial(smooth.paused, hz=50.0, **ALOHA), PAUSED),
}

PRESSES = {"force_1s": 190, "force_last": 190}
"""Figures of contacts without reports: nobody knows the controller's command, and the arm presses on."""
WITHOUT: dict[str, Mapping[str, float]] = {
    "wall at 0.03, UR": {"tries": 2},
    "wall at 0.05, hobby": {"unnoticed_s": 1.1},
    "insisting policy, hobby": {"short_of_back": 0.25, "short_of_again": 0.1},
    "led by a hand": {"home_off_mrad": 500},
}
"""Largest figures that differ without reports; an arm has to rest for 1 s after a hand has led it."""

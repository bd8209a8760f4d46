"""Draws docs/figures/policy_on_an_arm.gif: a Panda with masses under a noisy policy, without the node and with it.

Chunks of positions come every 0.1 s, 80 ms after their observation; each is off by 6 mrad, and each row by 1 mrad more
(one sigma). Without the node, rows are points of joint_trajectory_controller. MuJoCo moves the arm. Run this file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure

from rig.physics.arms import ARMS, built
from rig.physics.loop import Log, Loop, Straight
from rig.physics.motions import course, policy
from rig.physics.packages import mujoco_module
from rig.physics.robot import PhysicalRobot
from rig.senders import Motion
from traj_integrator_ros.motions.figures import BLUE, MOTION_GREY, ORANGE

SECONDS = 4.0
"""Duration of the policy, s."""
MAGNIFIED = 10
"""Factor on the drawn arm's deviations from the meant motion, which would be invisible otherwise."""
FRAMES_HZ = 12.5
LINKS = ("link0", *(f"link{i}" for i in range(1, 8)), "hand")


def main() -> None:
    """Simulate both, and draw the arms from the side over the accelerations that their joints feel."""
    path, drawn = Path(__file__).with_suffix(".gif"), Figure(figsize=(9.6, 6.4), dpi=80)
    panels = drawn.subplots(2, 2, sharey="row", height_ratios=(2.4, 1))
    titles = {"joint_trajectory_controller alone": (Straight, ORANGE), "with the node": (Loop, BLUE)}
    columns = zip(panels.T, titles.items(), strict=True)
    frames = [drawer(column, title, *played(kind), color) for column, (title, (kind, color)) in columns]
    panels[1, 0].set_ylabel("acceleration\nof the joints [rad/s²]")
    drawn.text(0.5, 0.01, f"grey: meant by the policy; deviations are drawn {MAGNIFIED} times as large", ha="center")
    drawn.tight_layout(rect=(0, 0.03, 1, 1))
    shown = FuncAnimation(drawn, lambda k: [draw(k) for draw in frames], int(SECONDS * FRAMES_HZ))
    shown.save(path, PillowWriter(FRAMES_HZ))
    print(f"written: {path}")


def played(kind: type[Loop]) -> tuple[Motion, Log]:
    """Return the meant motion, and what the arm makes of the policy's chunks."""
    robot = PhysicalRobot("panda", "stiff")
    robot.settle()
    loop = kind(robot)
    loop.go(0.3)
    begin = loop.now
    meant = course(loop, 4, SECONDS + 1, begin + 0.2, share=0.25)
    policy(loop, meant, SECONDS, bias=0.006, noise=1e-3)
    return meant, loop.log(begin)


def felt(log: Log) -> np.ndarray:
    """Return the accelerations of the joints, rad/s², `[cycles - 1, dof]`."""
    return np.diff(log.speed, axis=0) / np.median(np.diff(log.time))


def drawer(panels: np.ndarray, title: str, meant: Motion, log: Log, color: str) -> Callable[[int], None]:
    """Prepare the panels of one run; returns the function that draws frame k."""
    (arm, strip), accelerations = panels, felt(log)
    arm.set(title=title, xlim=(-0.5, 0.7), ylim=(0.0, 0.85), aspect="equal")
    arm.set_axis_off()
    strip.set(xlim=(0, SECONDS), ylim=(-100, 100), xlabel="time [s]")
    strip.set_title(f"at most {(most := np.abs(accelerations).max()):.2g} rad/s²", fontsize=11)
    print(f"{title}: at most {most:.2g} rad/s²")
    time, wanted = log.time - log.time[0], meant(log.time)[0]
    places, shadows = (chains(wanted + factor * (log.place - wanted)) for factor in (MAGNIFIED, 0))
    ghost = arm.plot([], [], "-o", color=MOTION_GREY, linewidth=10, markersize=12)[0]
    links = arm.plot([], [], "-o", color=color, linewidth=4, markersize=6)[0]
    trace = arm.plot([], [], color=color, linewidth=1)[0]
    curves = strip.plot(time[:1], accelerations[:1], color=color, linewidth=0.7)

    def draw(k: int) -> None:
        n = min(int(np.searchsorted(time, (k + 1) / FRAMES_HZ)), len(time) - 1)
        for line, chain in ((ghost, shadows[n]), (links, places[n]), (trace, places[max(n - 500, 0) : n + 1, -1])):
            line.set_data(chain[:, 0], chain[:, 2])
        for joint, curve in enumerate(curves):
            curve.set_data(time[:n], accelerations[:n, joint])

    return draw


def chains(positions: np.ndarray) -> np.ndarray:
    """Return the places of the links for joint positions `[N, 7]`, m, `[N, links, 3]`."""
    mujoco, arm, model = mujoco_module(), ARMS["panda"], built(ARMS["panda"])
    data, found = mujoco.MjData(model), np.empty((len(positions), len(LINKS), 3))
    for row, position in zip(found, positions, strict=True):
        for name, angle in zip(arm.joints, position, strict=True):
            data.joint(name).qpos = angle
        mujoco.mj_kinematics(model, data)
        row[:] = [data.body(name).xpos for name in LINKS]
    return found


if __name__ == "__main__":
    main()

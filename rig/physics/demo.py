"""A Panda with masses under an optimizer's motion, a jittery policy, a push and a stop: `make demo ARGS=--arm`.

The demo's optimizer asks a node for costs and gradients; its motion is executed, like all that follows, in simulated
time. For comparison, the same input also goes straight to the controller, with rows as points.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kit.node_process import NodeProcess
from traj_integrator_ros.client import IntegratorClient
from traj_integrator_ros.demo.optimizer import Problem, minimized
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.motions.figures import BLUE, MOTION_GREY, ORANGE, figure
from traj_integrator_ros.tools.command_line import ToolFailure

from .arms import ARMS
from .loop import Log, Loop, Straight
from .motions import course, policy
from .packages import Absent, mujoco_module
from .robot import PhysicalRobot

NAME = "panda with a hand"
ARM = ARMS[NAME]
ROWS = 60
"""Number of rows of the optimizer's motion."""
STEP = 0.03
"""Time between two rows, s."""
GOAL = np.array([0.6, 0.3, -0.4, 0.5, 0.3, 0.4, -0.5])
"""Goal, rad from the arm's first position."""
BIAS = 0.006
"""Standard deviation, rad, of the policy's error that is constant in a chunk."""
NOISE = 1e-3
"""Standard deviation, rad, of the policy's error of single rows."""
PUSH_N = 60.0
"""Force on the hand, N."""
PUSH_S = 0.3
"""Duration of the force, s."""
SHARE = 0.25
"""Share of its limits that the arm uses."""
OBJECT_M = 0.04
"""Width of the object that the hand closes around, m."""
CLOSES = 0.15, 0.85
"""Times at which the policy closes and opens the hand, as shares of its own."""
HELD = 0.35
"""Time from which on the object is left to the hand, as a share of the policy's time."""


class Story(NamedTuple):
    """The recorded motion, and the times at which its parts began, s."""

    log: Log
    parts: dict[str, float]
    grasped: str
    """What the node says about the gripper at the time of the push."""


def draw_arm(path: Path, seconds: float) -> None:
    """Draw, with a policy of so many seconds, and print the largest accelerations. Raises ToolFailure."""
    try:
        mujoco_module()
    except Absent as absent:
        raise ToolFailure(str(absent)) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    motion = optimized(np.array(ARMS["panda"].home))
    ways = {"straight to the controller": Straight, "with the node": Loop}
    stories = {name: run_story(kind, seconds, motion) for name, kind in ways.items()}
    for name, story in stories.items():
        commanded, felt = (np.abs(part).max() for part in accelerations(story.log))
        said = f"; grasped: {story.grasped}" if story.grasped else ""
        print(f"{name}: commanded at most {commanded:,.0f} rad/s², felt {felt:,.0f} rad/s²{said}")
    draw(stories, path)
    print(f"written: {path}")


def run_story(kind: type[Loop], seconds: float, motion: tuple[np.ndarray, ...]) -> Story:
    """Run the story with one kind of loop: the optimizer's motion, the policy for `seconds`, the push and the stop."""
    robot = PhysicalRobot(NAME, "stiff")
    robot.settle()
    loop, parts = kind(robot), {}
    loop.go(0.3)
    parts["optimizer"] = loop.now
    times, *rows = motion
    still = zip(rows, (ARM.home[-1], 0.0, 0.0), strict=True)
    loop.plan(times, *(np.pad(values, ((0, 0), (0, 1)), constant_values=finger) for values, finger in still))
    loop.go(ROWS * STEP + 0.5)
    parts["jittery policy"] = begin = loop.now
    pushed_s = begin + 0.6 * seconds
    begun_s = loop.clock_s - loop.now

    def force(time_s: float) -> np.ndarray:
        return np.array([0.0, PUSH_N * (0 <= time_s - begun_s - pushed_s < PUSH_S), 0.0])

    robot.force = force
    parts[f"pushed, {PUSH_N:.0f} N"] = pushed_s
    moves, gripper = course(loop, 4, seconds + 1, begin + 0.2, SHARE), ARM.gripper

    def at(times: np.ndarray) -> np.ndarray:
        states = moves(times)
        closed = np.diff([times < begin + share * seconds for share in CLOSES], axis=0)[0]
        states[0, :, -1] = np.where(closed, gripper.closed, gripper.opened)
        return states

    errors = BIAS * np.minimum(np.subtract(ARM.high, ARM.low), 1.0)
    play = partial(policy, loop, at, bias=errors, noise=errors * NOISE / BIAS)
    robot.object.offer(OBJECT_M)
    play(seconds=HELD * seconds)
    robot.object.let_go()
    play(seconds=(0.6 - HELD) * seconds)
    grasped = ", ".join(grip.told(ARM.joints) for grip in loop.core.grips)
    play(seconds=0.4 * seconds)
    parts["stop"] = loop.now
    loop.stop()
    loop.go(1.0)
    return Story(loop.log(), parts, grasped)


def optimized(here: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return times, positions, velocities and accelerations to the goal, found with the gradient service of a node."""
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    start = dict(zip(("position", "velocity", "acceleration"), (here, 0 * here, 0 * here), strict=True))
    joints, alone = list(ARMS["panda"].joints), ["-r", f"__ns:=/demo_{os.getpid()}"]
    fields = {"joint_names": joints, "control_space": ControlSpace.JERK, "dt": STEP, **start}
    problem = Problem("jerks", fields, here + GOAL, np.zeros((ROWS, len(here))), np.eye(ROWS))
    with tempfile.TemporaryDirectory() as folder, IntegratorClient(name="demo_arm", ros_arguments=alone) as client:
        node = NodeProcess(Path(folder), {"joint_names": joints}, alone)
        try:
            client.wait_until_active()
            found = minimized(problem, client).found
        finally:
            node.stop()
    rows = [values[0, 1:].astype(float) for values in found.outputs[:3]]
    for values in rows[1:]:
        values[-1] = 0.0  # as nearly as the weights ask for
    return STEP * np.arange(1, ROWS), *rows


def accelerations(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """Return accelerations of the arm, commanded from cycle to cycle and those of the joints, rad/s²."""
    cycle_s = float(np.median(np.diff(log.time)))
    command, speed = log.command[:, :-1], log.speed[:, :-1]
    return np.diff(command, 2, axis=0) / cycle_s**2, np.diff(speed, axis=0) / cycle_s


def draw(stories: dict[str, Story], path: Path) -> None:
    """Draw positions of the joint that moves most, and the accelerations of all, side by side."""
    with figure(path, 13, 8.5) as drawn:
        panels = drawn.subplots(4, len(stories), sharex=True, sharey="row")
        for column, (name, (log, parts, _)), color in zip(panels.T, stories.items(), (ORANGE, BLUE), strict=True):
            joint = int(np.ptp(log.command, axis=0).argmax())
            column[0].plot(log.time, log.command[:, joint], color=color, label="commanded")
            column[0].plot(log.time, log.place[:, joint], color=MOTION_GREY, linestyle="--", label="the joint")
            column[0].set_title(name, loc="left")
            column[0].legend(loc="lower right")
            low, high = column[0].get_ylim()
            column[0].set_ylim(low, high + 0.15 * (high - low))
            kinds = "commanded", "felt by the joints"
            for axes, values, what in zip(column[1:3], accelerations(log), kinds, strict=True):
                axes.plot(log.time[-len(values) :], values, color=color, linewidth=0.8)
                axes.set_yscale("symlog", linthresh=20)
                axes.set_title(f"{what}: at most {np.abs(values).max():,.0f} rad/s²", loc="left")
            column[3].plot(log.time, 1e3 * log.command[:, -1], color=color)
            column[3].plot(log.time, 1e3 * log.place[:, -1], color=MOTION_GREY, linestyle="--")
            column[3].set_title(f"a finger, and half of an object of {1e3 * OBJECT_M:.0f} mm", loc="left")
            column[3].axhline(500 * OBJECT_M, color="black", linewidth=0.5)
            for axes in column:
                for begin in parts.values():
                    axes.axvline(begin, color="black", linewidth=0.8, linestyle=":")
            for part, begin in parts.items():
                column[0].text(begin + 0.05, high, part, fontsize=9)
            column[3].set_xlabel("time [s]")
        for axes, label in zip(panels[:, 0], ("position [rad]", *["acceleration [rad/s²]"] * 2, "[mm]"), strict=True):
            axes.set_ylabel(label)

"""The demo's figures: the motion with the node's trajectories, and the optimizers' results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..client import JointMotion
from ..execution.limits import extremes
from ..kernels.types import ControlSpace
from ..motions.figures import BLUE, JOINT_COLORS, MOTION_GREY, ORANGE, at_least, figure, short_name, tight_time
from ..motions.samples import QUANTITIES
from ..motions.units import JointUnits
from .main_job import Answer, MainJob
from .optimizer import Result
from .planned import limits_of
from .recording import repeated
from .report import commanded

COLORS = dict(zip(ControlSpace, JOINT_COLORS[:5], strict=True))
FLOOR = 1e-8
"""Relative cost below which only the rounding of float32 is left."""
CYCLE = 0.001
"""Cycle of a controller, s."""
_OUTSIDE = {"ncols": 4, "fontsize": 10}


def draw_trajectories(job: MainJob, path: Path) -> None:
    """Draw the velocities of all joints, one joint after a start, and the commands of the liveliest trajectory."""
    windows = sorted(job.answers.values(), key=lambda answer: answer.time)
    names = job.planned.joint_names
    with figure(path, 15, max(8.0, 1.15 * len(names) + 1.2)) as drawn:
        title = f"Integrated trajectories over the motion they were planned on ({job.recording.kind})"
        drawn.suptitle(title, fontsize=15)
        left, right = drawn.subfigures(1, 2, width_ratios=[1.35, 1])
        _draw_all_joints(left.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0], job, windows)
        above, below = right.subfigures(2, 1, height_ratios=[3, 2])
        if starts := [answer for answer in windows if answer.space is ControlSpace.JERK]:
            _draw_start(above.subplots(3, 1, sharex=True), job, max(starts, key=lambda answer: _power(answer).max()))
        if motions := [motion for motion in job.motions if len(motion.time_from_start) > 1]:
            motion = max(motions, key=lambda one: np.abs(extremes(commanded(one))[:, 2]).max())
            draw_commanded(below.subplots(2, 1, sharex=True), motion, limits_of(names))


def _draw_all_joints(panels: np.ndarray, job: MainJob, windows: list[Answer]) -> None:
    """Draw each window from its start to that of the next one, over the planned motion."""
    planned, again = job.planned, job.recording.time[repeated(job.recording)]
    ends = [answer.time for answer in windows[1:]] + [planned.duration]
    for joint, (axes, name) in enumerate(zip(panels, planned.joint_names, strict=True)):
        axes.plot(planned.time, planned.velocity[:, joint], color=MOTION_GREY, linewidth=5, label="planned motion")
        labels = {space: f"integrated {space.name.lower()}" for space in COLORS}
        for answer, end in zip(windows, ends, strict=True):
            time, velocity = answer.time + answer.batch.time_from_start, answer.batch.velocity[0, :, joint]
            shown = slice(np.searchsorted(time, end) + 1)
            label = labels.pop(answer.space, None)
            axes.plot(time[shown], velocity[shown], color=COLORS[answer.space], linewidth=1.4, label=label)
        if len(again):
            axes.plot(again, 0 * again + 0.03, "k^", transform=axes.get_xaxis_transform(), label="repeated frame")
        axes.set_ylabel(f"velocity\n[{JointUnits().in_figures(name)[1]}]", fontsize=10)
        axes.set_title(short_name(name), loc="left", fontsize=11, pad=2)
        at_least(axes, planned.velocity)
        axes.locator_params(axis="y", nbins=3)
        tight_time(axes, 0.0, planned.duration)
    panels[-1].set_xlabel("time in the motion [s]")
    panels[0].figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", **_OUTSIDE)


def _power(answer: Answer) -> np.ndarray:
    """Return the product of velocity and acceleration at a window's start, `[dof]`."""
    return np.abs(answer.batch.velocity[0, 0] * answer.batch.acceleration[0, 0])


def _draw_start(panels: np.ndarray, job: MainJob, answer: Answer) -> None:
    """Draw position, velocity and acceleration of the liveliest joint around the start of a window."""
    planned, joint, color = job.planned, int(_power(answer).argmax()), COLORS[answer.space]
    time, name = answer.time + answer.batch.time_from_start, planned.joint_names[joint]
    begin, end = time[0] - 0.15 * (time[-1] - time[0]), time[-1]
    # One sample more on either side, so that the line reaches the edges of the panel.
    shown = slice(max(0, np.searchsorted(planned.time, begin) - 1), np.searchsorted(planned.time, end) + 1)
    for axes, quantity, unit in zip(panels, QUANTITIES, JointUnits().in_figures(name), strict=False):
        own, rows = getattr(planned, quantity)[shown, joint], getattr(answer.batch, quantity)[:, :, joint]
        axes.plot(planned.time[shown], own, color=MOTION_GREY, linewidth=6, label="planned motion")
        candidates = axes.plot(time, rows[1:].T, color=color, linewidth=0.8, alpha=0.35)
        candidates[0].set_label("perturbed candidates")
        axes.plot(time, rows[0], color=color, linewidth=1.8, label=f"integrated {answer.space.name.lower()}")
        axes.plot(time[0], rows[0, 0], "o", color=color, markersize=8, markeredgecolor="white", zorder=5)
        axes.set_ylabel(f"{quantity}\n[{unit}]")
        tight_time(axes, begin, end)
    panels[0].set_title(f"{short_name(name)}: candidates that start in motion (dot)", loc="left")
    panels[0].legend(loc="best", fontsize=10)
    panels[-1].set_xlabel("time in the motion [s]")


def draw_commanded(panels: np.ndarray, trajectory: JointMotion, limits: Mapping[str, np.ndarray]) -> None:
    """Draw velocity and acceleration of the liveliest joint at 1 kHz, with the trajectory's points and its limits."""
    motion, knots = commanded(trajectory), trajectory.time_from_start
    times = np.arange(0.0, motion.duration, CYCLE)
    states = motion.states_at(times)
    joint = int(np.abs(states[2]).max(axis=0).argmax())
    units, name = JointUnits().in_figures(trajectory.joint_names[joint]), short_name(trajectory.joint_names[joint])
    for order, (axes, quantity) in enumerate(zip(panels, ("velocity", "acceleration"), strict=True), start=1):
        axes.plot(knots[0] + times, states[order, :, joint], color=BLUE, linewidth=1.8, label="between, at 1 kHz")
        if (values := getattr(trajectory, quantity)) is not None:
            axes.plot(knots, values[:, joint], "o", color=ORANGE, markersize=4, label="points of the message")
        for sign in (-1, 1) if quantity in limits else ():
            label = "limit" if sign > 0 else None
            axes.axhline(sign * limits[quantity][joint], color="black", linewidth=1, linestyle="--", label=label)
        axes.set_ylabel(f"{quantity}\n[{units[order]}]")
    most = np.abs(extremes(motion)[:, 2, joint]).max()
    panels[0].set_title(f"{name}: commanded, at most {most:.3g} {units[2]}", loc="left")
    panels[0].legend(loc="best", fontsize=10, ncols=3)
    panels[-1].set_xlabel("time from the start of the trajectory [s]")


def draw_optimizer(result: Result, path: Path) -> None:
    """Draw cost above the optimum against iterations, and the motion of all joints."""
    problem, costs = result.problem, result.costs
    with figure(path, 15, 8) as drawn:
        subtitle = f"by L-BFGS over {len(problem.guess)} {problem.name} and ~/evaluate ({result.calls} calls)"
        drawn.suptitle(f"Least jerk to a goal at rest, {subtitle}", fontsize=15)
        left, right = drawn.subfigures(1, 2, width_ratios=[1, 1.6])
        axes = left.subplots()
        gaps = np.maximum(np.abs(np.array(costs) / result.optimum - 1), FLOOR)
        axes.semilogy(gaps, "o-", color=BLUE, linewidth=2, markersize=6, label="cost")
        axes.axhspan(FLOOR / 10, 1e-6, color="#E4E4E4", zorder=0, label="rounding of float32")
        axes.set_ylim(FLOOR / 2, 10 * max(1.0, gaps.max()))
        axes.set_xlabel("iteration")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylabel("(cost - closed-form optimum) / optimum")
        axes.set_title(f"cost {costs[0]:.3g} to {costs[-1]:.6g}, optimum {result.optimum:.6g}", loc="left")
        left.legend(loc="outside lower center", **_OUTSIDE)  # a curve may cross the legend inside of the axes
        _draw_motion(right.subplots(2, 2, sharex=True), result)


def _draw_motion(panels: np.ndarray, result: Result) -> None:
    found, time, names = result.found, result.found.time_from_start, result.found.joint_names
    # Both units where some joints lift: [rad/s, m/s].
    kinds = sorted({JointUnits().in_figures(name) for name in names}, reverse=True)
    for axes, quantity, units in zip(panels.flat, QUANTITIES, zip(*kinds, strict=True), strict=True):
        rows, goal = getattr(found, quantity)[0], result.problem.goal * (quantity == "position")
        axes.set_prop_cycle(color=[JOINT_COLORS[joint % len(JOINT_COLORS)] for joint in range(len(names))])
        # an action is held over the step that ends at its point; before the start there is no action
        if quantity == "jerk":
            axes.step(time[1:], rows[1:], where="pre", linewidth=2)
        else:
            axes.plot(time, rows, linewidth=2, label=[*map(short_name, names)])
            edge = {"markeredgecolor": "white", "zorder": 5, "clip_on": False}
            axes.plot(time[:1], rows[:1], "o", markersize=7, **edge)
            axes.plot(time[-1:], goal[None], "*", markersize=12, **edge)
        axes.set_ylabel(f"{quantity} [{', '.join(units)}]")
        tight_time(axes, 0.0, time[-1])
    for axes in panels[-1]:
        axes.set_xlabel("time [s]")
    panels[0, 0].set_title("start in motion: dots, goal at rest: stars", loc="left")
    panels[0, 0].figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", **_OUTSIDE)

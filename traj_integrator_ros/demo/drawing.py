"""The demo's figures: trajectories.png has the motion, the node's trajectories, and a close-up of a start in motion;
optimizer.png and goal.png have costs that approach their closed-form optimum, and the motions found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..execution.limits import extremes
from ..kernels.types import FiniteDifference
from ..motions.figures import BLUE, JOINT_COLORS, MOTION_GREY, ORANGE, at_least, figure, short_name, tight_time
from ..motions.samples import QUANTITIES
from ..motions.units import JointUnits
from ..tools.checker import motion_between
from .goal_problem import POINTS, Steering
from .metrics import CYCLE, Commanded, Kept, scheme_of
from .motion import accelerations
from .optimizer import OptimizerResult
from .planned import limits_of
from .report import OPTIMIZER_GAP, Outcome, robot_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = {FiniteDifference.BACKWARD: BLUE, FiniteDifference.CENTRAL: ORANGE}
FLOOR = 1e-8
"""Relative cost below which there is only the rounding of float32 trajectories."""
DASHED = {"color": "black", "linewidth": 1, "linestyle": (0, (6, 4))}


def draw_trajectories(outcome: Outcome, path: Path) -> None:
    """Draw velocities of all joints over the whole motion, and position, velocity, acceleration of one joint after a
    start.
    """
    names = outcome.prepared.recording.joint_names
    windows = _position_windows(outcome.kept)
    with figure(path, 15, max(8.0, 1.15 * len(names) + 1.2)) as drawn:
        drawn.suptitle(_title(outcome), fontsize=15)
        left, right = drawn.subfigures(1, 2, width_ratios=[1.35, 1])
        _draw_all_joints(left.subplots(len(names), 1, sharex=True), outcome, windows)
        above, below = right.subfigures(2, 1, height_ratios=[3, 2])
        if windows:
            _draw_start(above.subplots(3, 1, sharex=True), outcome, _liveliest_starts(windows))
        if outcome.measured.commanded.liveliest is not None:
            draw_commanded(below.subplots(2, 1, sharex=True), outcome.measured.commanded, limits_of(names))


def _title(outcome: Outcome) -> str:
    errors = [(scheme.value, bound.error) for scheme, bound in outcome.velocity.items()]
    listed = ", ".join(f"{name} {error:.4f} rad/s" for name, error in errors if error is not None)
    name = robot_name(outcome.prepared.recording)
    return f"{name}: integrated trajectories against the motion. RMS velocity error: {listed}"


def _position_windows(kept: list[Kept]) -> dict[FiniteDifference, list[Kept]]:
    """Answered position windows by the scheme they were answered with, in the order of their starts."""
    found: dict[FiniteDifference, list[Kept]] = {}
    for item in kept:
        scheme = scheme_of(item.window, item.batch)
        if scheme is not None:
            found.setdefault(scheme, []).append(item)
    return {scheme: sorted(items, key=lambda item: item.window.first) for scheme, items in found.items()}


def _curve(item: Kept, quantity: str, row: int, joint: int) -> tuple[np.ndarray, np.ndarray]:
    """Times [s] in the motion and values of one row and joint, from the start state to the end or the held action."""
    window, values = item.window, getattr(item.batch, quantity)[row, :, joint]
    time = window.path.motion.time[window.first : window.first + window.horizon + 1]
    if scheme_of(window, item.batch) is FiniteDifference.CENTRAL:
        valid = window.horizon - 1
        return time[:valid], values[1 : 1 + valid]
    time = time[: item.batch.position.shape[1]]
    if quantity == "velocity":  # velocities of the previous step: at its middle, except for the start state
        time = np.concatenate([time[:1], (time[1:] + time[:-1]) / 2])
    return time, values


def _draw_all_joints(panels: np.ndarray, outcome: Outcome, windows: dict[FiniteDifference, list[Kept]]) -> None:
    recording, cleaned = outcome.prepared.recording, outcome.prepared.cleaned
    again = recording.time[recording.repeated]
    markers = {"color": "black", "markersize": 4, "clip_on": False, "label": "repeated frame in the recording"}
    for joint, axes in enumerate(panels):
        own = cleaned.velocity[:, joint]
        axes.plot(cleaned.time, own, color=MOTION_GREY, linewidth=5, label="motion's own velocity")
        for scheme, items in windows.items():
            label = f"integrated, {scheme.value} differences"
            axes.plot(*_joined(items, joint), color=COLORS[scheme], linewidth=1.4, label=label)
        if len(again):
            axes.plot(again, np.full(len(again), 0.03), "^", transform=axes.get_xaxis_transform(), **markers)
        axes.set_ylabel(f"velocity\n[{JointUnits().in_figures(recording.joint_names[joint])[1]}]", fontsize=10)
        axes.set_title(short_name(recording.joint_names[joint]), loc="left", fontsize=11, pad=2)
        at_least(axes, cleaned.velocity)
        axes.locator_params(axis="y", nbins=3)
        tight_time(axes, 0.0, cleaned.duration)
    panels[-1].set_xlabel("time in the motion [s]")
    handles, labels = panels[0].get_legend_handles_labels()
    panels[0].figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=11)


def _joined(items: list[Kept], joint: int) -> tuple[np.ndarray, np.ndarray]:
    """Velocity of one joint over the motion: every window from its start to the start of the next one, with gaps
    between.
    """
    times, values = [], []
    for item, following in zip(items, [*items[1:], None], strict=True):
        time, velocity = _curve(item, "velocity", 0, joint)
        if following is not None:
            shown = time < following.window.path.motion.time[following.window.first]
            time, velocity = time[shown], velocity[shown]
        times += [time, [np.nan]]
        values += [velocity, [np.nan]]
    return np.concatenate(times), np.concatenate(values)


def _liveliest_starts(windows: dict[FiniteDifference, list[Kept]]) -> list[Kept]:
    """The window that starts fastest and accelerating, and the nearest one of the other scheme, if there is one."""
    first, *others = windows.values()
    chosen = max(first, key=lambda item: _liveliest(item)[1])
    return [chosen, *(min(items, key=lambda item: abs(item.window.first - chosen.window.first)) for items in others)]


def _liveliest(item: Kept) -> tuple[int, float]:
    """The joint that starts with the largest product of velocity and acceleration, and that product."""
    power = np.abs(item.window.start[1] * item.window.start[2])
    return int(np.argmax(power)), float(power.max())


def _draw_start(panels: np.ndarray, outcome: Outcome, items: list[Kept]) -> None:
    """Position, velocity and acceleration of the liveliest joint around the start of one window of each scheme."""
    joint = _liveliest(items[0])[0]
    name = outcome.prepared.recording.joint_names[joint]
    motion, cleaned = outcome.prepared.planned, outcome.prepared.cleaned
    times = [_curve(item, "position", 0, 0)[0] for item in items]
    begin, end = min(time[0] for time in times), max(time[-1] for time in times)
    begin -= 0.15 * (end - begin)
    # One sample more on either side, so that the line reaches the edges of the panel.
    shown = slice(max(0, np.searchsorted(motion.time, begin) - 1), np.searchsorted(motion.time, end) + 1)
    truth = (motion.position, cleaned.velocity, accelerations(motion))
    for axes, quantity, values, unit in zip(panels, QUANTITIES, truth, JointUnits().in_figures(name), strict=False):
        axes.plot(motion.time[shown], values[shown, joint], color=MOTION_GREY, linewidth=6, label="motion")
        for item in items:
            scheme = scheme_of(item.window, item.batch)
            color, label = COLORS[scheme], "perturbed candidates" if item is items[0] else None
            for row in range(1, len(item.batch.position)):
                curve = _curve(item, quantity, row, joint)
                axes.plot(*curve, color=color, linewidth=0.8, alpha=0.35, label=label if row == 1 else None)
            time, got = _curve(item, quantity, 0, joint)
            axes.plot(time, got, color=color, linewidth=1.8, label=f"integrated, {scheme.value}")
            axes.plot(time[0], got[0], "o", color=color, markersize=8, markeredgecolor="white", zorder=5)
        axes.set_ylabel(f"{quantity}\n[{unit}]")
        tight_time(axes, begin, end)
    largest = outcome.prepared.largest_acceleration
    for sign in (-1, 1):
        panels[2].axhline(sign * largest, **DASHED)
    low, high = panels[2].get_ylim()
    panels[2].set_ylim(min(low, -1.2 * largest), max(high, 1.3 * largest))
    place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "xytext": (0, 3)}
    panels[2].annotate("largest of the whole motion", (0.995, largest), ha="right", fontsize=10, **place)
    ratio, limit = outcome.start_up.get(outcome.closest_start_up, (np.nan, np.nan))
    spike = "without a spike" if ratio <= limit else f"up to {ratio:.1f} x the largest acceleration"
    panels[0].set_title(f"{short_name(name)}: starts in motion (dots), {spike}", loc="left")
    panels[-1].set_xlabel("time in the motion [s]")
    panels[0].legend(loc="best", fontsize=10)


def draw_commanded(panels: np.ndarray, commanded: Commanded, limits: Mapping[str, np.ndarray]) -> None:
    """Velocity and acceleration of the joint with most motion at 1 kHz, with the trajectory's points and its limits."""
    trajectory = commanded.liveliest
    motion = motion_between(trajectory)
    times = np.arange(0.0, motion.duration, CYCLE)
    states = motion.states_at(times)
    joint = int(np.abs(states[2]).max(axis=0).argmax())
    knots = [point.time_ns * 1e-9 for point in trajectory.points]
    units = JointUnits().in_figures(trajectory.joint_names[joint])
    fields = (("velocity", "velocities"), ("acceleration", "accelerations"))
    for order, (axes, (quantity, field)) in enumerate(zip(panels, fields, strict=True), start=1):
        axes.plot(knots[0] + times, states[order, :, joint], color=BLUE, linewidth=1.8, label="commanded, 1 kHz")
        values = trajectory.rows(field)
        if values is not None:
            axes.plot(knots, values[:, joint], "o", color=ORANGE, markersize=4, label="points of the message")
        if quantity in limits:
            for sign in (-1, 1):
                label = "limit" if sign > 0 else None
                axes.axhline(sign * limits[quantity][joint], label=label, **DASHED)
        axes.set_ylabel(f"{quantity}\n[{units[order]}]")
    name, most = short_name(trajectory.joint_names[joint]), np.abs(extremes(motion)[:, 2, joint]).max()
    panels[0].set_title(f"{name}: commanded between the points, at most {most:.3g} {units[2]}", loc="left")
    panels[0].legend(loc="best", fontsize=10)
    panels[-1].set_xlabel("time from the start of the trajectory [s]")


def draw_optimizer(results: Mapping[Steering, OptimizerResult], path: Path) -> None:
    """Draw the problem over jerks: cost above optimum against iterations, and the motion of all joints."""
    result = results[Steering.JERKS]
    what = f"({result.calls} calls, {result.seconds:.1f} s)"
    _draw([result], f"Least jerk to a goal at rest, by L-BFGS over ~/integrate and ~/compute_gradient {what}", path)


def draw_goal(results: Mapping[Steering, OptimizerResult], path: Path) -> None:
    """Draw the problem over the control points of a spline that ends in the goal, beside the one over positions."""
    spline, positions = results[Steering.SPLINE], results[Steering.POSITIONS]
    title = (
        f"Least jerk to a goal at rest, by {POINTS} control points and the goal in the sequence ({spline.calls} calls, "
        f"{spline.seconds:.1f} s), beside {positions.problem.steering.rows} positions ({positions.calls} calls, "
        f"{positions.seconds:.1f} s)"
    )
    _draw([spline, positions], title, path)


def _draw(results: Sequence[OptimizerResult], title: str, path: Path) -> None:
    """Costs of all results, motion of the first."""
    with figure(path, 15, 8) as drawn:
        drawn.suptitle(title, fontsize=15)
        left, right = drawn.subfigures(1, 2, width_ratios=[1, 1.6])
        _draw_convergence(left.subplots(), results)
        _draw_motion(right.subplots(2, 2, sharex=True), results[0], alone=len(results) == 1)


def _draw_convergence(axes: Axes, results: Sequence[OptimizerResult]) -> None:
    highest = 1.0
    for result in results:
        optimum, steering = result.optimum.cost, result.problem.steering
        gaps = np.maximum(np.abs(np.array(result.iteration_costs) - optimum) / optimum, FLOOR)
        highest = max(highest, gaps.max())
        color = ORANGE if steering is Steering.POSITIONS else BLUE
        axes.semilogy(range(len(gaps)), gaps, "o-", color=color, linewidth=2, markersize=6, label=steering.value)
    axes.axhline(OPTIMIZER_GAP, label=f"bound {OPTIMIZER_GAP:g}", **DASHED)
    axes.axhspan(FLOOR / 10, 1e-6, color="#E4E4E4", zorder=0, label="rounding of float32 trajectories")
    axes.set_ylim(FLOOR / 2, 10 * highest)
    axes.set_xlabel("iteration")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("(cost - closed-form optimum) / optimum")
    first = results[0]
    whose = f"{first.problem.steering.value}: " if len(results) > 1 else ""
    begin, end = first.iteration_costs[0], first.iteration_costs[-1]
    axes.set_title(f"{whose}cost {begin:.3g} to {end:.6g}, optimum {first.optimum.cost:.6g}", loc="left")
    # Below the axes: inside, a curve may cross whatever is written.
    axes.figure.legend(loc="outside lower center", ncols=2, fontsize=11)


def _draw_motion(panels: np.ndarray, result: OptimizerResult, *, alone: bool) -> None:
    problem = result.problem
    time = np.arange(problem.steering.rows) * problem.steering.dt
    # Both units where some joints lift: [rad/s, m/s].
    kinds = sorted({JointUnits().in_figures(name) for name in problem.joint_names}, reverse=True)
    all_units = [", ".join(names) for names in zip(*kinds, strict=True)]
    for axes, quantity, unit in zip(panels.flat, QUANTITIES, all_units, strict=True):
        for joint in range(len(problem.goal)):
            color = JOINT_COLORS[joint % len(JOINT_COLORS)]
            found = getattr(result.found, quantity)[:, joint]
            if quantity == "jerk":  # held over the step that leads to the point; there is none before the start
                axes.step(time[1:], found[1:], where="pre", color=color, linewidth=2)
                continue
            axes.plot(time, found, color=color, linewidth=2, label=short_name(problem.joint_names[joint]))
            axes.plot(0, found[0], "o", color=color, markersize=7, markeredgecolor="white", zorder=5, clip_on=False)
            goal = problem.goal[joint] if quantity == "position" else 0.0
            axes.plot(time[-1], goal, "*", color=color, markersize=12, markeredgecolor="white", zorder=5, clip_on=False)
        axes.set_ylabel(f"{quantity} [{unit}]")
        tight_time(axes, 0.0, time[-1])
    for axes in panels[-1]:
        axes.set_xlabel("time [s]")
    whose = "" if alone else f"by {problem.steering.value}; "
    panels[0, 0].set_title(f"{whose}start in motion: dots, goal at rest: stars", loc="left")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    panels[0, 0].figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=11)

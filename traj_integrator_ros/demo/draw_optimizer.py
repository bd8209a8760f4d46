"""The figures optimizer.png and goal.png: costs approaching their closed-form optimum, and the motions found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from ..motions.figures import BLUE, JOINT_COLORS, ORANGE, figure, short_name, tight_time
from ..motions.units import JointUnits
from .goal_problem import POINTS, Steering
from .optimizer import OptimizerResult
from .report import OPTIMIZER_GAP

FLOOR = 1e-8
"""Relative cost below which there is only the rounding of float32 trajectories."""
_COLORS = {Steering.JERKS: BLUE, Steering.SPLINE: BLUE, Steering.POSITIONS: ORANGE}


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
        axes.semilogy(
            range(len(gaps)), gaps, "o-", color=_COLORS[steering], linewidth=2, markersize=6, label=steering.value
        )
    dashes = {"color": "black", "linewidth": 1, "linestyle": (0, (6, 4))}
    axes.axhline(OPTIMIZER_GAP, label=f"bound {OPTIMIZER_GAP:g}", **dashes)
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
    quantities = ("position", "velocity", "acceleration", "jerk")
    # Both units where some joints lift: [rad/s, m/s].
    kinds = sorted({JointUnits().in_figures(name) for name in problem.joint_names}, reverse=True)
    all_units = [", ".join(names) for names in zip(*kinds, strict=True)]
    for axes, quantity, unit in zip(panels.flat, quantities, all_units, strict=True):
        for joint in range(problem.dof):
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

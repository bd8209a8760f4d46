"""The figure optimizer.png: how the cost approaches its closed-form optimum, and the motion that was found."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..motions.figures import BLUE, JOINT_COLORS, figure, short_name, tight_time, units
from .optimizer import OptimizerResult
from .report import OPTIMIZER_GAP

FLOOR = 1e-8
"""Relative; below it lies the rounding of float32 trajectories."""


def draw_optimizer(result: OptimizerResult, path: Path) -> None:
    """Draw cost above optimum against iterations, and position, velocity, acceleration and jerk of all joints."""
    with figure(path, 15, 8) as drawn:
        drawn.suptitle(
            f"Least jerk to a goal at rest, by L-BFGS over ~/integrate and ~/compute_gradient ({result.calls} calls, "
            f"{result.seconds:.1f} s)",
            fontsize=15,
        )
        left, right = drawn.subfigures(1, 2, width_ratios=[1, 1.6])
        _draw_convergence(left.subplots(), result)
        _draw_motion(right.subplots(2, 2, sharex=True), result)


def _draw_convergence(axes, result: OptimizerResult) -> None:
    optimum = result.optimum.cost
    gaps = np.maximum(np.abs(np.array(result.iteration_costs) - optimum) / optimum, FLOOR)
    axes.semilogy(range(len(gaps)), gaps, "o-", color=BLUE, linewidth=2, markersize=6)
    axes.axhline(OPTIMIZER_GAP, color="black", linewidth=1, linestyle=(0, (6, 4)))
    axes.annotate(
        f"bound {OPTIMIZER_GAP:g}",
        (0.0, OPTIMIZER_GAP),
        xycoords=("axes fraction", "data"),
        xytext=(6, 4),
        textcoords="offset points",
        fontsize=11,
    )
    axes.axhspan(FLOOR / 10, 1e-6, color="#F0F0F0", zorder=0)
    axes.annotate(
        "rounding of float32 trajectories",
        (0.0, 3e-7),
        xycoords=("axes fraction", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        fontsize=11,
        color="#555555",
    )
    axes.set_ylim(FLOOR / 2, max(10.0, 4 * gaps.max()))
    axes.set_xlabel("iteration")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("(cost - closed-form optimum) / optimum")
    axes.set_title(
        f"cost {result.iteration_costs[0]:.3g} to {result.iteration_costs[-1]:.6g}, optimum {optimum:.6g}", loc="left"
    )


def _draw_motion(panels: np.ndarray, result: OptimizerResult) -> None:
    problem = result.problem
    time = np.arange(problem.horizon) * problem.dt
    quantities = ("position", "velocity", "acceleration", "jerk")
    # Both units where some joints lift: [rad/s, m/s].
    kinds = sorted({units(name) for name in problem.joint_names}, reverse=True)
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
    panels[0, 0].set_title("start in motion: dots, goal at rest: stars", loc="left")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    panels[0, 0].figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=11)

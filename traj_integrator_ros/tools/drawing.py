"""The figures of motions: the quantities of every joint with limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..execution.limits import Violation
from ..limits.joint_limits import JointLimits, excess
from ..motions.figures import BLUE, MOTION_GREY, ORANGE, at_least, figure, short_name, tight_time
from ..motions.samples import QUANTITIES, Samples
from .robot import Robot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURES = (".png", ".pdf", ".svg")
COLUMN_INCHES = 4.2
"""Width of a column of panels, inches."""
ROW_INCHES = 1.75
"""Height of a row of panels, inches."""
HEAD_INCHES = 0.7
"""Height of the title and the headings, inches."""
_FITTED = 8
"""Largest number of joints whose panels are laid out by the sizes of their texts, which is slow."""
_FEW_TICKS = 4
"""Largest number of intervals between ticks where more joints than `_FITTED` are drawn: ticks take most of the time."""
_BESIDE_TICKS = -0.2
"""Place of the joints' labels in such a figure, as a share of a panel's width."""
SHOWN_LIMIT = 3.0
"""Distance of a limit, as a multiple of the motion's range, beyond which it is given as text: it would flatten the
curve.
"""

LEAST_SPANS = {"position": 1e-4, "velocity": 1e-4, "acceleration": 1e-3, "jerk": 1e-2}
"""Smallest ranges of axes: rad, rad/s, rad/s², rad/s³."""


@dataclass(frozen=True)
class Curve:
    """One quantity over time: `time` [N] s, `values` [N, D]; `differences` where it was derived from another."""

    time: np.ndarray
    values: np.ndarray
    differences: bool


def curves(samples: Samples) -> dict[str, Curve]:
    """Return the four quantities; missing ones are differences of the previous one, at the middles of steps."""
    found: dict[str, Curve] = {}
    for name in QUANTITIES:
        values = getattr(samples, name)
        if values is not None:
            last = found[name] = Curve(samples.time, values, differences=False)
        elif len(last.time) > 1:
            steps = np.diff(last.time)
            slopes = np.diff(last.values, axis=0) / steps[:, None]
            last = found[name] = Curve(last.time[:-1] + steps / 2, slopes, differences=True)
    return found


def draw_motion(
    path: Path,
    samples: Samples,
    robot: Robot,
    joints: Sequence[str] | None = None,
    reference: Samples | None = None,
    title: str = "",
) -> None:
    """Draw a motion in the format of the suffix; `reference` is drawn behind it, by the same joint names."""
    units, shown = robot.units, list(joints or samples.joint_names)
    drawn, behind = curves(samples), curves(reference) if reference is not None else {}
    # Most joints have the units of the headings; the others show theirs.
    common = Counter(map(units.in_figures, shown)).most_common(1)[0][0]
    width, height = COLUMN_INCHES * len(QUANTITIES), HEAD_INCHES + ROW_INCHES * len(shown)
    edges = {"left": 0.09, "right": 0.99, "bottom": 0.5 / height, "top": 1 - 0.8 / height, "wspace": 0.2, "hspace": 0.2}
    many = len(shown) > _FITTED
    with figure(path, width, height, margins=edges if many else None) as fig:
        fig.suptitle(title or Path(samples.source).name)
        # Shared axes would ask each other for their limits whenever one changes: the square of the number of joints.
        panels = fig.subplots(len(shown), len(QUANTITIES), squeeze=False)
        begin, end = _span_of(drawn, behind)
        for axes, quantity, unit in zip(panels[0], QUANTITIES, common, strict=True):
            derived = quantity in drawn and drawn[quantity].differences
            axes.set_title(f"{quantity} [{unit}]{', by differences' if derived else ''}", loc="left")
        for row, joint in zip(panels, shown, strict=True):
            own = units.in_figures(joint)
            row[0].set_ylabel(short_name(joint) + ("" if own == common else f" [{own[0]}]"))
            index = samples.joint_names.index(joint)
            for axes, quantity in zip(row, QUANTITIES, strict=True):
                axes.tick_params(labelsize=9)
                axes.margins(x=0.02)
                if quantity in behind and joint in reference.joint_names:
                    _draw_curve(axes, behind[quantity], reference.joint_names.index(joint), MOTION_GREY, 4, "input")
                if quantity not in drawn:
                    axes.text(0.5, 0.5, "a single point", transform=axes.transAxes, ha="center", va="center")
                    continue
                _draw_curve(axes, drawn[quantity], index, BLUE, 1.4, "trajectory")
                at_least(axes, drawn[quantity].values, LEAST_SPANS[quantity])
                _draw_limits(axes, drawn[quantity], index, _bounds(robot.limits, joint, quantity))
            for axes in row:
                tight_time(axes, begin, end)
                axes.tick_params(labelbottom=joint == shown[-1])
                if many:
                    axes.locator_params(nbins=_FEW_TICKS)
            if many:  # Labels that are aligned ask each other for their sizes: the square of the number of joints.
                row[0].yaxis.set_label_coords(_BESIDE_TICKS, 0.5)
        for axes in panels[-1]:
            axes.set_xlabel("time from start [s]")
        if reference is not None:
            panels[0][0].legend(loc="best", fontsize=9)
        if not many:
            fig.align_ylabels(panels[:, 0])


def _span_of(*drawn: dict[str, Curve]) -> tuple[float, float]:
    """Return the first and the last time of curves, s."""
    times = [curve.time for curves_ in drawn for curve in curves_.values() if len(curve.time)]
    return min(float(time[0]) for time in times), max(float(time[-1]) for time in times)


def violations(samples: Samples, robot: Robot, joints: Sequence[str] | None = None) -> list[str]:
    """Return a line for each joint and quantity beyond its limit; missing quantities are derived as in the figure."""
    drawn = curves(samples)
    return [
        Violation(0, quantity, 0.0, column[worst], bound).describe(joint, f"at {curve.time[worst]:.4g} s", unit)
        for joint in joints or samples.joint_names
        for (quantity, curve), unit in zip(drawn.items(), robot.units.of(joint), strict=False)
        for column in [curve.values[:, samples.joint_names.index(joint)]]
        for sign, bound in _bounds(robot.limits, joint, quantity)
        for worst in [int((sign * column).argmax())]
        if excess(sign * column[worst], sign * bound) > 0
    ]


def _draw_curve(axes: Axes, curve: Curve, index: int, color: str, width: float, label: str) -> None:
    style = "steps-mid" if curve.differences else "default"
    axes.plot(curve.time, curve.values[:, index], color=color, linewidth=width, drawstyle=style, label=label)


def _bounds(limits: JointLimits | None, joint: str, quantity: str) -> list[tuple[int, float]]:
    """Return the finite bounds of a joint, each with its sign; empty if it has no limits."""
    if limits is None or joint not in limits.joint_names:
        return []
    bounds = limits.range_of(quantity)
    if quantity == "acceleration" and limits.forward is not None:
        # The acceleration that speeds up, or the deceleration.
        largest = np.maximum(limits.forward[1], -limits.forward[0])
        bounds = -largest, largest
    column = limits.joint_names.index(joint)
    found = [(sign, float(bound[column])) for sign, bound in zip((-1, 1), bounds, strict=True) if bound is not None]
    return [one for one in found if np.isfinite(one[1])]


def _draw_limits(axes: Axes, curve: Curve, index: int, bounds: list[tuple[int, float]]) -> None:
    """Draw the limits that are near enough and mark what exceeds them."""
    time, column = curve.time, curve.values[:, index]
    span = max(float(np.ptp(column)), 1e-3 * float(np.abs(column).max()), 1e-9)
    far: list[float] = []
    for sign, bound in bounds:
        gap = bound - column.max() if sign > 0 else column.min() - bound
        if gap <= SHOWN_LIMIT * span:
            axes.axhline(bound, color="black", linewidth=1, linestyle=(0, (5, 3)))
        else:
            far.append(bound)
        beyond = excess(sign * column, sign * bound) > 0
        if beyond.any():
            axes.plot(time[beyond], column[beyond], ".", color=ORANGE, markersize=5)
    if far:
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.22 * (high - low))
        symmetric = len(far) == 2 and far[0] == -far[1]
        text = "limit " + (f"±{far[1]:g}" if symmetric else ", ".join(f"{bound:g}" for bound in far))
        axes.text(0.99, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=8, color="#555555")

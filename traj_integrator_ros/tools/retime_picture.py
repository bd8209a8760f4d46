"""The figure of a motion that was retimed: what it asks for before and after, as shares of the limits, over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..execution.motion import Motion
from ..execution.points import Points, motion_of_points
from ..execution.spline import cubic_spline
from ..motions.figures import BLUE, JOINT_COLORS, MOTION_GREY, figure, short_name, tight_time
from ..motions.samples import Samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_INCHES, ROW_INCHES, HEAD_INCHES = 9.0, 2.0, 0.6
KINDS = ("velocity", "acceleration", "jerk")
_PER_PIECE, _MOST_TIMES = 8, 20_000
_LEAST_SHOWN, _MOST_SHOWN = 1.15, 2.5
"""Times the limit that an axis reaches: what exceeds it more is cut off, and named."""


def draw_retimed(path: Path, before: Samples, after: Samples, limits: np.ndarray, title: str = "") -> None:
    """Draw a motion before and after as PNG (or whatever the suffix says).

    Args:
        path: of the figure.
        before: the motion as it was given; without velocities, the spline through its positions.
        after: the same path, retimed.
        limits: velocity, acceleration and, if it was limited, jerk `[2 or 3, D]`.
        title: of the figure.

    """
    shares = [_shares(_motion(samples), limits) for samples in (before, after)]
    names = KINDS[: len(limits)]
    with figure(path, WIDTH_INCHES, HEAD_INCHES + ROW_INCHES * (len(names) + 1)) as fig:
        fig.suptitle(title or Path(before.source).name)
        panels = fig.subplots(len(names) + 1, 1, sharex=True)
        (times_before, of_before), (times, of_after) = shares
        for axes, kind, grey, now in zip(panels, names, of_before, of_after, strict=False):
            axes.axhspan(-1, 1, color="#EAF3E6", zorder=0)
            axes.plot(times_before, grey, color=MOTION_GREY, linewidth=1.2)
            for joint, name in enumerate(after.joint_names):
                axes.plot(
                    times,
                    now[:, joint],
                    color=JOINT_COLORS[joint % len(JOINT_COLORS)],
                    linewidth=1.4,
                    label=short_name(name),
                )
            _framed(axes, np.abs(grey).max(), np.abs(now).max(), -1.0)
            axes.set_title(f"{kind} / limit", loc="left")
        panels[0].legend(loc="upper right", fontsize=8, ncols=4)
        largest = [np.abs(part).max(axis=(0, 2)) for part in (of_before, of_after)]
        panels[-1].axhspan(0, 1, color="#EAF3E6", zorder=0)
        panels[-1].plot(
            times_before, largest[0], color=MOTION_GREY, linewidth=2.5, label=f"before, {times_before[-1]:.3f} s"
        )
        panels[-1].plot(times, largest[1], color=BLUE, linewidth=1.6, label=f"after, {times[-1]:.3f} s")
        _framed(panels[-1], largest[0].max(), largest[1].max(), 0.0)
        panels[-1].set_title("greatest of them", loc="left")
        panels[-1].legend(loc="upper right", fontsize=9)
        panels[-1].set_xlabel("time from start [s]")
        tight_time(panels[-1], 0.0, max(times_before[-1], times[-1]))


def _motion(samples: Samples) -> Motion:
    """The motion that a controller plays between the points of samples."""
    time = samples.time - samples.time[0]
    if samples.velocity is None:
        return cubic_spline(np.diff(time), samples.position, np.zeros(samples.position.shape[1]), ends_at_rest=True)
    time_ns = np.rint(time * 1e9).astype(np.int64)
    return motion_of_points(Points(time_ns, samples.position, samples.velocity, samples.acceleration))


def _shares(motion: Motion, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times `[T]`, s, and shares of the limits `[2 or 3, T, D]`, the extremes between points among them."""
    count = max(min(_PER_PIECE, _MOST_TIMES // len(motion.steps)), 1)
    within = np.linspace(0.0, 1.0, count, endpoint=False)
    times = np.append((motion.knots[:-1, None] + motion.steps[:, None] * within).ravel(), motion.duration * (1 - 1e-12))
    return times, motion.states_at(times)[1 : 1 + len(limits)] / limits[:, None]


def _framed(axes: Axes, before: float, after: float, low: float) -> None:
    """Let an axis show what is within reach, and name what is not."""
    high = min(max(_LEAST_SHOWN, 1.05 * after, 1.05 * before), max(_MOST_SHOWN, 1.05 * after))
    axes.set_ylim(low * high if low else 0.0, high)
    if before > high:
        axes.text(
            0.01, 0.95, f"before: up to {before:.3g}", transform=axes.transAxes, va="top", fontsize=9, color="#555555"
        )

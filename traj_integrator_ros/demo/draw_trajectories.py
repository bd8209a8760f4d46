"""The figure trajectories.png: the motion and the node's trajectories, and a close-up of a start in motion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..execution.limits import extremes
from ..kernels.types import ControlSpace, FiniteDifference
from ..motions.figures import BLUE, MOTION_GREY, ORANGE, at_least, figure, short_name, tight_time
from ..motions.units import JointUnits
from ..tools.checker import motion_between
from .metrics import CYCLE, Commanded, Kept, scheme_of
from .motion import accelerations
from .report import Outcome, robot_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = {FiniteDifference.BACKWARD: BLUE, FiniteDifference.CENTRAL: ORANGE}
AT_REST = 1e-3
"""Velocities of a joint within this share of the largest range of any joint look like rest, not like their noise."""


def draw_trajectories(outcome: Outcome, path: Path) -> None:
    """Draw velocities of all joints over the whole motion, and position, velocity, acceleration of one joint after a
    start.
    """
    names = outcome.recording.joint_names
    windows = _position_windows(outcome.kept)
    with figure(path, 15, max(8.0, 1.15 * len(names) + 1.2)) as drawn:
        drawn.suptitle(_title(outcome), fontsize=15)
        left, right = drawn.subfigures(1, 2, width_ratios=[1.35, 1])
        _draw_all_joints(left.subplots(len(names), 1, sharex=True), outcome, windows)
        above, below = right.subfigures(2, 1, height_ratios=[3, 2])
        if windows:
            _draw_start(above.subplots(3, 1, sharex=True), outcome, _liveliest_starts(windows))
        if outcome.measured.commanded.liveliest is not None:
            draw_commanded(below.subplots(2, 1, sharex=True), outcome.measured.commanded)


def _title(outcome: Outcome) -> str:
    errors = [(scheme.value, outcome.velocity_rms(scheme)) for scheme in COLORS]
    listed = ", ".join(f"{name} {rms:.4f} rad/s" for name, rms in errors if rms is not None)
    return f"{robot_name(outcome.recording)}: integrated trajectories against the motion. RMS velocity error: {listed}"


def _position_windows(kept: list[Kept]) -> dict[FiniteDifference, list[Kept]]:
    """Answered position windows by the scheme they were answered with, in the order of their starts."""
    found: dict[FiniteDifference, list[Kept]] = {}
    for item in kept:
        scheme = scheme_of(item.window, item.batch)
        if scheme is not None and item.window.kind.control_space is ControlSpace.POSITION:
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
    recording, cleaned = outcome.recording, outcome.prepared.cleaned
    for joint, axes in enumerate(panels):
        axes.plot(
            cleaned.time, cleaned.velocity[:, joint], color=MOTION_GREY, linewidth=5, label="motion's own velocity"
        )
        for scheme, items in windows.items():
            label = f"integrated, {scheme.value} differences"
            axes.plot(*_joined(items, joint), color=COLORS[scheme], linewidth=1.4, label=label)
        if recording.repeated.any():
            axes.plot(
                recording.time[recording.repeated],
                np.full(int(recording.repeated.sum()), 0.03),
                "^",
                color="black",
                markersize=4,
                clip_on=False,
                transform=axes.get_xaxis_transform(),
                label="repeated frame in the recording",
            )
        axes.set_ylabel(f"velocity\n[{JointUnits().in_figures(recording.joint_names[joint])[1]}]", fontsize=10)
        axes.set_title(short_name(recording.joint_names[joint]), loc="left", fontsize=11, pad=2)
        at_least(axes, AT_REST * float(np.ptp(cleaned.velocity, axis=0).max()))
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
    name = outcome.recording.joint_names[joint]
    motion, cleaned = outcome.prepared.planned, outcome.prepared.cleaned
    begin, end = _span(items)
    # One sample more on either side, so that the line reaches the edges of the panel.
    shown = slice(max(0, np.searchsorted(motion.time, begin) - 1), np.searchsorted(motion.time, end) + 1)
    truth = (motion.position, cleaned.velocity, accelerations(motion))
    for axes, quantity, values, unit in zip(
        panels, ("position", "velocity", "acceleration"), truth, JointUnits().in_figures(name), strict=False
    ):
        axes.plot(motion.time[shown], values[shown, joint], color=MOTION_GREY, linewidth=6, label="motion")
        for item in items:
            scheme = scheme_of(item.window, item.batch)
            for row in range(1, len(item.batch.position)):
                label = "perturbed candidates" if row == 1 and item is items[0] else None
                axes.plot(
                    *_curve(item, quantity, row, joint), color=COLORS[scheme], linewidth=0.8, alpha=0.35, label=label
                )
            time, got = _curve(item, quantity, 0, joint)
            axes.plot(time, got, color=COLORS[scheme], linewidth=1.8, label=f"integrated, {scheme.value}")
            axes.plot(time[0], got[0], "o", color=COLORS[scheme], markersize=8, markeredgecolor="white", zorder=5)
        axes.set_ylabel(f"{quantity}\n[{unit}]")
        tight_time(axes, begin, end)
    _draw_acceleration_bound(panels[2], outcome.paths.largest_acceleration)
    kind = outcome.closest_start_up
    ratio = outcome.start_up_ratios.get(kind, np.nan)
    in_bound = ratio <= outcome.start_up_limit(kind)
    spike = "without a spike" if in_bound else f"up to {ratio:.1f} x the largest acceleration"
    panels[0].set_title(f"{short_name(name)}: starts in motion (dots), {spike}", loc="left")
    panels[-1].set_xlabel("time in the motion [s]")
    panels[0].legend(loc="best", fontsize=10)


def _span(items: list[Kept]) -> tuple[float, float]:
    curves = [_curve(item, "position", 0, 0)[0] for item in items]
    begin, end = min(time[0] for time in curves), max(time[-1] for time in curves)
    return begin - 0.15 * (end - begin), end


def _draw_acceleration_bound(axes: Axes, largest: float) -> None:
    for sign in (-1, 1):
        axes.axhline(sign * largest, color="black", linewidth=1, linestyle=(0, (6, 4)))
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -1.2 * largest), max(high, 1.3 * largest))
    axes.annotate(
        "largest of the whole motion",
        (0.995, largest),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        fontsize=10,
    )


def draw_commanded(panels: np.ndarray, commanded: Commanded) -> None:
    """Velocity and acceleration of the joint with most motion at 1 kHz, with the trajectory's points."""
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
        axes.set_ylabel(f"{quantity}\n[{units[order]}]")
    panels[0].set_title(
        f"{short_name(trajectory.joint_names[joint])}: commanded between the points, at most "
        f"{np.abs(extremes(motion)[:, 2, joint]).max():.3g} {units[2]}",
        loc="left",
    )
    panels[0].legend(loc="best", fontsize=10)
    panels[-1].set_xlabel("time from the start of the trajectory [s]")

"""A controller's commands at 1 kHz for the joint trajectories received: peaks, and the liveliest trajectory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..execution.extremes import extremes
from ..motions.figures import short_name
from ..motions.units import JointUnits
from ..tools.checker import PlannedTrajectory, field_array, motion_between, planned_trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from trajectory_msgs.msg import JointTrajectory

CYCLE = 0.001
"""Of the controller, s."""
QUANTITIES = {"velocity": "rad_s", "acceleration": "rad_s2", "jerk": "rad_s3"}


class Commanded:
    """Takes joint trajectories one by one and keeps the largest values of any joint, with their trajectory."""

    def __init__(self) -> None:
        self.peaks = dict.fromkeys(QUANTITIES, 0.0)
        self.at_points = {"velocity": 0.0, "acceleration": 0.0}
        self.liveliest: PlannedTrajectory | None = None

    def add(self, message: JointTrajectory) -> None:
        """Sample the controller's interpolation of a message; a message with a single point moves nothing."""
        trajectory = planned_trajectory(message)
        motion = motion_between(trajectory)
        if motion is None:
            return
        states = np.abs(motion.states_at(np.arange(0.0, motion.duration, CYCLE)))
        largest = states.max(axis=(1, 2))
        if largest[2] > self.peaks["acceleration"]:
            self.liveliest = trajectory
        for order, name in enumerate(QUANTITIES, start=1):
            self.peaks[name] = max(self.peaks[name], float(largest[order]))
        for name, field in (("velocity", "velocities"), ("acceleration", "accelerations")):
            values = field_array(trajectory, field)
            if values is not None:
                self.at_points[name] = max(self.at_points[name], float(np.abs(values).max()))

    def as_json(self) -> dict[str, dict[str, float]]:
        """For the report: largest values at 1 kHz, and at the points."""
        return {
            "at_1_khz": {f"{name}_{unit}": self.peaks[name] for name, unit in QUANTITIES.items()},
            "at_points": {f"{name}_{QUANTITIES[name]}": value for name, value in self.at_points.items()},
        }


def draw_commanded(panels: np.ndarray, commanded: Commanded, colors: tuple[str, str]) -> None:
    """Velocity and acceleration of the joint with most motion at 1 kHz, with the trajectory's points.

    Args:
        panels: two axes.
        commanded: with a trajectory.
        colors: of the line and of the points.

    """
    trajectory = commanded.liveliest
    motion = motion_between(trajectory)
    times = np.arange(0.0, motion.duration, CYCLE)
    states = motion.states_at(times)
    joint = int(np.abs(states[2]).max(axis=0).argmax())
    knots = [point.time_ns * 1e-9 for point in trajectory.points]
    units = JointUnits().in_figures(trajectory.joint_names[joint])
    fields = (("velocity", "velocities"), ("acceleration", "accelerations"))
    for order, (axes, (quantity, field)) in enumerate(zip(panels, fields, strict=True), start=1):
        _draw(axes, knots[0] + times, states[order, :, joint], colors[0])
        values = field_array(trajectory, field)
        if values is not None:
            axes.plot(knots, values[:, joint], "o", color=colors[1], markersize=4, label="points of the message")
        axes.set_ylabel(f"{quantity}\n[{units[order]}]")
    panels[0].set_title(
        f"{short_name(trajectory.joint_names[joint])}: commanded between the points, at most "
        f"{np.abs(extremes(motion)[:, 2, joint]).max():.3g} {units[2]}",
        loc="left",
    )
    panels[0].legend(loc="best", fontsize=10)
    panels[-1].set_xlabel("time from the start of the trajectory [s]")


def _draw(axes: Axes, times: np.ndarray, values: np.ndarray, color: str) -> None:
    axes.plot(times, values, color=color, linewidth=1.8, label="commanded, 1 kHz")

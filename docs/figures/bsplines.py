"""Draws docs/figures/bsplines.png: the uniform bases, and the splines of both layouts for the same start and goal.

Run `python docs/figures/bsplines.py` in the project's environment.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from scipy.interpolate import BSpline

from traj_integrator_ros.kernels import bspline_step

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
POINTS = np.array([0.3, 1.0, 0.6, 1.4, 1.2, 0.8])
START = {"start_position": [[0.0]], "start_velocity": [[0.5]], "start_acceleration": [[0.0]]}
GOAL = {"goal_position": [[1.0]], "goal_velocity": [[0.0]], "goal_acceleration": [[0.0]]}
SEGMENT = 0.2
"""Duration of a segment, s."""


def main() -> None:
    """Plot the bases of degree 3 to 5, and position and acceleration of both layouts."""
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, (basis, position, acceleration) = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    for degree, color in ((3, BLUE), (4, ORANGE), (5, GREEN)):
        x = np.linspace(0, degree + 1, 241)
        basis.plot(x, BSpline.basis_element(np.arange(degree + 2.0))(x), color=color, label=f"degree {degree}")
    basis.set(xlabel="segments since a control point begins to count", title="what one control point weighs")
    for layout, color in (("tight", BLUE), ("curobo", ORANGE)):
        draw_layout(position, acceleration, layout, color)
    for axis in (position, acceleration):
        axis.set(xlabel="time [s]")
    position.axhline(GOAL["goal_position"][0][0], color=GREY, linewidth=5, alpha=0.25, label="the goal")
    position.set(ylabel="position [rad]", title="same control points, start and goal")
    acceleration.set(ylabel="acceleration [rad/s²]", title="acceleration (dots: ends of segments)")
    for axis in (basis, position, acceleration):
        axis.legend(frameon=False)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


def draw_layout(position: Axes, acceleration: Axes, layout: str, color: str) -> None:
    """Draw one spline, and the ends of its segments, which are the points that a controller is sent."""
    ends = {name: torch.tensor(value, dtype=torch.float64) for name, value in {**START, **GOAL}.items()}
    for steps, style in ((60, {"label": layout}), (1, {"marker": "o", "linestyle": "", "markersize": 4})):
        points, dt = torch.as_tensor(POINTS[None, :, None]), SEGMENT / steps
        spline = bspline_step(points, **ends, dt=dt, degree=3, steps=steps, layout=layout)
        times = dt * np.arange(spline.position.shape[1])
        for axis, curve in ((position, spline.position), (acceleration, spline.acceleration)):
            axis.plot(times, curve[0, :, 0], color=color, **style)


if __name__ == "__main__":
    main()

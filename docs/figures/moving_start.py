"""Draws docs/figures/moving_start.png: what a finite-difference kernel reports for a robot that is already moving.

Run `python docs/figures/moving_start.py` in the project's environment.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

from traj_integrator_ros.kernels import clique_step

STEP, VELOCITY, ACCELERATION, HORIZON = 0.02, 0.5, 1.2, 12
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"


def main() -> None:
    """Integrate one quadratic motion with the published stencils and with ours, and plot acceleration and jerk."""
    time = np.arange(HORIZON) * STEP
    position = VELOCITY * time + ACCELERATION * time**2 / 2
    actions = torch.tensor(np.append(position[1:], position[-1]))[None, :, None]
    start = [torch.tensor([[value]], dtype=torch.float64) for value in (0.0, VELOCITY, ACCELERATION)]
    ours = clique_step(actions, *start, dt=STEP)
    milliseconds = 1e3 * time[1:]
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.axhline(ACCELERATION, color=GREY, linewidth=6, alpha=0.25, label="the motion itself")
    left.plot(milliseconds, published_acceleration(position), "s--", color=ORANGE, label="published stencils")
    left.plot(milliseconds, ours.acceleration[0, 1:, 0], "o-", color=BLUE, markersize=4, label="this package")
    left.set(yscale="log", ylabel="acceleration [rad/s²]")
    right.axhline(0.0, color=GREY, linewidth=6, alpha=0.25, label="the motion itself")
    right.plot(milliseconds, mended_jerk(position), "s--", color=ORANGE, label="published stencils, formula mended")
    right.plot(milliseconds, ours.jerk[0, 1:, 0], "o-", color=BLUE, markersize=4, label="this package")
    right.set(ylabel="jerk [rad/s³]")
    for axis in (left, right):
        axis.set(xlabel="time [ms]")
        axis.legend(frameon=False, loc="upper right")
    figure.suptitle(
        f"Sampled constant acceleration {ACCELERATION} rad/s², start at {VELOCITY} rad/s, dt = {1e3 * STEP:.0f} ms"
    )
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=130)


def published_acceleration(position: np.ndarray) -> np.ndarray:
    """Second differences (h >= 1) over the published ghost point, whose factor is 1 / dt where dt belongs."""
    back = VELOCITY / STEP - ACCELERATION / STEP**2 / 2
    return np.diff(np.concatenate([[position[0] - back], position]), 2) / STEP**2


def mended_jerk(position: np.ndarray) -> np.ndarray:
    """Third differences (h >= 1) over ghost points with dt in its place, which repeat the step before the start."""
    back = VELOCITY * STEP - ACCELERATION * STEP**2 / 2
    ghosts = [position[0] - 2 * back, position[0] - back]
    return np.diff(np.concatenate([ghosts, position]), 3) / STEP**3


if __name__ == "__main__":
    main()

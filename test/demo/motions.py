"""Motions made up for the demo's tests, and a writer of tables."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from traj_integrator_ros.demo.motion import Motion

JOINTS = ("arm_joint1", "arm_joint2", "arm_joint3")
AMPLITUDE, RATE, PHASE = np.array([0.8, 0.5, 0.3]), np.array([1.1, 1.9, 0.7]), np.array([0.3, 1.0, 2.0])


def sine_motion(samples: int = 200, step: float = 0.02, *, acceleration: bool = True, bound: float = 0.003) -> Motion:
    """Three joints on sines, exactly, moving at the start."""
    time = np.arange(samples) * step
    angle = time[:, None] * RATE + PHASE
    return Motion(
        joint_names=JOINTS,
        time=time,
        position=AMPLITUDE * np.sin(angle),
        velocity=AMPLITUDE * RATE * np.cos(angle),
        acceleration=-AMPLITUDE * RATE**2 * np.sin(angle) if acceleration else None,
        source="test",
        kind="test",
        velocity_bound=bound,
        repeated=np.zeros(samples, dtype=bool),
    )


def write_csv(path: Path, motion: Motion, quantities: tuple[str, ...] = ("position", "velocity")) -> Path:
    """The motion as a table in the project's own columns."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *(f"{quantity}_{joint}" for quantity in quantities for joint in motion.joint_names)])
        columns = [motion.time[:, None], *(getattr(motion, quantity) for quantity in quantities)]
        writer.writerows(np.concatenate(columns, axis=1).tolist())
    return path

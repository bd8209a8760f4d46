"""Motions that the demo's tests make themselves."""

from __future__ import annotations

import numpy as np

from traj_integrator_ros.motions.samples import Nature, Samples, samples_of

JOINTS = ("arm_joint1", "arm_joint2", "arm_joint3")
AMPLITUDE, RATE, PHASE = np.array([0.8, 0.5, 0.3]), np.array([1.1, 1.9, 0.7]), np.array([0.3, 1.0, 2.0])


def sine_motion(samples: int = 200, step: float = 0.02, *, acceleration: bool = True) -> Samples:
    """Three joints on exact sines, in motion at the start."""
    time = np.arange(samples) * step
    angle = time[:, None] * RATE + PHASE
    quantities = [AMPLITUDE * np.sin(angle), AMPLITUDE * RATE * np.cos(angle)]
    quantities += [-AMPLITUDE * RATE**2 * np.sin(angle)] * acceleration
    return samples_of("test", JOINTS, time, quantities, "test", Nature.EXACT)


SINE = sine_motion()

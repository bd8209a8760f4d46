"""The robot of the soak: every joint swings around the middle of its range. Knows no ROS, and loads no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traj_integrator_ros.handling.limits import JointLimits

AMPLITUDE_RAD = 0.1


@dataclass(frozen=True)
class Swing:
    """Where the joints are at a time; the same in every process that knows the time.

    Args:
        limits: of a robot that has limits of position.

    """

    limits: JointLimits

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The robot's joints."""
        return self.limits.joint_names

    @property
    def middle(self) -> np.ndarray:
        """Middle of each joint's range `[dof]`, rad."""
        return (np.asarray(self.limits.position_min) + np.asarray(self.limits.position_max)) / 2

    def at(self, time_ns: int) -> tuple[np.ndarray, np.ndarray]:
        """Position, rad, and velocity, rad/s, `[dof]` each, at a time since the epoch."""
        omega = 2 * np.pi * np.linspace(0.1, 0.25, len(self.joint_names))
        phase = omega * (time_ns % 10**14 * 1e-9)
        return self.middle + AMPLITUDE_RAD * np.sin(phase), AMPLITUDE_RAD * omega * np.cos(phase)

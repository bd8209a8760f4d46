"""The robot of the soak: every joint swings around the middle of its range. Knows no ROS, and loads no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from traj_integrator_ros.handling.limits import JointLimits

AMPLITUDE_RAD = 0.1
_FIELDS = ("position_min", "position_max", "velocity", "acceleration", "jerk")


@dataclass(frozen=True)
class Swing:
    """Where the joints are at a time; the same in every process that knows the time.

    Args:
        limits: of a robot that has limits of position.

    """

    limits: JointLimits

    @classmethod
    def of_json(cls, text: str) -> Swing:
        """The robot that another process wrote by `as_json`."""
        fields = json.loads(text)
        arrays = {name: None if fields[name] is None else np.array(fields[name]) for name in _FIELDS}
        return cls(JointLimits(tuple(fields["joint_names"]), **arrays))

    def as_json(self) -> str:
        """The robot for another process."""
        arrays = {name: getattr(self.limits, name) for name in _FIELDS}
        lists = {name: None if values is None else np.asarray(values).tolist() for name, values in arrays.items()}
        return json.dumps({"joint_names": self.joint_names, **lists})

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

"""Drives: the torque for a command, computed 1,000 times a second."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

PERIOD_S = 1e-3


@dataclass(frozen=True)
class Drive:
    """The properties of an arm's drives."""

    kind: str = "pd"
    """`pd` is a spring and a damper, `servo` a spring, `cascade` a velocity loop with integrator in a position loop."""
    hz: float | tuple[float, ...] = 6.0
    zeta: float = 1.0
    feedforward: float = 0.0
    """Share of the commanded velocity that is fed forward."""
    delay: int = 2
    """Time, ms, that the transport of a command takes."""
    filter_s: float = 0.0
    """Look-ahead of the command, s."""
    gravity: float = 1.0
    """Share of the arm's gravity, without its payload, that is compensated."""
    integral: float = 0.0
    hold_ms: int = 1
    """Period of the bus, ms."""
    stiffness: tuple[float, ...] = ()
    """Stiffness of servos, Nm/rad."""
    damping: tuple[float, ...] = (0.0,)
    """Damping of servos within their largest torque, Nm s/rad."""
    released: float = 25.0
    """Damping of joints without power, Nm s/rad."""


DRIVES = {
    "pd6": Drive(hz=6.0),
    "pd12": Drive(hz=12.0),
    "stiff": Drive(hz=15.0, feedforward=0.9),
    "pd3": Drive(hz=3.0, zeta=0.7),
    "mixed": Drive(hz=(4, 5, 6, 6, 10, 12, 12), zeta=0.9),
    "cascade": Drive("cascade", hz=8.0, integral=300.0, filter_s=0.02, delay=4),
    "cascade_ff": Drive("cascade", hz=8.0, feedforward=1.0, integral=300.0, delay=4),
    "pd5": Drive(hz=5.0),
    "so101": Drive("servo", gravity=0.0, hold_ms=10, stiffness=(998.22,) * 6, damping=(2.731,) * 6),
    "aloha": Drive(
        "servo", gravity=0.0, hold_ms=10, stiffness=(43, 265, 227, 78, 37, 10.4, 2000), damping=(0,) * 6 + (124,)
    ),
    "hobby": Drive("servo", gravity=0.0, hold_ms=20, stiffness=(48.6, 97, 97, 19, 19, 19)),
}
"""Drives by name: impedance at 3 to 15 Hz (lags of 4 to 74 ms), an industrial cascade with look-ahead, and servos."""


class Drives:
    """The drives of an arm, for the inertia of each joint, kg m^2, the largest torques, Nm, and positions, rad."""

    def __init__(self, drive: Drive, inertia: np.ndarray, most: np.ndarray, place: np.ndarray) -> None:
        self.drive, self._inertia, self._most = drive, inertia, most
        self._rate = 2 * np.pi * np.broadcast_to(np.asarray(drive.hz, float), inertia.shape)
        servo = drive.kind == "servo"
        self._stiffness = np.asarray(drive.stiffness, float) if servo else inertia * self._rate**2
        self._damping = np.array(drive.damping) + 0 * inertia if servo else 2 * drive.zeta * inertia * self._rate
        self._ms = 0
        self.reset(place)

    def reset(self, place: np.ndarray) -> None:
        """Set the command to this place, at rest."""
        self._integral, self._filtered = np.zeros_like(self._inertia), place.copy()
        self._held = place.copy(), np.zeros_like(place)
        self._pipe = deque([self._held] * (self.drive.delay + 1), maxlen=self.drive.delay + 1)

    def released(self, velocity: np.ndarray, brakes: bool) -> np.ndarray:
        """Return the torque without power, Nm."""
        self._integral[:] = 0.0
        return -(200.0 if brakes else self.drive.released) * self._inertia / self._inertia.max() * velocity

    def guided(self, velocity: np.ndarray, gravity: np.ndarray) -> np.ndarray:
        """Return the torque while a hand leads the arm, Nm."""
        return gravity - 2.0 * self._inertia / self._inertia.max() * velocity

    def torque(self, q: np.ndarray, v: np.ndarray, gravity: np.ndarray) -> np.ndarray:
        """Return the torque for the command that has arrived, Nm."""
        drive, (command, speed) = self.drive, self._held
        feed = drive.feedforward * speed + 0.0 * v
        if drive.kind == "cascade":
            error = self._rate / 2 * (command - q) + feed - v
            torque = self._inertia * 2 * self._rate * error + self._integral + gravity
            free = np.abs(torque) < self._most
            self._integral += np.where(free, self._inertia * drive.integral * error * PERIOD_S, 0.0)
        else:
            torque = self._stiffness * (command - q) + self._damping * (feed - v) + gravity
        return np.clip(torque, -self._most, self._most)

    def command(self, position: np.ndarray, velocity: np.ndarray) -> None:
        """Take the command for the next millisecond."""
        self._pipe.append((position, velocity))
        if self._ms % self.drive.hold_ms == 0:
            self._held = self._pipe[0]
            if self.drive.filter_s:
                self._filtered = self._filtered + (self._held[0] - self._filtered) * (PERIOD_S / self.drive.filter_s)
                self._held = self._filtered, self._held[1]
        self._ms += 1

"""An arm behind the model of the controller: it lags, sags, is measured by encoders, and can be stopped.

The controller begins a new trajectory at what is *measured* here, unless interpolate_from_desired_state is set, and
holds the measured position when it is restarted. Not modelled: dynamics, friction, saturation of drives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .controller import SECOND, Controller, Point


class Robot(Controller):
    """The controller and the arm that it moves.

    Joints, or each of them, follow the command by a `lag`, s, in whole cycles, and sag by their `droop`, rad, which the
    controller does not know. Encoders have steps of a `quantization`, rad, and noise of a standard deviation, rad.
    """

    def __init__(
        self,
        joints: Sequence[str],
        *,
        lag: float | Sequence[float] = 0.0,
        droop: Sequence[float] | None = None,
        quantization: float = 0.0,
        noise: float = 0.0,
        seed: int = 0,
        **options: object,
    ) -> None:
        super().__init__(joints, **options)
        self.lag = np.rint(np.broadcast_to(lag, len(self.joints)) * SECOND / self.period).astype(int)
        self.droop = np.zeros(len(self.joints)) if droop is None else np.asarray(droop, float)
        self.quantization, self.noise, self._random = quantization, noise, np.random.default_rng(seed)
        self.frozen = False
        """True if the joints stand still whatever is commanded (a protective stop)."""
        self.off = False
        """True if the controller is off: it takes and commands nothing until it is restarted, and the joints stand."""
        self.contact = 0.0
        """Force of a contact, N, which this arm does not know."""
        self._commands: list[np.ndarray] = []
        self._place = self._speed = np.zeros(len(self.joints))

    def set_state(
        self,
        position: Sequence[float],
        velocity: Sequence[float] | None = None,
        acceleration: Sequence[float] | None = None,
    ) -> None:
        """Set where the joints are, and are commanded to be, before the first cycle."""
        super().set_state(position, velocity, acceleration)
        self._place, self._speed = self._state.position.copy(), self._state.velocity.copy()
        self._commands = [self._place]

    def output(self) -> tuple[np.ndarray, np.ndarray]:
        """Position and velocity of the joints, `[joints]` each."""
        return self._place + self.droop, self._speed.copy()

    def measured(self) -> tuple[np.ndarray, np.ndarray]:
        """Position and velocity that the encoders measure, `[joints]` each, as in joint_states."""
        place, speed = self.output()
        if self.noise:
            place = place + self._random.normal(scale=self.noise, size=place.shape)
        if self.quantization:
            place = np.round(place / self.quantization) * self.quantization
        return place, speed

    def controller_state(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, np.ndarray]]:
        """Fields of controller_state: reference (position, velocity, acceleration) and feedback (two of them)."""
        return tuple(part.copy() for part in self.reference.parts), self.measured()

    def _cycle(self, now: int) -> np.ndarray:
        """Run a cycle of the controller, and move the arm."""
        still = np.zeros(len(self.joints))
        if self.off:
            self._plan, self._waiting, self._speed = None, None, still
            return np.array([self.measured()[0], still, still])
        command = super()._cycle(now)
        if self.frozen:
            self._speed = still
            return command
        self._commands = [*self._commands, command[0]][-np.max(self.lag) - 2 :]
        rows = np.maximum(len(self._commands) - 1 - self.lag - np.array([[1], [0]]), 0)
        before, self._place = np.array(self._commands)[rows, np.arange(len(self.joints))]
        is_stated = not np.any(self.lag) and self.scaling == 1
        self._speed = command[1] if is_stated else (self._place - before) * SECOND / self.period
        return command

    def restart(self) -> None:
        """Stop and start the controller, as after an emergency stop: it forgets its plan and holds the measured
        position.
        """
        self._plan, self._waiting, self.off = None, None, False
        self._state = Point(0, self.measured()[0], np.zeros(len(self.joints)), np.zeros(len(self.joints)))
        self._commands, self._commanded_at = [self._place], 0

    def _join(self, now: int) -> None:
        commanded = self._state
        if not self.from_desired:
            position, velocity = self.measured()
            still = not np.any(self.lag) and not self.frozen
            self._state = Point(0, position, velocity, commanded.acceleration if still else np.zeros(len(self.joints)))
        super()._join(now)
        self._state = commanded

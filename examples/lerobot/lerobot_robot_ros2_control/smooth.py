"""Any robot of LeRobot, commanded smoothly, without ROS: `--robot.type=smooth --robot.of.type=so101_follower`."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from lerobot.robots import Robot, make_robot_from_config
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

from .config_smooth import SmoothConfig
from .servos import Servos


class Smooth(Robot):
    """Observes and acts as the robot that it drives, whose servos a thread commands at `rate`.

    Joints are all actions `<joint>.pos`; the robot must observe them, too. `servos` takes whole chunks.
    """

    config_class = SmoothConfig
    name = "smooth"

    def __init__(self, config: SmoothConfig) -> None:
        super().__init__(config)
        if config.fps <= 0 or config.delay < 0:
            raise ValueError(f"fps, delay: expected a rate and a count, got {config.fps:g} and {config.delay}")
        self.config = config
        self.of = make_robot_from_config(config.of)
        self.servos: Servos | None = None
        self._keys = list(self.of.action_features)
        observed = self.of.observation_features
        if other := [key for key in self._keys if not key.endswith(".pos") or key not in observed]:
            raise ValueError(f"of: expected actions <joint>.pos that are observed, too, got {', '.join(other)}")
        self._bus = threading.Lock()

    @property
    def observation_features(self) -> dict[str, Any]:
        """Those of the robot."""
        return self.of.observation_features

    @property
    def action_features(self) -> dict[str, Any]:
        """Those of the robot."""
        return self.of.action_features

    @property
    def is_connected(self) -> bool:
        """Return whether `connect` was called last."""
        return self.servos is not None

    def connect(self, calibrate: bool = True) -> None:
        """Connect the robot; nothing is commanded before the first action."""
        if self.is_connected:
            raise DeviceAlreadyConnectedError(f"{self}: expected disconnect() before connect()")
        config = self.config
        self.of.connect(calibrate)
        limits = [np.radians([most] * len(self._keys)) for most in (config.velocity, config.acceleration, config.jerk)]
        self.servos = Servos(
            [key.removesuffix(".pos") for key in self._keys], self._command, limits,
            self._positions(self.of.get_observation()), 1 / config.fps, rate=config.rate, delay=config.delay,
            bandwidth=config.bandwidth, deviation=float(np.radians(config.deviation)),
        )  # fmt: skip
        self.servos.start()

    @property
    def is_calibrated(self) -> bool:
        """Return whether the robot is."""
        return self.of.is_calibrated

    def calibrate(self) -> None:
        """Calibrate the robot."""
        self.of.calibrate()

    def configure(self) -> None:
        """Configure the robot."""
        self.of.configure()

    def get_observation(self) -> dict[str, Any]:
        """Return the robot's observation; meanwhile, its servos hold their last command."""
        servos = self._connected()
        with self._bus:
            observation = self.of.get_observation()
        servos.observe(self._positions(observation))
        return observation

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Execute an action: one every 1 / fps. Raises what commanding the servos has raised."""
        if missing := [key for key in self._keys if key not in action]:
            raise ValueError(f"action: expected {', '.join(self._keys)}, got none for {missing[0]}")
        self._connected().send(self._positions(action))
        return {key: float(action[key]) for key in self._keys}

    def disconnect(self) -> None:
        """Let the robot brake, and disconnect it."""
        servos, self.servos = self.servos, None
        try:
            if servos is not None:
                servos.close()
        finally:
            if self.of.is_connected:
                self.of.disconnect()

    def _command(self, position: np.ndarray) -> None:
        if self._bus.acquire(blocking=False):  # otherwise it is being observed, and the next command is not far
            try:
                self.of.send_action(dict(zip(self._keys, np.degrees(position).tolist(), strict=True)))
            finally:
                self._bus.release()

    def _positions(self, values: dict[str, Any]) -> np.ndarray:
        return np.radians([float(values[key]) for key in self._keys])

    def _connected(self) -> Servos:
        if self.servos is None:
            raise DeviceNotConnectedError(f"{self}: expected connect() before, got none")
        return self.servos

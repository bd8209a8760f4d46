"""Any robot of LeRobot, commanded smoothly, without ROS: `--robot.type=smooth --robot.of.type=so101_follower`."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from lerobot.robots import RobotConfig, make_robot_from_config

from .paced import Paced, PacedConfig
from .servos import Servos


class OtherRobot:
    """The configurations of all other robots, by type: without an end, a command line would have options for ever."""

    @classmethod
    def get_known_choices(cls) -> dict[str, type]:
        """Return the configurations by type."""
        return {name: one for name, one in RobotConfig.get_known_choices().items() if one is not SmoothConfig}

    @classmethod
    def get_choice_class(cls, name: str) -> type:
        """Return the configuration of a type."""
        return cls.get_known_choices()[name]

    @classmethod
    def get_choice_name(cls, subcls: type) -> str:
        """Return the type of a configuration."""
        return RobotConfig.get_choice_name(subcls)

    @classmethod
    def default_choice_name(cls) -> str | None:
        """Return None, since no robot is usual."""
        return None


@RobotConfig.register_subclass("smooth")
@dataclass(kw_only=True)
class SmoothConfig(PacedConfig):
    """A robot of LeRobot whose servos are commanded smoothly; its numbers are in the robot's own unit, degrees.

    Args:
        of: the robot: `--robot.of.type=so101_follower --robot.of.port=/dev/ttyACM0`.
        rate: commands in a second, Hz.
        velocity: largest speed of each joint, unit/s.
        acceleration: largest acceleration of each joint, unit/s^2.
        jerk: largest jerk of each joint, unit/s^3.
        deviation: error of a joint beyond which the robot is braked; 0: any, since small servos droop.

    """

    of: OtherRobot
    rate: float = 100.0
    velocity: float = 200.0
    acceleration: float = 1000.0
    jerk: float = 20000.0
    deviation: float = 0.0


class Smooth(Paced):
    """Observes and acts as the robot that it drives, whose servos a thread commands at `rate`.

    Joints are all actions `<joint>.pos`; the robot must observe them, too.
    """

    config_class = SmoothConfig
    name = "smooth"
    unit = np.pi / 180

    def __init__(self, config: SmoothConfig) -> None:
        super().__init__(config)
        self.of = make_robot_from_config(config.of)
        self.cameras = getattr(self.of, "cameras", {})
        observed = self.of.observation_features
        if other := [key for key in self.action_features if not key.endswith(".pos") or key not in observed]:
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
        self.stamp_ns = servos.observe(self._positions(observation))
        return observation

    def _begin(self, calibrate: bool) -> Servos:
        config = self.config
        self.of.connect(calibrate)
        most = np.array([[config.velocity], [config.acceleration], [config.jerk]])
        limits = self.unit * most.repeat(len(self.action_features), axis=1)
        servos = Servos(
            [key.removesuffix(".pos") for key in self.action_features], self._command, limits,
            self._positions(self.of.get_observation()), 1 / config.fps, rate=config.rate, delay=config.delay,
            bandwidth=self.bandwidth, deviation=self.unit * config.deviation,
        )  # fmt: skip
        servos.start()
        return servos

    def _end(self) -> None:
        if self.of.is_connected:
            self.of.disconnect()

    def _command(self, position: np.ndarray) -> None:
        if self._bus.acquire(blocking=False):  # otherwise it is being observed, and the next command is not far
            try:
                self.of.send_action(dict(zip(self.action_features, (position / self.unit).tolist(), strict=True)))
            finally:
                self._bus.release()

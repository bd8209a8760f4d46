"""The options of `--robot.` for any robot of LeRobot."""

from __future__ import annotations

from dataclasses import dataclass

from lerobot.robots import RobotConfig

from .paced import PacedConfig


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

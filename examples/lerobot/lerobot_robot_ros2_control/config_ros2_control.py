"""The options of `--robot.` for an arm of ros2_control."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.cameras import CameraConfig
from lerobot.robots import RobotConfig

from .paced import PacedConfig


@RobotConfig.register_subclass("ros2_control")
@dataclass(kw_only=True)
class Ros2ControlConfig(PacedConfig):
    """An arm behind an integrator node.

    Args:
        joints: names of the joints that the policy moves, in its order.
        cameras: LeRobot's cameras by name.
        integrator: name of the node.
        joint_states: topic of the joint states.
        ros_arguments: what follows --ros-args, such as ["-p", "use_sim_time:=true"].

    """

    joints: list[str] = field(default_factory=list)
    cameras: dict[str, CameraConfig] = field(default_factory=dict)
    integrator: str = "/traj_integrator"
    joint_states: str = "/joint_states"
    ros_arguments: list[str] = field(default_factory=list)

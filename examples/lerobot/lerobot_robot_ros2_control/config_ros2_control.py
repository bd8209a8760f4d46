"""The options of `--robot.`."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.cameras import CameraConfig
from lerobot.robots import RobotConfig


@RobotConfig.register_subclass("ros2_control")
@dataclass(kw_only=True)
class Ros2ControlConfig(RobotConfig):
    """An arm behind an integrator node.

    Args:
        joints: names of the joints that the policy moves, in its order.
        fps: rate of the actions, Hz, as in the dataset.
        delay: periods by which actions are executed later, for a smoother motion.
        cameras: LeRobot's cameras by name.
        integrator: name of the node.
        joint_states: topic of the joint states.
        ros_arguments: what follows --ros-args, such as ["-p", "use_sim_time:=true"].

    """

    joints: list[str] = field(default_factory=list)
    fps: float = 30.0
    delay: int = 2
    cameras: dict[str, CameraConfig] = field(default_factory=dict)
    integrator: str = "/traj_integrator"
    joint_states: str = "/joint_states"
    ros_arguments: list[str] = field(default_factory=list)

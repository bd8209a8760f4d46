"""The robot of LeRobot for an arm of ros2_control: `--robot.type=ros2_control`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lerobot.cameras import CameraConfig
from lerobot.cameras.utils import make_cameras_from_configs
from lerobot.robots import RobotConfig

from .arm import Arm
from .paced import Paced, PacedConfig


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


class Ros2Control(Paced):
    """Observes `<joint>.pos`, rad, and takes actions of the same names."""

    config_class = Ros2ControlConfig
    name = "ros2_control"

    def __init__(self, config: Ros2ControlConfig) -> None:
        super().__init__(config)
        if not config.joints:
            raise ValueError("joints: expected the names of those that the policy moves, got none")
        self.cameras = make_cameras_from_configs(config.cameras)

    @cached_property
    def observation_features(self) -> dict[str, type | tuple[int, int, int]]:
        """Positions of the joints, and the shapes of images."""
        shapes = {name: (camera.height, camera.width, 3) for name, camera in self.config.cameras.items()}
        return self.action_features | shapes

    @cached_property
    def action_features(self) -> dict[str, type]:
        """Positions of the joints."""
        return {f"{joint}.pos": float for joint in self.config.joints}

    @property
    def is_calibrated(self) -> bool:
        """Return True, since joint_states are in rad."""
        return True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_observation(self) -> dict[str, Any]:
        """The latest measured positions, rad, and images. Raises TimeoutError: no joint states come any more."""
        position, self.stamp_ns = self._connected().observe()
        images = {name: camera.read_latest() for name, camera in self.cameras.items()}
        return dict(zip(self.action_features, position.tolist(), strict=True)) | images

    def _begin(self, calibrate: bool) -> Arm:
        config = self.config
        arm = Arm(
            config.joints, 1 / config.fps, delay=config.delay, bandwidth=self.bandwidth, integrator=config.integrator,
            joint_states=config.joint_states, ros_arguments=config.ros_arguments,
        )  # fmt: skip
        try:
            for camera in self.cameras.values():
                camera.connect()
        except BaseException:
            arm.close()
            raise
        return arm

    def _end(self) -> None:
        for camera in self.cameras.values():
            if camera.is_connected:
                camera.disconnect()

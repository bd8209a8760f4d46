"""The robot of LeRobot: its interface over an arm of ros2_control."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from lerobot.cameras.utils import make_cameras_from_configs
from lerobot.robots import Robot
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

from .arm import Arm
from .config_ros2_control import Ros2ControlConfig


class Ros2Control(Robot):
    """Observes `<joint>.pos`, rad, and takes actions of the same names, one by one at the policy's rate.

    `arm` takes chunks, and has the actions with which a chunk must begin.
    """

    config_class = Ros2ControlConfig
    name = "ros2_control"

    def __init__(self, config: Ros2ControlConfig) -> None:
        super().__init__(config)
        if not config.joints:
            raise ValueError("joints: expected the names of those that the policy moves, got none")
        if config.fps <= 0 or config.delay < 0:
            raise ValueError(f"fps, delay: expected a rate and a count, got {config.fps:g} and {config.delay}")
        self.config = config
        self.cameras = make_cameras_from_configs(config.cameras)
        self.arm: Arm | None = None
        self._keys = [f"{joint}.pos" for joint in config.joints]

    @cached_property
    def observation_features(self) -> dict[str, type | tuple[int, int, int]]:
        """Positions of the joints, and the shapes of images."""
        shapes = {name: (camera.height, camera.width, 3) for name, camera in self.config.cameras.items()}
        return dict.fromkeys(self._keys, float) | shapes

    @cached_property
    def action_features(self) -> dict[str, type]:
        """Positions of the joints."""
        return dict.fromkeys(self._keys, float)

    @property
    def is_connected(self) -> bool:
        """Return whether `connect` was called last."""
        return self.arm is not None

    def connect(self, calibrate: bool = True) -> None:
        """Wait for the node, the first joint state and the cameras. Raises TimeoutError."""
        if self.is_connected:
            raise DeviceAlreadyConnectedError(f"{self}: expected disconnect() before connect()")
        config = self.config
        self.arm = Arm(
            config.joints, 1 / config.fps, delay=config.delay, integrator=config.integrator,
            joint_states=config.joint_states, ros_arguments=config.ros_arguments,
        )  # fmt: skip
        for camera in self.cameras.values():
            camera.connect()

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
        position, _ = self._connected().observe()
        images = {name: camera.async_read() for name, camera in self.cameras.items()}
        return dict(zip(self._keys, position.tolist(), strict=True)) | images

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Move to the positions, rad, at the pace of the policy."""
        if missing := [key for key in self._keys if key not in action]:
            raise ValueError(f"action: expected {', '.join(self._keys)}, got none for {missing[0]}")
        self._connected().send(np.array([float(action[key]) for key in self._keys]))
        return {key: float(action[key]) for key in self._keys}

    def disconnect(self) -> None:
        """Let the arm brake, and disconnect."""
        arm, self.arm = self.arm, None
        try:
            if arm is not None:
                arm.close()
        finally:
            for camera in self.cameras.values():
                if camera.is_connected:
                    camera.disconnect()

    def _connected(self) -> Arm:
        if self.arm is None:
            raise DeviceNotConnectedError(f"{self}: expected connect() before, got none")
        return self.arm

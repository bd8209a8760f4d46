"""What the robots of this package have in common: actions, one by one or in chunks, become one motion."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from lerobot.robots import Robot, RobotConfig
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

from .motion import SECOND_NS, Motion

SINGLE_HZ = 5.0
"""Bandwidth for single actions: with 2.5 Hz they are 4 mrad farther from what is meant, and hardly smoother."""
CHUNKS_HZ = 2.5
"""Bandwidth for chunks: noise of 5 mrad adds 1.2 rather than 2 times the acceleration; a new plan takes 80 ms more."""
_SPARE = 2
"""Multiple of the time that the last chunk took until it arrived which the next one may take."""


@dataclass(kw_only=True)
class PacedConfig(RobotConfig):
    """The options of both robots.

    Args:
        fps: rate of the actions, Hz, as in the dataset.
        delay: periods by which single actions are executed later than the policy means.
        bandwidth: with which differences between command and policy go, Hz; None: `SINGLE_HZ`, or `CHUNKS_HZ` for
            whole chunks.

    """

    fps: float = 30.0
    delay: float = 0.8
    bandwidth: float | None = None


def prepare_for_chunks(config: RobotConfig, fps: float) -> None:
    """Set what whole chunks need in the options of a robot. Raises ValueError: it takes none, or another rate."""
    if not isinstance(config, PacedConfig):
        raise ValueError(f"--robot.type: expected ros2_control or smooth, got {config.type}")
    if config.fps != fps:
        raise ValueError(f"--robot.fps: expected --fps, {fps:g}, got {config.fps:g}")
    if config.bandwidth is None:
        config.bandwidth = CHUNKS_HZ


class Paced(Robot):
    """A robot of LeRobot that makes one motion, within limits, of what it is sent."""

    unit = 1.0
    """One unit of observed and sent positions, in rad."""

    def __init__(self, config: PacedConfig) -> None:
        super().__init__(config)
        if config.fps <= 0 or config.delay < 0:
            raise ValueError(
                f"fps, delay: expected a rate and a number of periods, got {config.fps:g}, {config.delay:g}"
            )
        self.config = config
        self.bandwidth = SINGLE_HZ if config.bandwidth is None else config.bandwidth
        self.motion: Motion | None = None
        self.stamp_ns = 0
        """Time of the latest observation, by the clock of the motion, ns."""
        self.single_ns = 0
        """Time of the latest single action."""
        self.has_next = False
        """True if the action that comes next is not to be executed, since a chunk has it."""

    @property
    def is_connected(self) -> bool:
        """Return whether `connect` was called last."""
        return self.motion is not None

    def connect(self, calibrate: bool = True) -> None:
        """Connect; nothing is commanded before the first action."""
        if self.is_connected:
            raise DeviceAlreadyConnectedError(f"{self}: expected disconnect() before connect()")
        self.motion = self._begin(calibrate)

    def disconnect(self) -> None:
        """Let the robot brake, and disconnect it."""
        motion, self.motion = self.motion, None
        try:
            if motion is not None:
                motion.close()
        finally:
            self._end()

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Execute an action: one every 1 / fps."""
        motion = self._connected()
        if missing := [key for key in self.action_features if key not in action]:
            raise ValueError(f"action: expected {', '.join(self.action_features)}, got none for {missing[0]}")
        if not self.has_next:
            self.single_ns = motion.now_ns()
            motion.send(self._positions(action))
        self.has_next = False
        return {key: float(action[key]) for key in self.action_features}

    def send_chunk(self, actions: np.ndarray, stamp_ns: int = 0) -> None:
        """Execute a chunk, whose first action is reached one period after its observation.

        Args:
            actions: positions `[actions, joints]` in the order of `action_features`.
            stamp_ns: `stamp_ns` of its observation; 0: that of the latest one.

        """
        self._connected().send_chunk(self.unit * np.asarray(actions, dtype=float), stamp_ns or self.stamp_ns)

    def next_chunk_ns(self, stamp_ns: int, actions: int, passed: float) -> int:
        """Return when the next chunk is to be asked for, ns: before a chunk that has just come is over.

        Args:
            stamp_ns: `stamp_ns` of its observation.
            actions: length of the chunk.
            passed: number of actions that have passed by then, unless that is too late.

        """
        period_ns, took_ns = SECOND_NS / self.config.fps, self._connected().now_ns() - stamp_ns
        return stamp_ns + round(min(passed * period_ns, actions * period_ns - _SPARE * took_ns))

    def prefix(self, actions: int, inference_s: float, stamp_ns: int = 0) -> np.ndarray:
        """Return the actions `[fixed, joints]` with which a chunk of this many must begin; see `Motion.prefix`."""
        return self._connected().prefix(stamp_ns or self.stamp_ns, actions, inference_s) / self.unit

    @abstractmethod
    def _begin(self, calibrate: bool) -> Motion:
        """Connect what moves."""

    @abstractmethod
    def _end(self) -> None:
        """Disconnect what is connected."""

    def _positions(self, values: dict[str, Any]) -> np.ndarray:
        return self.unit * np.array([float(values[key]) for key in self.action_features])

    def _connected(self) -> Motion:
        if self.motion is None:
            raise DeviceNotConnectedError(f"{self}: expected connect() before, got none")
        return self.motion

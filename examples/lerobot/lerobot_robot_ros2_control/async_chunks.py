"""`lerobot-async-chunks`: LeRobot's client of a policy server with its options, whose whole chunks move the robot."""

from __future__ import annotations

import pickle
import time
from itertools import count
from typing import Any

import grpc
import numpy as np
from lerobot.async_inference import robot_client
from lerobot.async_inference.configs import RobotClientConfig
from lerobot.async_inference.helpers import TimedObservation
from lerobot.transport.services_pb2 import Empty
from lerobot.utils.import_utils import register_third_party_plugins

from .paced import prepare_for_chunks

_LOOKS = 10
"""Number of times in a period at which it is seen whether the next chunk is due."""


class ChunksClient(robot_client.RobotClient):
    """Sends each chunk of the server to the robot, with the time of its observation.

    LeRobot's own client counts actions: where an inference takes longer than it has counted, its actions jump.
    """

    def __init__(self, config: RobotClientConfig) -> None:
        prepare_for_chunks(config.robot, config.fps)
        super().__init__(config)
        self._observed: tuple[dict[str, Any], int] | None = None

    def control_loop(self, task: str, verbose: bool = False) -> None:
        """Observe the robot in each period."""
        while not self.shutdown_event.wait(self.config.environment_dt):
            self._observed = {**self.robot.get_observation(), "task": task}, self.robot.stamp_ns

    def receive_actions(self, verbose: bool = False) -> None:
        """Ask for a chunk when `chunk_size_threshold` of the last one is left, or earlier; called in a thread."""
        numbers, due_ns = count(), 0
        try:
            while not self.shutdown_event.wait(self.config.environment_dt / _LOOKS):
                if self._observed is None or self._observed[1] < due_ns:
                    continue
                observation, stamp_ns = self._observed
                chunk = self._infer(TimedObservation(time.time(), next(numbers), observation, must_go=True))
                if len(chunk) and self.running:
                    self.robot.send_chunk(chunk, stamp_ns)
                    passed = (1 - self.config.chunk_size_threshold) * len(chunk)
                    due_ns = self.robot.next_chunk_ns(stamp_ns, len(chunk), passed)
        finally:
            self.shutdown_event.set()

    def _infer(self, observation: TimedObservation) -> np.ndarray:
        """Return the chunk `[actions, joints]` of an observation; an empty one if the server has none."""
        try:
            is_sent = self.send_observation(observation)
            found = self.stub.GetActions(Empty()).data if is_sent else b""
        except grpc.RpcError as error:
            if self.running:
                self.logger.error("no chunk: %s", error)
            found = b""
        return np.array([one.get_action().numpy() for one in pickle.loads(found)]) if found else np.empty((0, 0))


def main() -> None:
    """Run LeRobot's robot client with this one in its place."""
    register_third_party_plugins()
    robot_client.RobotClient = ChunksClient
    robot_client.async_client()

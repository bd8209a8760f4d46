"""`lerobot-async-chunks`: LeRobot's client of a policy server with its options, whose whole chunks move the robot."""

from __future__ import annotations

import pickle
import threading
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

from .motion import SECOND_NS
from .paced import prepare_for_chunks


class ChunksClient(robot_client.RobotClient):
    """Sends each chunk of the server to the robot, with the time of its observation.

    LeRobot's own client counts actions: where an inference takes longer than it has counted, its actions jump.
    """

    def __init__(self, config: RobotClientConfig) -> None:
        prepare_for_chunks(config.robot, config.fps)
        super().__init__(config)
        self._observing = threading.Lock()

    def control_loop(self, task: str, verbose: bool = False) -> None:
        """Observe the robot in each period: it may have to be braked."""
        while not self.shutdown_event.wait(self.config.environment_dt):
            self._observe()

    def receive_actions(self, verbose: bool = False) -> None:
        """Ask for a chunk when `chunk_size_threshold` of the last one is left, or earlier; called in a thread."""
        numbers, wait_s = count(), 0.0
        try:
            while not self.shutdown_event.wait(wait_s):
                observation, stamp_ns = self._observe()
                chunk = self._infer(TimedObservation(time.time(), next(numbers), observation, must_go=True))
                wait_s = self.config.environment_dt
                if len(chunk) and self.running:
                    self.robot.send_chunk(chunk, stamp_ns)
                    passed = (1 - self.config.chunk_size_threshold) * len(chunk)
                    due_ns = self.robot.next_chunk_ns(stamp_ns, len(chunk), passed)
                    wait_s = max(due_ns - self.robot.motion.now_ns(), 0) / SECOND_NS
        finally:
            self.shutdown_event.set()

    def _observe(self) -> tuple[dict[str, Any], int]:
        with self._observing:
            return {**self.robot.get_observation(), "task": self.config.task}, self.robot.stamp_ns

    def _infer(self, observation: TimedObservation) -> np.ndarray:
        """Return the chunk `[actions, joints]` of an observation; an empty one if the server has none.

        LeRobot's servers answer in pickles, which may run any code: connect to servers that you trust.
        """
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

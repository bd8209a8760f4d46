"""Plays a recording on joint_states at its real rate, as the robot's driver did: repeated frames and all."""

from __future__ import annotations

import threading
import time
from array import array

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState

from .motion import Motion

TOPIC = "joint_states"
HISTORY = 4000


class JointStatePlayer(Node):
    """Publishes every sample of a motion when it is due, stamped with the time of publishing, over and over if need be.

    Args:
        motion: what is played, [N] samples of D joints.
        passes: how often; short motions are played several times.

    """

    def __init__(self, motion: Motion, passes: int = 1) -> None:
        super().__init__("demo_joint_state_player")
        self._motion = motion
        self._passes = passes
        self._publisher = self.create_publisher(JointState, TOPIC, 10)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play, name="joint-state-player", daemon=True)
        self._begin: float | None = None
        self._recent: dict[bytes, None] = {}
        self._messages = 0
        self._error: BaseException | None = None

    @property
    def duration(self) -> float:
        """Time that playing takes [s]."""
        return self._passes * (self._motion.duration + self._motion.step)

    @property
    def messages(self) -> int:
        """Joint states published so far."""
        return self._messages

    @property
    def elapsed(self) -> float:
        """Time since the start [s], 0 before it."""
        return 0.0 if self._begin is None else time.monotonic() - self._begin

    @property
    def motion_time(self) -> float:
        """Where in the motion the robot is [s]."""
        return self.elapsed % (self._motion.duration + self._motion.step)

    @property
    def is_playing(self) -> bool:
        """Whether there is still something to play. Raises what stopped the player, if anything did."""
        if self._error is not None:
            raise self._error
        return self._thread.is_alive()

    def has_published(self, position: np.ndarray) -> bool:
        """Whether one of the latest joint states had these positions [D], as float32."""
        return position.astype(np.float32).tobytes() in self._recent

    def announce(self) -> None:
        """Publish the first sample once, ahead of time: where the robot is when playing starts."""
        self._publish(0)

    def start(self) -> None:
        """Start playing, in a thread of its own."""
        self._begin = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Stop playing; returns when the last message is out."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _play(self) -> None:
        try:
            for number in range(self._passes):
                offset = self._begin + number * (self._motion.duration + self._motion.step)
                for k, due in enumerate(self._motion.time + offset):
                    wait = due - time.monotonic()
                    if self._stop.wait(wait) if wait > 0 else self._stop.is_set():
                        return
                    self._publish(k)
        except Exception as error:  # shown by is_playing, in the thread that can end the demo
            self._error = error

    def _publish(self, k: int) -> None:
        position = self._motion.position[k]
        self._recent[position.astype(np.float32).tobytes()] = None
        if len(self._recent) > HISTORY:
            del self._recent[next(iter(self._recent))]
        message = JointState(name=list(self._motion.joint_names))
        message.position = array("d", position.tobytes())
        message.velocity = array("d", self._motion.velocity[k].tobytes())
        message.header.stamp = self.get_clock().now().to_msg()
        self._publisher.publish(message)
        self._messages += 1

"""The robot's driver: joint states, one by one or as a recorded motion when they are due."""

from __future__ import annotations

import threading
import time
from array import array
from concurrent.futures import Future, wait

import numpy as np
from sensor_msgs.msg import JointState

from traj_integrator_ros.governor.background import in_background
from traj_integrator_ros.motions.samples import Samples
from traj_integrator_ros.tools.replay import due_samples

from .messages import Template
from .participant import Participant

HISTORY = 4000


class StatePublisher:
    """Publishes where the joints are, with the least work for each message."""

    def __init__(self, participant: Participant, joint_names: tuple[str, ...]) -> None:
        self.messages = 0
        """Joint states published so far."""
        self.publisher = participant.publisher(JointState, "joint_states", depth=10)
        fields = np.random.default_rng(0).random((2, len(joint_names)))
        position, velocity = (array("d", values.tobytes()) for values in fields)
        self._template = Template(JointState(name=list(joint_names), position=position, velocity=velocity), *fields)

    def publish(self, position: np.ndarray, velocity: np.ndarray, stamp_ns: int | None = None) -> None:
        """Publish a joint state `[dof]`, float64, of now; rad and rad/s."""
        stamp_ns = time.time_ns() if stamp_ns is None else stamp_ns
        self.publisher.publish(self._template.stamped(stamp_ns, position, velocity))
        self.messages += 1


class MotionPlayer:
    """Publishes every sample of a motion with velocities when it is due, `passes` times, in a thread of its own."""

    def __init__(self, states: StatePublisher, motion: Samples, passes: int) -> None:
        self._states, self._motion, self._passes = states, motion, passes
        self._pass_s = float(motion.time[-1] + np.diff(motion.time).mean())
        self._stop = threading.Event()
        self._playing: Future[None] | None = None
        self._begin_s: float | None = None
        self._recent: dict[bytes, None] = {}

    @property
    def duration_s(self) -> float:
        """Time that playing takes."""
        return self._passes * self._pass_s

    @property
    def elapsed_s(self) -> float:
        """Time since the start, 0 before it."""
        return 0.0 if self._begin_s is None else time.monotonic() - self._begin_s

    @property
    def motion_time_s(self) -> float:
        """Where in the motion the robot is."""
        return self.elapsed_s % self._pass_s

    @property
    def is_playing(self) -> bool:
        """Whether there is still something to play. Raises what stopped the player, if anything did."""
        if self._playing is None or not self._playing.done():
            return self._playing is not None
        self._playing.result()
        return False

    def has_published(self, position: np.ndarray) -> bool:
        """Whether one of the latest joint states had these positions `[dof]`, as float32."""
        return position.astype(np.float32).tobytes() in self._recent

    def announce(self) -> None:
        """Publish the first sample once, ahead of time: where the robot is when playing starts."""
        self._publish(0)

    def start(self) -> None:
        """Start playing."""
        self._begin_s = time.monotonic()
        self._playing = in_background(self._play)

    def stop(self) -> None:
        """Stop playing; returns when the last message is out."""
        self._stop.set()
        if self._playing is not None:
            wait([self._playing])

    def _play(self) -> None:
        for _, k, due in due_samples(self._motion.time, self._passes):
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            self._publish(k)

    def _publish(self, k: int) -> None:
        position = self._motion.position[k]
        self._recent[position.astype(np.float32).tobytes()] = None
        if len(self._recent) > HISTORY:
            del self._recent[next(iter(self._recent))]
        self._states.publish(position, self._motion.velocity[k])

"""The robot: how its joints swing, and its driver, a process of its own that publishes joint states."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sensor_msgs.msg import JointState

from kit.messages import Template
from kit.participant import Participant
from traj_integrator_ros.limits.joint_limits import JointLimits

AMPLITUDE_RAD = 0.1
END_WITHIN_S = 10.0


@dataclass(frozen=True)
class Swing:
    """Motion of a robot's joints: each swings around the middle of its range of positions."""

    limits: JointLimits

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The robot's joints."""
        return self.limits.joint_names

    @property
    def middle(self) -> np.ndarray:
        """Middle of each joint's range `[dof]`, rad."""
        return (np.asarray(self.limits.position_min) + np.asarray(self.limits.position_max)) / 2

    def at(self, time_ns: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position, rad, and velocity, rad/s, at times since the epoch, `[..., dof]` each; the same everywhere."""
        omega = 2 * np.pi * np.linspace(0.1, 0.25, len(self.joint_names))
        phase = np.multiply.outer(np.asarray(time_ns) % 10**14 * 1e-9, omega)
        return self.middle + AMPLITUDE_RAD * np.sin(phase), AMPLITUDE_RAD * omega * np.cos(phase)


class Driver:
    """A process, forked from this one, that publishes joint states at a rate with little work for each message.

    Args:
        swing: motion of the joints.
        rate_hz: rate of joint states.
        log: file for its standard error.

    """

    def __init__(self, swing: Swing, rate_hz: float, log: Path) -> None:
        fork = multiprocessing.get_context("fork")
        self._log, self._over, self._sent = log, fork.Event(), fork.Value("q", 0)
        self._process = fork.Process(target=self._publish, args=(swing, rate_hz))
        self._process.start()

    @property
    def sent(self) -> int:
        """Joint states published so far."""
        return self._sent.value

    def check(self) -> None:
        """Raise RuntimeError if it has ended."""
        if not self._process.is_alive():
            errors = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RuntimeError(f"the robot ended with exit code {self._process.exitcode}: {' | '.join(errors[-3:])}")

    def close(self) -> None:
        """End the process."""
        self._over.set()
        self._process.join(END_WITHIN_S)
        self._process.kill()
        self._process.join()

    def _publish(self, swing: Swing, rate_hz: float) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal goes to the soak, which then ends us
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        parent = os.getppid()
        with Participant(name="soak_robot") as participant:
            publish = _publisher(participant, swing)
            begin = time.monotonic()
            while not self._over.is_set() and os.getppid() == parent:
                publish()
                self._sent.value += 1
                time.sleep(max(0.0, begin + self._sent.value / rate_hz - time.monotonic()))


def _publisher(participant: Participant, swing: Swing) -> Callable[[], None]:
    topic = participant.publisher(JointState, "joint_states", depth=10)
    fields = np.random.default_rng(0).random((2, len(swing.joint_names)))
    position, velocity = (array("d", values.tobytes()) for values in fields)
    template = Template(JointState(name=list(swing.joint_names), position=position, velocity=velocity), *fields)

    def publish() -> None:
        now_ns = time.time_ns()
        topic.publish(template.stamped(now_ns, *swing.at(now_ns)))

    return publish

"""Processes beside the soak: the robot's driver, the operator, and one that keeps a core busy."""

from __future__ import annotations

import ctypes
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
from traj_integrator_interfaces.srv import Stop
from traj_integrator_ros.limits.joint_limits import JointLimits

AMPLITUDE_RAD = 0.1
END_WITHIN_S = 10.0
STOPS = 60
"""Number of stops."""
EVERY_S = 0.15
"""Time between two stops, s."""
WITHIN_S = 10.0
"""Longest wait for an answer, s."""
_LOOK_S = 5e-4
"""Time between two looks for an answer, s."""
_FORK = multiprocessing.get_context("fork")
_ENDS_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


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


class Beside:
    """A process that is forked from this one and does some work; Ctrl-C ends the soak, which then ends it.

    Work ends soon after `over` is set; standard error goes to a log.
    """

    def __init__(self, work: Callable[[], None], log: Path) -> None:
        self._log, self.over = log, _FORK.Event()
        self._process = _FORK.Process(target=self._run, args=(work,), daemon=True)
        self._process.start()

    def check(self) -> None:
        """Raise RuntimeError if it has ended."""
        if not self._process.is_alive():
            last = " | ".join(self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:])
            raise RuntimeError(f"the {self._log.stem} ended with exit code {self._process.exitcode}: {last}")

    def close(self) -> None:
        """End the process."""
        self.over.set()
        self._process.join(END_WITHIN_S)
        self._process.kill()
        self._process.join()

    def _run(self, work: Callable[[], None]) -> None:
        ctypes.CDLL(None).prctl(_ENDS_WITH_PARENT, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        work()


class Driver(Beside):
    """Publishes joint states of a swing at a rate, with little work for each message."""

    def __init__(self, swing: Swing, rate_hz: float, log: Path) -> None:
        self._swing, self._rate_hz, self._sent = swing, rate_hz, _FORK.Value("q", 0)
        super().__init__(self._publish, log)

    @property
    def sent(self) -> int:
        """Joint states published so far."""
        return self._sent.value

    def _publish(self) -> None:
        names = list(self._swing.joint_names)
        fields = np.random.default_rng(0).random((2, len(names)))
        position, velocity = (array("d", values.tobytes()) for values in fields)
        template = Template(JointState(name=names, position=position, velocity=velocity), *fields)
        with Participant(name="soak_robot") as participant:
            topic, begin = participant.publisher(JointState, "joint_states", depth=10), time.monotonic()
            while not self.over.is_set():
                now_ns = time.time_ns()
                topic.publish(template.stamped(now_ns, *self._swing.at(now_ns)))
                self._sent.value += 1
                time.sleep(max(0.0, begin + self._sent.value / self._rate_hz - time.monotonic()))


class Operator(Beside):
    """Calls ~/stop `STOPS` times after `begin`; `stops_s` then has the times until the answers were sent, s.

    An answer counts from when the node sent it: the operator may have to wait for a core before it can read it.
    """

    def __init__(self, log: Path) -> None:
        self._begin, self._results, self.stops_s = _FORK.Event(), _FORK.SimpleQueue(), []
        super().__init__(self._call, log)

    def begin(self) -> None:
        """Let the operator call."""
        self._begin.set()

    @property
    def is_over(self) -> bool:
        """Return whether the operator has made its calls, or cannot make them."""
        if not self._results.empty():
            self.stops_s = self._results.get()
        return bool(self.stops_s) or not self._process.is_alive()

    def _call(self) -> None:
        with Participant(name="soak_operator") as participant:
            client = participant.node.create_client(Stop, participant.topic("~/stop"))
            client.wait_for_service(60.0)
            while not self._begin.wait(EVERY_S):
                if self.over.is_set():
                    return
            took_s = []
            for _ in range(STOPS):
                time.sleep(EVERY_S)
                begun_ns, header = time.time_ns(), None
                client.handle.send_request(Stop.Request())
                while header is None and time.time_ns() < begun_ns + WITHIN_S * 1e9:
                    time.sleep(_LOOK_S)
                    header, _ = client.handle.take_response(Stop.Response)
                took_s.append(float("inf") if header is None else (header.source_timestamp - begun_ns) * 1e-9)
            self._results.put(took_s)


class Neighbour(Beside):
    """Keeps a core busy, to which the node is bound."""

    def __init__(self, node_pid: int, log: Path) -> None:
        self._core = max(os.sched_getaffinity(node_pid))
        for thread in os.listdir(f"/proc/{node_pid}/task"):
            os.sched_setaffinity(int(thread), {self._core})
        super().__init__(self._compute, log)

    def _compute(self) -> None:
        os.sched_setaffinity(0, {self._core})
        while not self.over.is_set():
            pass

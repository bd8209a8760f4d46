"""Commands servos from the executor of the integrator, in a thread; without ROS and LeRobot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from traj_integrator_ros.execution.committed import Committed
from traj_integrator_ros.governor.committed import CommittedFields
from traj_integrator_ros.governor.executor import Actions, Executor, NodeParameters, Rejected
from traj_integrator_ros.governor.rehearsal import rehearse
from traj_integrator_ros.kernels import ControlSpace

from .motion import Motion

_LEAD_TIME_S = 0.01
"""Time, s, until a new plan is taken up: no message is on its way, and the thread samples at least every 10 ms."""
_BRAKES_WITHIN_S = 5.0
"""Longest time, s, that closing waits for the joints to rest."""


class Servos(Motion):
    """Makes one motion, within limits, of actions that come one by one or as chunks, and commands it at a high rate.

    Nothing is commanded before the first action.

    Args:
        joints: names of the joints, in the order of all arrays.
        write: commands positions, rad, `[joints]`; the thread calls it.
        limits: largest velocity, rad/s, acceleration, rad/s^2, and jerk, rad/s^3, each `[joints]`.
        position: where the joints are, rad, `[joints]`.
        period_s: time between two actions, s.
        rate: commands in a second.
        delay: periods by which single actions are executed later, as `Pace` says.
        bandwidth: with which differences between command and plan go, Hz.
        deviation: error of a joint, rad, beyond which the arm is braked; 0: any.
        clock: returns the time, ns.

    """

    def __init__(
        self,
        joints: Sequence[str],
        write: Callable[[np.ndarray], object],
        limits: Sequence[Sequence[float]],
        position: np.ndarray,
        period_s: float,
        *,
        rate: float = 100.0,
        delay: float = 0.8,
        bandwidth: float = 5.0,
        deviation: float = 0.0,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        names = ("limits.velocity", "limits.acceleration", "limits.jerk")
        given = {name: list(map(float, values)) for name, values in zip(names, limits, strict=True)}
        parameters = NodeParameters.of(
            joints, device="cpu", start_from="previous", state_timeout=0.0, limits__start_deviation=0.0,
            publish__lead_time=_LEAD_TIME_S, publish__bandwidth=bandwidth, supervision__deviation=deviation, **given,
        )  # fmt: skip
        rehearse(parameters)  # otherwise, the first motion takes 50 ms
        super().__init__(period_s, delay, np.asarray(limits[1], float))
        self._executor = Executor(
            parameters,
            warn=lambda rejected: self._warn(rejected.reason, str(rejected)),
            refuse=lambda rejected, _: self._not_executed(rejected),
        )
        self._write, self._cycle_s, self._clock = write, 1 / rate, clock
        self._lock, self._over = threading.RLock(), threading.Event()
        self._begun, self._failed = False, None
        self._thread = threading.Thread(target=self._drive, name="servos", daemon=True)
        self._executor.sample(self.observe(position))  # the command is known: no action waits for a first motion

    def start(self) -> None:
        """Begin to command, in a thread."""
        self._thread.start()

    def observe(self, position: np.ndarray) -> int:
        """Take measured positions, rad, `[joints]`; returns their stamp, ns. Raises what `write` has raised."""
        self._require_thread()
        with self._lock:
            now_ns = self._clock()
            self._executor.joint_state(position, np.zeros(len(position)), now_ns)
        return now_ns

    def send(self, position: np.ndarray) -> None:
        """Execute one action, rad, `[joints]`, a period after the one before."""
        try:
            super().send(position)
        except Rejected as rejected:  # it was not sampled for long
            self._not_executed(rejected)

    def _execute(self, positions: np.ndarray, stamp_ns: int) -> None:
        self._require_thread()
        with self._lock:
            try:
                self._executor.execute(
                    Actions(stamp_ns, ControlSpace.POSITION, self.period_s, positions), self._clock(), self._clock
                )
                self._begun = True
            except Rejected as rejected:
                self._not_executed(rejected)

    def now_ns(self) -> int:
        """Time by the clock, ns."""
        return self._clock()

    def cycle(self) -> None:
        """Command the servos once, and supervise."""
        # Sampled first: otherwise, a plan would have to wait where this cycle is late.
        command = self._executor.sample(self._clock())
        if self._begun:
            self._write(command.position)
        if self._lock.acquire(blocking=False):  # otherwise, a plan is being made, and the servos do not wait for it
            try:
                self.end()
                self._executor.tick(self._clock())
            finally:
                self._lock.release()

    def _close(self) -> None:
        """Brake, and end the thread when the joints rest."""
        if self._thread.is_alive():
            with self._lock:
                self._executor.stop(self._clock())
            deadline_s = time.monotonic() + _BRAKES_WITHIN_S
            while self._thread.is_alive() and time.monotonic() < deadline_s and self._moves():
                time.sleep(self._cycle_s)
            self._over.set()
            self._thread.join()

    def _moves(self) -> bool:
        with self._lock:
            return self._executor.is_busy(self._clock())

    def _drive(self) -> None:
        due_s = time.monotonic() + self._cycle_s  # the first interval between samples is taken for the usual one
        try:
            while not self._over.wait(max(due_s - time.monotonic(), 0.0)):
                due_s = max(due_s + self._cycle_s, time.monotonic())
                self.cycle()
        except Exception as error:  # the next call raises it
            self._failed = error

    def _require_thread(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _committed(self, stamp_ns: int, rows: int) -> Committed:
        with self._lock:
            return self._executor.committed(CommittedFields(stamp_ns, self.period_s, rows, 0), self._clock())

    def _not_executed(self, rejected: Rejected) -> None:
        self._refuse(rejected.reason, str(rejected))

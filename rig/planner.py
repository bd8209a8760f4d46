"""The planner's side of a rig: sequences, plans, streams, calls of services."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import SetParameters
from rclpy.client import Client
from rclpy.parameter import Parameter
from rclpy.task import Future

from traj_integrator_interfaces.srv import Stop
from traj_integrator_ros.client import sequence, set_stamp
from traj_integrator_ros.client.requests import positions_message

from .intentions import Motion, ramp
from .loop import NS

POS = 1
VEL = 2
"""Control space of velocities, as in ActionSequence."""


class Planner:
    """Messages and calls of a planner: mixed into a loop."""

    def seq(self, u: object, dt: object, space: int = POS, stamp: int | None = None) -> None:
        """Send a sequence `[n, dof]`, or `[n]` for all joints, with a stamp, ns of the machine's clock (None: now)."""
        u = np.asarray(u, float)
        u = u if u.ndim == 2 else np.repeat(u[:, None], self.dof, 1)
        message = sequence(u[None], dt=dt, control_space=space)
        set_stamp(message, self.clock() if stamp is None else stamp)
        self.actions.publish(message)

    def traj(self, times: object, points: object, stamp: int = 0) -> None:
        """Send positions at times as a position trajectory."""
        self.positions.publish(positions_message(points, times, self.names, stamp))

    def ramping(
        self, speed: float, seconds: float = 0.5, rows: int = 16, *, begin: float | None = None, dt: float = 0.05,
        off: float = 0.0,
    ) -> Callable[[], None]:  # fmt: skip
        """Return a function that sends rows of all joints, which reach a speed, rad/s, after `seconds`.

        The motion begins at a time of the rig, s, or in 0.1 s; `off` is added to the positions.
        """
        begin = self.t + 0.1 if begin is None else begin
        return lambda: self.seq(off + ramp(self.t - begin + dt * np.arange(1, rows + 1), speed, seconds), dt)

    def stream(self, at: Motion, seconds: float, horizon: int = 24, inference: float = 0.0) -> int:
        """Send chunks at 10 Hz, stamped with their observation, `inference` and up to 15 ms later; returns how many."""
        random_, waiting = random.Random(3), []
        begin, k, end = self.t, 0, self.t + seconds
        while self.t < end:
            due = begin + k / 10
            if self.t >= due:
                late = inference + random_.uniform(0, 0.015)
                waiting.append((due + late, at(due + 0.04 * np.arange(1, horizon + 1))[0], self.clock(round(due * NS))))
                k += 1
            while waiting and waiting[0][0] <= self.t:
                _, u, stamp = waiting.pop(0)
                self.seq(u, 0.04, stamp=stamp)
            self.go(0.002)
        return k

    def call(self, client: Client, request: object, timeout: float = 5.0) -> object | None:
        """Call a service while the robot goes on; returns the answer, or None."""
        end = time.monotonic() + timeout
        while not client.service_is_ready() and time.monotonic() < end:
            self.go(0.02)
        future = client.call_async(request)
        while not future.done() and time.monotonic() < end:
            self.go(0.004)
        return future.result() if future.done() else None

    def stop(self, hold: bool = False) -> Stop.Response | None:
        """Call ~/stop; returns the answer, or None."""
        return self.call(self.stopper, Stop.Request(hold=hold))

    def stop_later(self) -> Future:
        """Call ~/stop without waiting for the answer."""
        return self.stopper.call_async(Stop.Request())

    def set(self, **values: object) -> list[str]:
        """Set parameters, `__` for dots; returns reasons for failures."""
        given = [Parameter(name.replace("__", "."), value=value).to_parameter_msg() for name, value in values.items()]
        answer = self.call(self.setter, SetParameters.Request(parameters=given))
        return ["no answer"] if answer is None else [one.reason for one in answer.results if not one.successful]

    def lifecycle(self, transition: int) -> bool:
        """Ask for a transition by its number."""
        request = ChangeState.Request()
        request.transition.id = transition
        answer = self.call(self.changer, request)
        return bool(answer and answer.success)

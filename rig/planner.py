"""The planner's side of a rig: sequences, plans, calls of services."""

from __future__ import annotations

import array
import time

import numpy as np
from builtin_interfaces.msg import Duration, Time
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.client import Client
from rclpy.task import Future
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Stop

from .loop import NS

POS, VEL, ACC, JERK = 1, 2, 3, 4
"""Control spaces of ActionSequence."""


def _floats(values: object) -> array.array:
    return array.array("f", np.ascontiguousarray(values, np.float32).tobytes())


class Planner:
    """What is sent and asked: mixed into a loop."""

    def seq(
        self,
        u: object,
        dt: object,
        space: int = POS,
        stamp: bool | int | None = True,
        start: tuple | None = None,
        goal: tuple | None = None,
    ) -> None:
        """Send a sequence; stamp: True now, None 0, or ns of the machine's clock."""
        u = np.asarray(u, float)
        u = u if u.ndim == 2 else np.repeat(u[:, None], self.dof, 1)
        m = ActionSequence(
            batch=1,
            horizon=len(u),
            control_space=space,
            dt=_floats(np.atleast_1d(dt)),
            data=_floats(u),
        )
        stamp = self.clock() if stamp is True else stamp or 0
        m.header.stamp = Time(sec=stamp // NS, nanosec=stamp % NS)
        for state, field in ((start, m.start), (goal, m.goal)):
            if state is not None:
                for name, values in zip(("position", "velocity", "acceleration"), state, strict=False):
                    setattr(field, name, _floats(values))
        self.actions.publish(m)

    def traj(self, times: object, points: object, stamp: int = 0, names: list[str] | None = None) -> None:
        """Send positions at times as a position trajectory."""
        m = JointTrajectory(joint_names=names or self.names)
        m.header.stamp = Time(sec=stamp // NS, nanosec=stamp % NS)
        for at, row in zip(times, points, strict=True):
            ns = round(at * NS)
            m.points.append(
                JointTrajectoryPoint(
                    positions=list(map(float, np.atleast_1d(row))),
                    time_from_start=Duration(sec=ns // NS, nanosec=ns % NS),
                )
            )
        self.positions.publish(m)

    def call(self, client: Client, request: object, timeout: float = 5.0) -> object | None:
        """Call a service while the robot goes on; the answer, or None."""
        end = time.monotonic() + timeout
        while not client.service_is_ready() and time.monotonic() < end:
            self.go(0.02)
        future = client.call_async(request)
        while not future.done() and time.monotonic() < end:
            self.go(0.004)
        return future.result() if future.done() else None

    def stop(self, hold: bool = False) -> Stop.Response | None:
        """Call ~/stop; the answer, or None."""
        return self.call(self.stopper, Stop.Request(hold=hold))

    def stop_later(self, hold: bool = False) -> Future:
        """Call ~/stop without waiting for the answer."""
        return self.stopper.call_async(Stop.Request(hold=hold))

    def set(self, **values: object) -> list[tuple[bool, str]] | None:
        """Set parameters, `__` for dots; for each, whether that succeeded, and why not."""
        request = SetParameters.Request()
        for key, value in values.items():
            v = ParameterValue()
            if isinstance(value, bool):
                v.type, v.bool_value = ParameterType.PARAMETER_BOOL, value
            elif isinstance(value, float):
                v.type, v.double_value = ParameterType.PARAMETER_DOUBLE, value
            elif isinstance(value, str):
                v.type, v.string_value = ParameterType.PARAMETER_STRING, value
            else:
                v.type, v.double_array_value = ParameterType.PARAMETER_DOUBLE_ARRAY, list(map(float, value))
            request.parameters.append(Parameter(name=key.replace("__", "."), value=v))
        answer = self.call(self.setter, request)
        return answer and [(r.successful, r.reason) for r in answer.results]

    def lifecycle(self, transition: int) -> bool:
        """Ask for a transition by its number."""
        request = ChangeState.Request()
        request.transition.id = transition
        answer = self.call(self.changer, request)
        return bool(answer and answer.success)

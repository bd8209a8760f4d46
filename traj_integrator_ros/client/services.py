"""The node's services as methods with arrays in and out."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.parameter import parameter_value_to_python

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Committed as CommittedService
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Integrate, Retime, Stop

from .answers import (
    Committed,
    Evaluation,
    Gradient,
    Refused,
    Retimed,
    Stopped,
    Trajectories,
    committed_of,
    evaluation_of,
    gradient_of,
    kind_of,
    retimed_of,
    stopped_of,
    trajectories_of,
)
from .requests import (
    ORDERS,
    cost_message,
    gradient_request,
    output_bits,
    parameter_message,
    retime_request,
    row_numbers,
    seconds_of,
    sequence,
)
from .values import number, whole

if TYPE_CHECKING:
    from .requests import Array

    Actions = Array | ActionSequence
Submit = Callable[[type, str, object, Callable[[Any], object]], Any]


class Services:
    """The services of one node; each method returns what `submit` makes of its call.

    Actions are arrays `[batch, horizon, dof]` with the keyword arguments of `sequence`, or a message that it made.
    Results are tensors on the device of the actions if these are a tensor, and otherwise arrays of numpy.

    All methods raise ValueError for arguments of wrong shapes, Refused if the node refuses the request, TimeoutError if
    it does not answer, and RuntimeError once rclpy or the client is shut down.

    Args:
        submit: called with a service type, a name, a request, and a function from the response to the result.
        joint_names: the order of the columns, unless a call gives another; empty: the node's own order.

    """

    def __init__(self, submit: Submit, joint_names: Sequence[str] = ()) -> None:
        self._submit = submit
        self.joint_names = tuple(joint_names)

    def integrate(
        self, actions: Actions, *, outputs: Iterable[str] = ORDERS, as_published: bool = False, **fields: Any
    ) -> Trajectories:
        """Return the trajectories of some actions.

        Args:
            actions: as this class says.
            outputs: the wanted ones of position, velocity, acceleration and jerk.
            as_published: whether to refuse what the topic action_sequence would reject now.
            fields: keyword arguments of `sequence`.

        """
        message = self.message(actions, **fields)
        request = Integrate.Request(actions=message, fields=output_bits(outputs), as_published=bool(as_published))
        kind = kind_of(actions)
        return self._call(Integrate, "integrate", request, lambda answer: trajectories_of(answer.trajectory, kind))

    def compute_gradient(self, actions: Actions, upstream: Mapping[str, Array], **fields: Any) -> Gradient:
        """Return the vector-Jacobian product of the integration.

        Args:
            actions: as this class says.
            upstream: gradients of a cost with respect to the outputs, by their names, `[batch, horizon, dof]` each,
                with the horizon of the trajectories.
            fields: keyword arguments of `sequence`.

        """
        message = self.message(actions, **fields)
        request = gradient_request(message, upstream)
        dof = np.shape(next(iter(upstream.values())))[2]
        take = partial(gradient_of, actions=message, dof=dof, kind=kind_of(actions))
        return self._call(ComputeGradient, "compute_gradient", request, take)

    def evaluate(
        self,
        actions: Actions,
        cost: Mapping[str, object],
        *,
        gradients: Iterable[str] = ("action",),
        rows: Sequence[int] = (),
        outputs: Iterable[str] = ORDERS,
        violations: bool | Iterable[str] = False,
        **fields: Any,
    ) -> Evaluation:
        """Return the costs of some actions, with gradients.

        Args:
            actions: as this class says.
            cost: a QuadraticCost of the kernels, or a mapping. That has duration_weight and, for each output, weight,
                target, terminal_weight, limit_weight, lower and upper. Numbers apply to all joints.
            gradients: the wanted ones of action, start, goal and dt.
            rows: indices of the trajectories to return.
            outputs: outputs of these trajectories to return.
            violations: whether to return violations of limits, or for which outputs.
            fields: keyword arguments of `sequence`.

        """
        message = self.message(actions, **fields)
        dof, wanted = len(message.data) // max(1, message.batch * message.horizon), set(gradients)
        if unknown := wanted - {"action", "start", "goal", "dt"}:
            raise ValueError(f"gradients: expected some of action, start, goal, dt; got {min(unknown)}")
        request = Evaluate.Request(
            actions=message, cost=cost_message(cost, dof),
            want_grad_action="action" in wanted, want_grad_start="start" in wanted,
            want_grad_goal="goal" in wanted, want_grad_dt="dt" in wanted,
            trajectory_rows=row_numbers("rows", rows), trajectory_fields=output_bits(outputs),
            want_limit_violations=bool(violations),
            violation_fields=0 if isinstance(violations, bool) else output_bits(violations),
        )  # fmt: skip
        return self._call(
            Evaluate, "evaluate", request, partial(evaluation_of, actions=message, dof=dof, kind=kind_of(actions))
        )

    def retime(
        self,
        position: Array,
        *,
        dt: Array = (),
        dt_per: str = "step",
        velocity: Array = (),
        acceleration: Array = (),
        joint_names: Sequence[str] = (),
        **fields: Any,
    ) -> Retimed:
        """Find times for paths, or slow plans where they exceed limits.

        Args:
            position: `[batch, rows, dof]`, rad.
            dt: time steps of a plan, s, in the form of `sequence`; empty for a path without times.
            dt_per: as in `sequence`.
            velocity: of a plan, `[batch, rows, dof]`, rad/s.
            acceleration: of a plan, `[batch, rows, dof]`, rad/s².
            joint_names: the order of the columns.
            fields: the other fields of Retime.srv: limits `[dof]`, and numbers.

        """
        fields |= {"dt": dt, "dt_per": dt_per, "velocity": velocity, "acceleration": acceleration}
        request = retime_request(position, tuple(joint_names) or self.joint_names, fields)
        return self._call(Retime, "retime", request, partial(retimed_of, rows=request.rows))

    def committed(self, rows: int, *, stamp_ns: int = 0, dt: float = 0.0, rows_before: int = 0) -> Committed:
        """Return the motion in execution at the times of a chunk, and what was commanded and measured before.

        Args:
            rows: number of rows from the stamp on.
            stamp_ns: time of row 0, ns; 0: now.
            dt: time between rows, s; 0: the node's parameter.
            rows_before: number of rows before the stamp.

        """
        request = CommittedService.Request(
            rows=whole("rows", rows), dt=number("dt", dt), rows_before=whole("rows_before", rows_before)
        )
        request.stamp.sec, request.stamp.nanosec = seconds_of(stamp_ns)
        return self._call(CommittedService, "committed", request, partial(committed_of, joint_names=self.joint_names))

    def stop(self, *, hold: bool = False) -> Stopped:
        """Brake the robot at once; with `hold`, sequences are refused until `release`."""
        request = Stop.Request(hold=bool(hold))
        return self._call(Stop, "stop", request, partial(stopped_of, joint_names=self.joint_names))

    def release(self) -> Stopped:
        """End a hold. A moving robot is braked."""
        return self.stop(hold=False)

    def parameters(self, *names: str) -> dict[str, object]:
        """Return parameters of the node by name."""

        def take(answer: GetParameters.Response) -> dict[str, object]:
            if len(answer.values) != len(names):  # If the node lacks one of the parameters, it returns none.
                raise Refused(f"parameters: expected those that the node has, got {', '.join(names)}")
            found = zip(names, map(parameter_value_to_python, answer.values), strict=True)
            return {name: list(value) if isinstance(value, array) else value for name, value in found}

        return self._submit(GetParameters, "get_parameters", GetParameters.Request(names=list(names)), take)

    def set_parameters(self, values: Mapping[str, object]) -> None:
        """Set parameters of the node; if one is refused, none is set."""

        def take(answer: SetParametersAtomically.Response) -> None:
            if not answer.result.successful:
                raise Refused(f"parameters: {answer.result.reason}")

        request = SetParametersAtomically.Request(parameters=[parameter_message(*pair) for pair in values.items()])
        return self._submit(SetParametersAtomically, "set_parameters_atomically", request, take)

    def message(self, actions: Actions, **fields: Any) -> ActionSequence:
        """Return the message of some actions, with the client's order of joints; see `sequence`."""
        if isinstance(actions, ActionSequence):
            if fields:
                raise TypeError(f"{min(fields)}: expected in the message, got it beside one")
            return actions
        return sequence(actions, **{"joint_names": self.joint_names, **fields})

    def _call(self, service: type, name: str, request: object, take: Callable[[Any], object]) -> Any:
        def taken(answer: Any) -> object:
            if not answer.success:
                raise Refused(f"~/{name}: {answer.message}")
            return take(answer)

        return self._submit(service, name, request, taken)

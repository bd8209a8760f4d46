"""Answers to requests that are repeated with other numbers: all else about them was checked before. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..engine.integrator import StartState, TrajectoryIntegrator
from ..engine.prepared import PreparedCall
from .evaluation import EvaluationFields, check_cost, check_fields, check_rows_wanted
from .finite import all_finite
from .limits import JointLimits
from .requests import (
    ActionRequest,
    RepeatedFields,
    RequestRules,
    SequenceFields,
    UpstreamFields,
    check_sequence,
    check_upstream,
)
from .results import BatchGradient, EvaluatedBatch


class RepeatedAnswer(NamedTuple):
    """An answer that is computed anew, into the same memory, from the numbers that a request then has."""

    call: PreparedCall
    answer: EvaluatedBatch | BatchGradient
    start: StartState | None = None
    """Memory for the robot's own state; None if the request has a start state or needs none."""

    def renew(self, own_start: Callable[[], StartState]) -> bool:
        """Compute it; False if there is no such answer, and `Pipeline` has to say why. Raises what `own_start` does."""
        if self.start is not None and not _written(own_start(), self.start):
            return False
        return self.call.run() and all_finite(self.call.values)


class RepeatedCalls:
    """Prepares calls on the arrays of a request, which get new numbers before each of them.

    Only numbers in `wire.borrowed_services.VARYING` may differ, and only if they are finite: no other rule depends on
    them. None is prepared where more than that is to be done: joints in another order, gradients of start, goal or dt,
    rows of the trajectory.

    Args:
        rules: those of the pipeline.
        limits: of the joints.
        engine: what computes.

    """

    def __init__(self, rules: RequestRules, limits: JointLimits, engine: TrajectoryIntegrator) -> None:
        self._rules, self._limits, self._engine = rules, limits, engine

    def request(self, fields: SequenceFields) -> ActionRequest:
        """Return the checked request of a sequence; raises as `check_sequence` does.

        That of RepeatedFields is checked once.
        """
        if not isinstance(fields, RepeatedFields):
            return check_sequence(fields, self._rules)
        if fields.by is not self:
            fields.by, fields.checked, fields.prepared = self, None, None
        if fields.checked is not None:
            return fields.checked
        request = check_sequence(fields, self._rules)
        if request.columns.to_node is None:  # otherwise the request has copies of the arrays
            fields.checked = request
        return request

    def integrated(self, fields: SequenceFields, request: ActionRequest, start: StartState) -> np.ndarray | None:
        """Integrate the request of a sequence, as `TrajectoryIntegrator.integrate_array` does.

        None if nothing is prepared for it: it is not RepeatedFields, or its control map is not one of those.
        """
        if not isinstance(fields, RepeatedFields) or fields.checked is not request or request.goal is not None:
            return None
        if fields.prepared is None:
            held = _copied(start) if request.start is None else start
            space = request.control_map.control_space
            call = self._engine.prepared_integration(
                held, request.actions, request.dt, control_space=space, start_index=request.start_index
            )
            if call is None:
                return None
            fields.prepared = held, call
        held, call = fields.prepared
        if request.start is None and not _written(start, held):
            return None
        return call.results if call.run() else None

    def evaluation(
        self, fields: SequenceFields, asked: EvaluationFields, own_start: Callable[[], StartState]
    ) -> RepeatedAnswer | None:
        """Prepare what `Pipeline.evaluate` does; raises as it does."""
        request = check_sequence(fields, self._rules)
        cost = check_cost(asked.cost, request, self._limits)
        check_fields(asked.fields, "trajectory_fields")
        if check_rows_wanted(asked.rows, request).size or request.columns.to_node is not None:
            return None
        held = _copied(own_start()) if request.start is None else None
        call = self._engine.prepared_evaluation(
            request.start or held,
            request.actions,
            cost,
            request.dt,
            **request.map_and_rows,
            wanted=asked.wanted,
        )
        if call is None:
            return None
        costs, gradient, *_ = call.results
        gradients = BatchGradient() if gradient is None else BatchGradient(gradient)
        return RepeatedAnswer(call, EvaluatedBatch(costs, gradients, None), held)

    def gradient(self, fields: SequenceFields, upstream: UpstreamFields) -> RepeatedAnswer | None:
        """Prepare what `Pipeline.gradient` does; raises as it does."""
        request = check_sequence(fields, self._rules, data_optional=True)
        gradients = check_upstream(upstream, request)
        wants_dt = request.actions is not None and request.dt is not None
        if wants_dt or request.goal is not None or request.columns.to_node is not None:
            return None
        call = self._engine.prepared_vjp(
            gradients,
            batch=request.batch,
            action_horizon=request.horizon,
            dt=request.dt,
            control_space=request.control_map.control_space,
            start_index=request.start_index,
            start_rows=1 if request.start is None else request.start.position.shape[0],
        )
        if call is None:
            return None
        found = call.results
        starts = found.start_position, found.start_velocity, found.start_acceleration
        return RepeatedAnswer(call, BatchGradient(found.action, *starts))


def _copied(start: StartState) -> StartState:
    return StartState(*(None if rows is None else rows.copy() for rows in start.rows))


def _written(start: StartState, into: StartState) -> bool:
    """Copy a start state into another's memory; False if they do not have the same parts."""
    for rows, held in zip(start.rows, into.rows, strict=True):
        if (rows is None) is not (held is None):
            return False
        if rows is not None:
            held[:] = rows
    return True

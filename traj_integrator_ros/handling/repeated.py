"""Answers to requests that are repeated with other numbers: all else about them was checked before. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..engine.evaluation_work import USUALLY_WANTED
from ..engine.integrator import StartState, TrajectoryIntegrator
from ..engine.prepared import PreparedCall
from .evaluation import EvaluationFields, check_cost
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

    def renew(self) -> bool:
        """Compute it; False if there is no such answer, and `Pipeline` has to say why."""
        return self.call.run() and all_finite(self.call.values)


class RepeatedCalls:
    """Prepares calls on the arrays of a request, which get new numbers before each of them.

    Only numbers in `wire.borrowed_services.VARYING` may differ, and only if they are finite: no other rule depends on
    them. None is prepared where more than that is to be done: joints in another order, the robot's own state, other
    gradients, rows of the trajectory.

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
        own = request.start is not None
        if fields.prepared is None:
            start = start if own else StartState(*(None if rows is None else rows.copy() for rows in start.rows))
            space = request.control_map.control_space
            call = self._engine.prepared_integration(
                start, request.actions, request.dt, control_space=space, start_index=request.start_index
            )
            if call is None:
                return None
            fields.prepared = start, call
        held, call = fields.prepared
        if not own:
            for into, rows in zip(held.rows, start.rows, strict=True):
                if (into is None) is not (rows is None):
                    return None
                if into is not None:
                    into[:] = rows
        return call.results if call.run() else None

    def evaluation(self, fields: SequenceFields, asked: EvaluationFields) -> RepeatedAnswer | None:
        """Prepare what `Pipeline.evaluate` does; raises as it does."""
        request = check_sequence(fields, self._rules)
        cost = check_cost(asked.cost, request, self._limits)
        usual = asked.wanted == USUALLY_WANTED and not asked.rows.size
        if not usual or request.start is None or request.columns.to_node is not None:
            return None
        call = self._engine.prepared_evaluation(
            request.start, request.actions, cost, request.dt, **request.map_and_rows
        )
        if call is None:
            return None
        costs, gradient, *_ = call.results
        return RepeatedAnswer(call, EvaluatedBatch(costs, BatchGradient(gradient), None))

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

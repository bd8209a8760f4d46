"""Answers to requests that are repeated with other numbers: all else about them was checked before. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

from ..engine.evaluation_work import USUALLY_WANTED
from ..engine.integrator import TrajectoryIntegrator
from ..engine.prepared import PreparedCall
from .evaluation import EvaluationFields, check_cost, check_fields, check_rows_wanted
from .finite import all_finite
from .limits import JointLimits
from .requests import RequestRules, SequenceFields, UpstreamFields, check_sequence, check_upstream
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

    def evaluation(self, fields: SequenceFields, asked: EvaluationFields) -> RepeatedAnswer | None:
        """Prepare what `Pipeline.evaluate` does; raises as it does."""
        request = check_sequence(fields, self._rules)
        cost = check_cost(asked.cost, request, self._limits)
        check_rows_wanted(asked.rows, request)
        check_fields(asked.fields, "trajectory_fields")
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

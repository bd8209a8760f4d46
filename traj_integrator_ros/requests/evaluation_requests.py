"""Requests for gradients and costs of action sequences, checked and in the node's joint order. Knows no ROS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..engine.call import Wanted
from ..kernels import CostTerm, QuadraticCost
from ..limits.joint_limits import JointLimits
from .rejection import RejectionReason, require_finite
from .sequences import LARGEST_RESULT_BYTES, OUTPUTS, ActionRequest, IntegratedBatch, check_fields

_ROWS = ("weight", "target")
_END = "terminal_weight"
_LIMITS = ("lower", "upper")
_NO_TERM = CostTerm()


class EvaluationFields(NamedTuple):
    """The fields of an Evaluate request other than the sequence."""

    cost: QuadraticCost
    """The cost; its arrays are flat views of the message."""
    wanted: Wanted
    rows: np.ndarray
    fields: int
    want_violations: bool = False
    violation_fields: int = 0


class EvaluatedBatch(NamedTuple):
    """Costs of sequences, and the requested trajectories."""

    fields: dict[str, np.ndarray]
    """Costs, gradients of their sum and violations with the request's columns, float32, by the names of the response.
    """
    trajectories: IntegratedBatch | None


def check_upstream(gradients: Sequence[np.ndarray], request: ActionRequest) -> tuple[np.ndarray | None, ...]:
    """Check upstream gradients of position to jerk, flat, and arrange them in the node's joint order.

    Raises:
        Rejected: gradient_length or not_finite, naming the field.

    """
    sizes = {"batch": request.batch, "output horizon": request.output_horizon, "dof": len(request.columns.names)}
    return tuple(
        request.columns.array(f"grad_{name}", values, sizes, RejectionReason.GRADIENT_LENGTH)
        for name, values in zip(OUTPUTS, gradients, strict=True)
    )


def check_rows_wanted(rows: np.ndarray, request: ActionRequest, limits: QuadraticCost | None = None) -> np.ndarray:
    """Return the indices of the trajectories to return, int64.

    Args:
        rows: the field of the message.
        request: the checked sequences.
        limits: terms whose violations the answer contains, too; None: no violations.

    Raises:
        Rejected: row_out_of_range, or size_out_of_range.

    """
    batch, dof = request.batch, len(request.columns.names)
    if rows.size > batch:
        raise RejectionReason.SIZE_OUT_OF_RANGE.of("trajectory_rows", f"at most {batch} (batch) values", rows.size)
    if rows.size and rows.max() >= batch:
        at = int(rows.argmax())
        raise RejectionReason.ROW_OUT_OF_RANGE.of(
            "trajectory_rows", f"0 to {batch - 1} (batch {batch})", f"{rows[at]} at [{at}]"
        )
    violations = 0 if limits is None else sum(term.lower is not None for term in limits.outputs)
    # The size of gradients, of four outputs and times, and of violations, all float32.
    points = batch * request.horizon + (4 * rows.size + violations * batch) * request.output_horizon
    size = 4 * (points * (dof + 1) + 6 * batch * dof)
    if (rows.size or violations) and size > LARGEST_RESULT_BYTES:
        raise RejectionReason.SIZE_OUT_OF_RANGE.of(
            "trajectory_rows" if rows.size else "violation_fields",
            f"an answer of at most {LARGEST_RESULT_BYTES} bytes, the most that a message carries",
            f"{size} with {rows.size} trajectories and the violations of {violations} outputs",
        )
    return rows.astype(np.int64)


def check_cost(
    asked: EvaluationFields, request: ActionRequest, limits: JointLimits
) -> tuple[QuadraticCost, QuadraticCost | None]:
    """Check the cost of a request, and the violations that it asks for; arrange both in the node's joint order.

    Args:
        asked: the cost, and whether violations of limits are wanted.
        request: the checked sequences.
        limits: the node's, for terms that require limits and give none.

    Returns:
        The cost; and a cost with the limits alone whose violations are wanted, None if none are.

    Raises:
        Rejected: size_mismatch, not_finite, invalid_cost or invalid_fields, naming the field.

    """
    outputs = check_fields(asked.violation_fields, "violation_fields")
    violated = [bool(asked.want_violations and outputs >> bit & 1) for bit in range(len(OUTPUTS))]
    terms = [
        _check_term(name, term, request, limits, wants_violations=wanted)
        for name, term, wanted in zip(OUTPUTS, asked.cost.outputs, violated, strict=True)
    ]
    for name, term, wanted in zip(OUTPUTS, terms, violated, strict=True):
        if wanted and asked.violation_fields and term.lower is None:
            raise RejectionReason.INVALID_COST.of(
                f"cost.{name}.lower", "limits, because violations of them are wanted", "none"
            )
    cost = QuadraticCost(
        *(term if term.limit_weight is not None else term._replace(lower=None, upper=None) for term in terms),
        duration_weight=_check_duration_weight(asked.cost.duration_weight, request.batch),
    )
    if not asked.want_violations:
        return cost, None
    wanted_limits = QuadraticCost(
        *(
            CostTerm(lower=term.lower, upper=term.upper) if wanted else _NO_TERM
            for term, wanted in zip(terms, violated, strict=True)
        )
    )
    if all(term.lower is None for term in wanted_limits.outputs):
        raise RejectionReason.INVALID_COST.of(
            "want_limit_violations", "limits in the cost, because the node has none of its own", "none"
        )
    return cost, wanted_limits


def rows_of_request(request: ActionRequest, rows: np.ndarray) -> ActionRequest:
    """Return the request reduced to some of its trajectories."""
    return request._replace(
        batch=rows.size,
        actions=request.actions[rows],
        dt=request.dt[rows] if np.ndim(request.dt) == 2 else request.dt,
        start=request.start.part(rows, rows.size, request.batch),
        goal=request.goal.part(rows, rows.size, request.batch),
    )


def _check_duration_weight(values: np.ndarray, batch: int) -> float | np.ndarray | None:
    if not values.size:
        return None
    if values.size not in (1, batch):
        raise RejectionReason.SIZE_MISMATCH.of("cost.duration_weight", f"0, 1 or {batch} (batch) values", values.size)
    require_finite("cost.duration_weight", values)
    return float(values[0]) if values.size == 1 else values


def _check_term(
    name: str, term: CostTerm, request: ActionRequest, limits: JointLimits, *, wants_violations: bool
) -> CostTerm:
    given = {}
    for field, values in zip(term._fields, term, strict=True):
        if values.size:
            given[field] = _check_array(name, field, values, request)
    if not given and not wants_violations:
        return _NO_TERM
    checked = CostTerm(**given)
    if checked.target is not None and checked.weight is None and checked.terminal_weight is None:
        raise RejectionReason.INVALID_COST.of(f"cost.{name}.target", "a weight or a terminal_weight with it", "neither")
    if checked.limit_weight is None and not wants_violations:
        if checked.lower is not None or checked.upper is not None:
            raise RejectionReason.INVALID_COST.of(f"cost.{name}.limit_weight", "a limit_weight with the limits", "none")
        return checked
    lower, upper = (
        own if bound is None else bound
        for bound, own in zip((checked.lower, checked.upper), limits.range_of(name), strict=True)
    )
    if lower is None and upper is None:
        if checked.limit_weight is None:
            return checked
        raise RejectionReason.INVALID_COST.of(
            f"cost.{name}.lower", "limits with limit_weight, because the node has none of its own", "none"
        )
    dof = len(request.columns.names)
    lower = np.full(dof, -np.inf, np.float32) if lower is None else lower
    upper = np.full(dof, np.inf, np.float32) if upper is None else upper
    if (lower > upper).any():
        joint = int((lower > upper).argmax())
        raise RejectionReason.INVALID_COST.of(
            f"cost.{name}.lower", f"at most upper, {upper[joint]:g}", f"{lower[joint]:g}"
        )
    return checked._replace(lower=np.ascontiguousarray(lower), upper=np.ascontiguousarray(upper))


def _check_array(output: str, field: str, values: np.ndarray, request: ActionRequest) -> np.ndarray:
    name, shapes = f"cost.{output}.{field}", _shapes(field, request)
    shape = next((shape for shape, _ in shapes if math.prod(shape) == values.size), None)
    if shape is None:
        expected = ", ".join(f"{math.prod(shape)} ({words})" for shape, words in shapes)
        raise RejectionReason.SIZE_MISMATCH.of(name, f"0, {expected} values", values.size)
    if field not in _LIMITS:
        require_finite(name, values)
    elif np.isnan(values).any():
        at = int(np.isnan(values).argmax())
        raise RejectionReason.NOT_FINITE.of(name, "numbers", f"nan at [{at}]")
    return request.columns.into_node(values.reshape(shape))


def _shapes(field: str, request: ActionRequest) -> list[tuple[tuple[int, ...], str]]:
    """Return the shapes that an array in a field of a term may have, each with its description."""
    batch, horizon, dof = request.batch, request.output_horizon, len(request.columns.names)
    shapes = [((dof,), "dof")]
    if field in _ROWS:
        points = f"output horizon {horizon} x dof"
        shapes += [((horizon, dof), points), ((batch, horizon, dof), f"batch {batch} x {points}")]
    if field == _END:
        shapes.append(((batch, dof), f"batch {batch} x dof"))
    return shapes

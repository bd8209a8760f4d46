"""B-splines between two states, and their vjp: launchers.

Extended control points c are those that represent the start, the given ones, and those that represent the goal or
repeat the last one. With the weights of `splines/weights.py`, row k of segment i is

    out_q = sum_m W_q[k, m] (Delta^q c)[i + m] / h^q,      m = 0 .. K - q,   q = 0 (position) .. 3 (jerk)

The gradient of extended point e is, with the q-th derivatives D_q of the weights,

    sum_q sum_m sum_k D_q[k, m] g_q[(e - m) s + k] / h^q

The last given point, if repeated, gets the sum of those that repeat it, and so do start and goal (`ends`).
"""

import functools
from collections.abc import Sequence

import numpy as np
import triton
import triton.language as tl
from torch import Tensor

from ..splines.form import SplineForm
from ..splines.weights import STATE_WEIGHTS, row_weights
from ..types import Inputs, VjpInputs
from . import launch
from .device import jit_kernel, load, load_state, places, put, state_row, trajectories
from .ends import Ends, on_device
from .pairs import product, second_difference, third_difference, two_product, two_sum


def bspline_forward(inputs: Inputs, *, form: SplineForm, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Return the outputs, as `backends` describes it."""
    action = inputs.action
    points, dof = action.shape[1:]
    has_goal = inputs.ends[1].rows[0] is not None
    used = form.used(points, has_goal)
    weights = np.concatenate(row_weights(form.degree, form.steps), axis=1)
    options = {
        "p_weights": on_device(weights.tobytes(), action.dtype, action.device),
        "n_used": used,
        "n_segments": form.segments(points),
        # Rows of segments with a point of the start; rows from the first segment on whose last point is not given.
        "edges": (form.head * form.steps * dof, (form.head + used - form.degree) * form.steps * dof),
        "HAS_GOAL": int(has_goal),
        # Whether a chunk may see both ends.
        "SHORT": (used - form.degree) * form.steps * dof < 2 * launch.CHUNK,
    }
    if not form.has_jerk:
        options |= {"p_start_j": None, "p_goal_j": None}
    return launch.forward(bspline_fwd_kernel, inputs, form.rows(points), out, **options, **_form(form))


def bspline_vjp(
    inputs: VjpInputs, *, form: SplineForm, out: Sequence[Tensor | None] | None = None
) -> tuple[Tensor | None, ...]:
    """Return the gradients, as `backends` describes it."""
    points, has_goal = inputs.action_horizon, inputs.rows[1] >= 0
    like, used = inputs.like, form.used(points, has_goal)
    start, goal, taps, last = _tables(form, has_goal)
    first = (form.head + used - form.degree) * form.steps
    ends = Ends(start, (first, goal) if has_goal else None, form.steps)
    options = {
        "p_weights": on_device(taps.tobytes(), like.dtype, like.device),
        "p_last_weights": on_device(last.tobytes(), like.dtype, like.device),
        "n_used": used,
        "edges": (0, (points - 1) * like.shape[2]),
    }
    rows = form.rows(points)
    return launch.vjp(bspline_vjp_kernel, inputs, rows, points, out, ends=ends, **options, **_form(form))


def _form(form: SplineForm) -> dict[str, int]:
    return {"K": form.degree, "HEAD": form.head, "STEPS": form.steps}


@functools.lru_cache(maxsize=64)
def _tables(form: SplineForm, has_goal: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weights of start and goal, `[rows, orders, kinds]`, of a control point and of the last one, `[rows, orders]`.

    Rows count from the first one that an end or a point affects. Those of a point are K + 1 segments and the row after
    them, which counts for the last point alone: it ends the last segment.
    """
    degree, steps, head = form.degree, form.steps, form.head
    each = np.eye(degree + 1)
    # By order of the derivative in a row, for each point of the row's segment: [rows + 1, orders, points].
    weights = np.stack([w @ np.diff(each, q, axis=0) for q, w in enumerate(row_weights(degree, steps))], axis=1)
    states = np.array(STATE_WEIGHTS[degree, head, form.has_jerk])
    start, goal = np.zeros((2, head * steps + 1, 4, 4))
    for segment, place in np.ndindex(head, degree + 1):
        if segment + place < head:
            start[segment * steps :][:steps] += weights[:steps, :, place, None] * states[segment + place]
    taps, repeated = np.zeros((2, (degree + 1) * steps + 1, 4))
    for segment, place in np.ndindex(degree + 1, degree + 1):
        rows = slice(segment * steps, (segment + 1) * steps + (segment == degree))
        values = weights[: rows.stop - rows.start, :, place]
        if segment + place == degree:
            taps[rows] += values
        if segment + place >= degree:
            repeated[rows] += values
    for segment, place in np.ndindex(head, degree + 1):
        point = segment + place - degree
        if 0 <= point < head:
            rows = slice(segment * steps, (segment + 1) * steps + (segment == head - 1))
            goal[rows] += weights[: rows.stop - rows.start, :, place, None] * states[point]
    return start, goal, taps, taps if has_goal else repeated


@jit_kernel
def bspline_fwd_kernel(
    p_action, p_start_index, p_start_p, p_start_v, p_start_a, p_start_j, n_start, p_goal_index, p_goal_p, p_goal_v,
    p_goal_a, p_goal_j, n_goal, p_dt, p_weights, p_position, p_velocity, p_acceleration, p_jerk, n_batch, Ha, n_used,
    n_segments, n_head, n_inner, n_edge, D: tl.constexpr, SHARED_DT: tl.constexpr, K: tl.constexpr,
    HEAD: tl.constexpr, STEPS: tl.constexpr, HAS_GOAL: tl.constexpr, SHORT: tl.constexpr, WIDE: tl.constexpr,
    TRAJECTORIES: tl.constexpr, LANES: tl.constexpr,
):
    """One element of the four outputs for each lane: first in chunks whose segments have points that are not given."""
    b_trajectory, b_there, b_length, b_lo, b_rate = trajectories(p_dt, n_batch, STEPS, SHARED_DT, WIDE, TRAJECTORIES)
    for i in range(tl.program_id(1), n_head, tl.num_programs(1)):
        _chunk(
            p_action, p_start_index, p_start_p, p_start_v, p_start_a, p_start_j, n_start, p_goal_index, p_goal_p,
            p_goal_v, p_goal_a, p_goal_j, n_goal, p_weights, p_position, p_velocity, p_acceleration, p_jerk,
            b_trajectory, b_there, b_length, b_lo, b_rate, i, Ha, n_used, n_segments, D, K, HEAD, STEPS,
            HAS_GOAL, WIDE, LANES, True, SHORT,
        )
    for i in range(tl.program_id(1), n_inner, tl.num_programs(1)):
        _chunk(
            p_action, p_start_index, p_start_p, p_start_v, p_start_a, p_start_j, n_start, p_goal_index, p_goal_p,
            p_goal_v, p_goal_a, p_goal_j, n_goal, p_weights, p_position, p_velocity, p_acceleration, p_jerk,
            b_trajectory, b_there, b_length, b_lo, b_rate, n_head + i, Ha, n_used, n_segments, D, K, HEAD, STEPS,
            HAS_GOAL, WIDE, LANES, False, False,
        )
    for i in range(tl.program_id(1), n_edge - n_head, tl.num_programs(1)):
        _chunk(
            p_action, p_start_index, p_start_p, p_start_v, p_start_a, p_start_j, n_start, p_goal_index, p_goal_p,
            p_goal_v, p_goal_a, p_goal_j, n_goal, p_weights, p_position, p_velocity, p_acceleration, p_jerk,
            b_trajectory, b_there, b_length, b_lo, b_rate, n_head + n_inner + i, Ha, n_used, n_segments, D, K, HEAD,
            STEPS, HAS_GOAL, WIDE, LANES, SHORT, True,
        )


@triton.jit
def _chunk(
    p_action, p_start_index, p_start_p, p_start_v, p_start_a, p_start_j, n_start, p_goal_index, p_goal_p, p_goal_v,
    p_goal_a, p_goal_j, n_goal, p_weights, p_position, p_velocity, p_acceleration, p_jerk, b_trajectory, b_there,
    b_length, b_length_lo, b_rate, i_chunk, Ha, n_used, n_segments, D: tl.constexpr, K: tl.constexpr,
    HEAD: tl.constexpr, STEPS: tl.constexpr, HAS_GOAL: tl.constexpr, WIDE: tl.constexpr, LANES: tl.constexpr,
    SEES_START: tl.constexpr, SEES_END: tl.constexpr,
):
    """Rows whose segments have given points, and such of the start or beyond the given ones where flags say so."""
    b_place, b_row, b_column, b_in = places(b_there, (n_segments * STEPS + 1) * D, i_chunk, D, LANES)
    b_segment = b_row // STEPS
    if SEES_END:
        b_segment = tl.minimum(b_segment, n_segments - 1)
    p_weight = p_weights + (b_row - b_segment * STEPS) * (4 * K - 2)
    b_first = b_segment - HEAD
    b_weighs = b_place < (n_segments * STEPS + 1) * D  # in all trajectories, which share the weights of a row
    b_points = b_trajectory * (Ha * D) + b_column
    b_x1 = load(None, b_points, b_in, WIDE)
    if SEES_START:
        b_from = state_row(p_start_index, n_start, b_trajectory, b_there)
        b_p, b_v, b_v_lo, b_a, b_j = _state(
            p_start_p, p_start_v, p_start_a, p_start_j, n_start, b_from, b_column, b_in & (b_first < 0), b_length,
            b_length_lo, D, WIDE,
        )
    if SEES_END and HAS_GOAL:
        b_from = state_row(p_goal_index, n_goal, b_trajectory, b_there)
        b_end_p, b_end_v, b_end_v_lo, b_end_a, b_end_j = _state(
            p_goal_p, p_goal_v, p_goal_a, p_goal_j, n_goal, b_from, b_column, b_in & (b_first + K >= n_used), b_length,
            b_length_lo, D, WIDE,
        )
    b_x2 = b_x1
    b_x3 = b_x1
    b_lo1 = b_x1
    b_lo2 = b_x1
    b_lo3 = b_x1
    b_sum0 = b_x1
    b_sum1 = b_x1
    b_sum2 = b_x1
    b_sum3 = b_x1
    # The points of the segment, one after the other; each completes one difference of every order.
    for m in tl.static_range(K + 1):
        b_given = b_first + m
        b_from = b_given
        if SEES_START:
            b_from = tl.maximum(b_from, 0)
        if SEES_END:
            b_from = tl.minimum(b_from, Ha - 1)
        b_x0 = load(p_action, b_points + b_from * D, b_in, WIDE)
        b_lo0 = tl.zeros_like(b_x0)
        if SEES_START:
            b_point, b_lo = _carrying(b_segment + m, b_p, b_v, b_v_lo, b_a, b_j, K)
            b_x0 = tl.where(b_given < 0, b_point, b_x0)
            b_lo0 = tl.where(b_given < 0, b_lo, 0.0)
        if SEES_END and HAS_GOAL:
            b_point, b_lo = _carrying(b_given - n_used, b_end_p, b_end_v, b_end_v_lo, b_end_a, b_end_j, K)
            b_x0 = tl.where(b_given >= n_used, b_point, b_x0)
            b_lo0 = tl.where(b_given >= n_used, b_lo, b_lo0)
        b_value = b_x0
        if SEES_START or SEES_END:
            b_value = b_x0 + b_lo0
        b_sum0 = tl.fma(load(p_weight, m, b_weighs, WIDE), b_value, b_sum0)
        if m >= 1:
            b_value = b_x0 - b_x1
            if SEES_START or SEES_END:
                b_value += b_lo0 - b_lo1
            b_sum1 = tl.fma(load(p_weight, K + m, b_weighs, WIDE), b_value, b_sum1)
        if m >= 2:
            b_value, b_lo = second_difference(b_x0, b_x1, b_x2)
            if SEES_START or SEES_END:
                b_lo += (b_lo0 - b_lo1) - (b_lo1 - b_lo2)
            b_sum2 = tl.fma(load(p_weight, 2 * K + m - 1, b_weighs, WIDE), b_value + b_lo, b_sum2)
        if m >= 3:
            b_value, b_lo = third_difference(b_x0, b_x1, b_x2, b_x3)
            if SEES_START or SEES_END:
                b_lo += (b_lo0 - b_lo3) - 3.0 * (b_lo1 - b_lo2)
            b_sum3 = tl.fma(load(p_weight, 3 * K + m - 3, b_weighs, WIDE), b_value + b_lo, b_sum3)
        b_x3 = b_x2
        b_x2 = b_x1
        b_x1 = b_x0
        b_lo3 = b_lo2
        b_lo2 = b_lo1
        b_lo1 = b_lo0
    b_at = b_trajectory * ((n_segments * STEPS + 1) * D) + b_place
    put(p_position, b_at, b_sum0, b_in)
    put(p_velocity, b_at, b_sum1 * b_rate, b_in)
    put(p_acceleration, b_at, b_sum2 * (b_rate * b_rate), b_in)
    put(p_jerk, b_at, b_sum3 * (b_rate * b_rate * b_rate), b_in)


@triton.jit
def _state(p_p, p_v, p_a, p_j, n_rows, b_row, b_column, b_mask, b_h, b_h_lo, D: tl.constexpr, WIDE: tl.constexpr):
    """A state, its derivatives times powers of the length of a segment: what a Taylor polynomial moves in it."""
    b_p = load_state(p_p, n_rows, b_row, b_column, D, b_mask, WIDE)
    b_v = load_state(p_v, n_rows, b_row, b_column, D, b_mask, WIDE)
    b_a = load_state(p_a, n_rows, b_row, b_column, D, b_mask, WIDE) * (b_h * b_h)
    b_j = load_state(p_j, n_rows, b_row, b_column, D, b_mask, WIDE) * (b_h * b_h * b_h)
    b_v, b_v_lo = product(b_v, None, b_h, b_h_lo)
    return b_p, b_v, b_v_lo, b_a, b_j


@triton.jit
def _carrying(b_m, b_p, b_v, b_v_lo, b_a, b_j, K: tl.constexpr):
    """Point m of those that represent a state, and its rounding error: the polar form of its Taylor polynomial."""
    b_x = b_m.to(b_p.dtype) - 0.5 * (K - 1)
    b_moved, b_lo = two_product(b_x, b_v)
    b_point, b_point_lo = two_sum(b_p, b_moved)
    b_square = b_x * b_x
    b_by_a = (b_square - (K + 1) / 12.0) * (0.5 * b_a)
    b_by_j = (b_x * (b_square - (K + 1) / 4.0)) * (b_j * (1.0 / 6.0))
    return b_point, b_point_lo + (b_lo + b_x * b_v_lo) + (b_by_a + b_by_j)


@jit_kernel
def bspline_vjp_kernel(
    p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_dt, p_weights, p_last_weights,
    p_grad_action, n_batch, Ha, n_used, n_inner, n_edge, D: tl.constexpr, SHARED_DT: tl.constexpr, K: tl.constexpr,
    HEAD: tl.constexpr, STEPS: tl.constexpr, WIDE: tl.constexpr, TRAJECTORIES: tl.constexpr, LANES: tl.constexpr,
):
    """The gradient of a given control point for each lane; chunks that have the last one come at the end."""
    b_trajectory, b_there, _b_length, _b_lo, b_rate = trajectories(p_dt, n_batch, STEPS, SHARED_DT, WIDE, TRAJECTORIES)
    for i in range(tl.program_id(1), n_inner, tl.num_programs(1)):
        _gradients(
            p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_weights, p_last_weights,
            p_grad_action, b_trajectory, b_there, b_rate, i, Ha, n_used, D, K, HEAD, STEPS, False, WIDE, LANES,
        )
    for i in range(tl.program_id(1), n_edge, tl.num_programs(1)):
        _gradients(
            p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_weights, p_last_weights,
            p_grad_action, b_trajectory, b_there, b_rate, n_inner + i, Ha, n_used, D, K, HEAD, STEPS, True, WIDE, LANES,
        )


@triton.jit
def _gradients(
    p_p, p_v, p_a, p_j, p_weights, p_last_weights, p_grad_action, b_trajectory, b_there, b_rate, i_chunk, Ha, n_used,
    D: tl.constexpr, K: tl.constexpr, HEAD: tl.constexpr, STEPS: tl.constexpr, HAS_LAST: tl.constexpr,
    WIDE: tl.constexpr, LANES: tl.constexpr,
):
    """A chunk of the points' gradients: sums over the rows of the K + 1 segments that a point affects."""
    b_place, b_point, b_column, b_in = places(b_there, Ha * D, i_chunk, D, LANES)
    b_used = b_in & (b_point < n_used)
    b_is_last = b_point == Ha - 1
    b_at = b_trajectory * (((Ha + HEAD) * STEPS + 1) * D) + ((b_point + (HEAD - K)) * (STEPS * D) + b_column)
    b_0 = load(None, b_at, b_in, WIDE)
    b_1 = b_0
    b_2 = b_0
    b_3 = b_0
    for i in range(K + 1):
        if STEPS <= 8:
            for row in tl.static_range(STEPS):
                b_0, b_1, b_2, b_3 = _with_row(
                    p_p, p_v, p_a, p_j, p_weights, p_last_weights, i * STEPS + row, b_at, b_used, b_is_last,
                    b_0, b_1, b_2, b_3, D, HAS_LAST, WIDE,
                )
        else:
            for row in range(STEPS):
                b_0, b_1, b_2, b_3 = _with_row(
                    p_p, p_v, p_a, p_j, p_weights, p_last_weights, i * STEPS + row, b_at, b_used, b_is_last,
                    b_0, b_1, b_2, b_3, D, HAS_LAST, WIDE,
                )
    if HAS_LAST:
        # The row after these segments is the last one of the trajectory, where only the last point affects it.
        b_0, b_1, b_2, b_3 = _with_row(
            p_p, p_v, p_a, p_j, p_weights, p_last_weights, (K + 1) * STEPS, b_at, b_used & b_is_last, b_is_last,
            b_0, b_1, b_2, b_3, D, HAS_LAST, WIDE,
        )
    b_grad = b_0 + b_rate * (b_1 + b_rate * (b_2 + b_rate * b_3))
    put(p_grad_action, b_trajectory * (Ha * D) + b_place, b_grad, b_in)


@triton.jit
def _with_row(
    p_p, p_v, p_a, p_j, p_weights, p_last, row, b_at, b_mask, b_is_last, b_0, b_1, b_2, b_3,
    D: tl.constexpr, HAS_LAST: tl.constexpr, WIDE: tl.constexpr,
):
    """Sums by order of the derivative, and what a row adds to them."""
    b_from = b_at + row * D
    b_0 = tl.fma(_weight(p_weights, p_last, 4 * row, b_is_last, HAS_LAST), load(p_p, b_from, b_mask, WIDE), b_0)
    b_1 = tl.fma(_weight(p_weights, p_last, 4 * row + 1, b_is_last, HAS_LAST), load(p_v, b_from, b_mask, WIDE), b_1)
    b_2 = tl.fma(_weight(p_weights, p_last, 4 * row + 2, b_is_last, HAS_LAST), load(p_a, b_from, b_mask, WIDE), b_2)
    b_3 = tl.fma(_weight(p_weights, p_last, 4 * row + 3, b_is_last, HAS_LAST), load(p_j, b_from, b_mask, WIDE), b_3)
    return b_0, b_1, b_2, b_3


@triton.jit
def _weight(p_weights, p_last, i, b_is_last, HAS_LAST: tl.constexpr):
    """The weight of a row, which is another one for the last point if that is repeated."""
    b_weight = tl.load(p_weights + i)
    if HAS_LAST:
        b_weight = tl.where(b_is_last, tl.load(p_last + i), b_weight)
    return b_weight

"""Forward kernel of B-splines; the equations are in bspline.py."""

import triton
import triton.language as tl

from .addressing import load_start, narrow, split


@triton.jit(do_not_specialize=["n_start", "n_goal", "n_batch", "n_points", "n_used", "n_segments", "n_steps", "D"])
def bspline_fwd_kernel(
    p_action,
    p_start_p,
    p_start_v,
    p_start_a,
    p_start_j,
    n_start,
    p_start_index,
    p_goal_p,
    p_goal_v,
    p_goal_a,
    p_goal_j,
    n_goal,
    p_goal_index,
    p_dt,
    p_weights,
    p_position,
    p_velocity,
    p_acceleration,
    p_jerk,
    n_batch,
    n_points,
    n_used,
    n_segments,
    n_steps,
    D,
    K: tl.constexpr,
    HEAD: tl.constexpr,
    HAS_JERK: tl.constexpr,
    HAS_GOAL: tl.constexpr,
    DT_PER_TRAJECTORY: tl.constexpr,
    DTYPE: tl.constexpr,
    LANES: tl.constexpr,
):
    """One element of the four outputs for each lane."""
    b_lane = tl.arange(0, LANES)
    n_rows = n_segments * n_steps + 1
    n_elements = n_batch.to(tl.int64) * n_rows * D
    i_first = tl.program_id(0).to(tl.int64) * LANES
    i_batch, b_batch, b_place = split(i_first, b_lane, n_rows * D)
    b_in = i_first + b_lane < n_elements
    b_batch = i_batch + b_batch
    b_row = b_place // D
    b_column = b_place - b_row * D
    b_segment = tl.minimum(b_row // n_steps, n_segments - 1)
    b_step = b_row - b_segment * n_steps
    if DT_PER_TRAJECTORY:
        b_dt = tl.load(p_dt + b_batch, mask=b_in, other=1).to(tl.float64)
    else:
        b_dt = tl.load(p_dt + tl.zeros_like(b_lane)).to(tl.float64)
    b_length = n_steps * b_dt
    p_weight = p_weights + b_step * (4 * K - 2)
    b_at = b_batch * n_rows * D + b_place

    # The points of the segment, one after the other; each completes one difference of every order.
    b_last = tl.zeros([LANES], tl.float64)
    b_d1 = b_last
    b_d2 = b_last
    b_position = tl.zeros([LANES], DTYPE)
    b_velocity = b_position
    b_acceleration = b_position
    b_jerk = b_position
    for m in tl.static_range(K + 1):
        # An extended control point in float64.
        b_given = b_segment + m - HEAD
        if HAS_GOAL:
            b_is_given = b_in & (b_given >= 0) & (b_given < n_used)
            b_from = b_given
        else:  # after the last one: the last one again
            b_is_given = b_in & (b_given >= 0)
            b_from = tl.minimum(b_given, n_points - 1)
        p_from = p_action + (b_batch * n_points + b_from) * D + b_column
        b_now = tl.load(p_from, mask=b_is_given, other=0).to(tl.float64)
        b_is_start = b_in & (b_given < 0)
        if tl.max(b_is_start.to(tl.int32), 0) > 0:
            b_carried = _carrying(
                p_start_p,
                p_start_v,
                p_start_a,
                p_start_j,
                n_start,
                p_start_index,
                b_segment + m,
                b_batch,
                b_column,
                b_length,
                b_is_start,
                D,
                K,
                HAS_JERK,
            )
            b_now = tl.where(b_is_start, b_carried, b_now)
        if HAS_GOAL:
            b_is_goal = b_in & (b_given >= n_used)
            if tl.max(b_is_goal.to(tl.int32), 0) > 0:
                b_carried = _carrying(
                    p_goal_p,
                    p_goal_v,
                    p_goal_a,
                    p_goal_j,
                    n_goal,
                    p_goal_index,
                    b_given - n_used,
                    b_batch,
                    b_column,
                    b_length,
                    b_is_goal,
                    D,
                    K,
                    HAS_JERK,
                )
                b_now = tl.where(b_is_goal, b_carried, b_now)
        b_position += tl.load(p_weight + m).to(DTYPE) * b_now.to(DTYPE)
        b_first = b_now - b_last
        b_second = b_first - b_d1
        b_third = b_second - b_d2
        if m >= 1:
            b_velocity += tl.load(p_weight + K + m).to(DTYPE) * b_first.to(DTYPE)
        if m >= 2:
            b_acceleration += tl.load(p_weight + 2 * K + m - 1).to(DTYPE) * b_second.to(DTYPE)
        if m >= 3:
            b_jerk += tl.load(p_weight + 3 * K + m - 3).to(DTYPE) * b_third.to(DTYPE)
        b_last = b_now
        b_d1 = b_first
        b_d2 = b_second
    b_rate = 1.0 / b_length
    tl.store(p_position + b_at, narrow(b_position, p_position), mask=b_in)
    tl.store(p_velocity + b_at, narrow(b_velocity * b_rate.to(DTYPE), p_velocity), mask=b_in)
    b_rate2 = b_rate * b_rate
    tl.store(p_acceleration + b_at, narrow(b_acceleration * b_rate2.to(DTYPE), p_acceleration), mask=b_in)
    tl.store(p_jerk + b_at, narrow(b_jerk * (b_rate2 * b_rate).to(DTYPE), p_jerk), mask=b_in)


@triton.jit
def _carrying(
    p_p,
    p_v,
    p_a,
    p_j,
    n_rows,
    p_index,
    b_m,
    b_batch,
    b_column,
    b_length,
    b_mask,
    D,
    K: tl.constexpr,
    HAS_JERK: tl.constexpr,
):
    """Point m of those that represent a state: the polar form of its Taylor polynomial."""
    INDEXED: tl.constexpr = p_index is not None
    b_row = b_batch
    if p_index is not None:
        b_row = tl.load(p_index + b_batch, mask=b_mask, other=0).to(tl.int64)
    b_x = b_m.to(tl.float64) - 0.5 * (K - 1)
    b_h = b_length
    b_result = load_start(p_p, n_rows, b_row, b_column, D, b_mask, INDEXED)
    if p_v is not None:
        b_result += b_x * b_h * load_start(p_v, n_rows, b_row, b_column, D, b_mask, INDEXED)
    if p_a is not None:
        b_weight = (b_x * b_x - (K + 1) / 12.0) * 0.5
        b_result += b_weight * b_h * b_h * load_start(p_a, n_rows, b_row, b_column, D, b_mask, INDEXED)
    if HAS_JERK and p_j is not None:
        b_weight = b_x * (b_x * b_x - (K + 1) / 4.0) / 6.0
        b_result += b_weight * b_h * b_h * b_h * load_start(p_j, n_rows, b_row, b_column, D, b_mask, INDEXED)
    return b_result

"""Vjp kernel of B-splines; the equations are in bspline.py.

The gradient of extended point e is, with the q-th derivatives D_q of the weights,

    sum_q sum_m sum_k D_q[k, m] g_q[(e - m) s + k] / h^q

in float64, because for a smooth gradient nearly everything cancels. Programs share nothing, so none waits for another.
"""

import triton
import triton.language as tl

from .addressing import narrow, split


@triton.jit(do_not_specialize=["n_batch", "n_points", "n_used", "n_segments", "n_steps", "D", "n_group"])
def bspline_vjp_kernel(
    p_grad_position,
    p_grad_velocity,
    p_grad_acceleration,
    p_grad_jerk,
    p_dt,
    p_weights,
    p_states,
    p_grad_action,
    p_grad_start_p,
    p_grad_start_v,
    p_grad_start_a,
    p_grad_start_j,
    p_grad_goal_p,
    p_grad_goal_v,
    p_grad_goal_a,
    p_grad_goal_j,
    n_batch,
    n_points,
    n_used,
    n_segments,
    n_steps,
    D,
    n_group,
    K: tl.constexpr,
    HEAD: tl.constexpr,
    HAS_GOAL: tl.constexpr,
    DT_PER_TRAJECTORY: tl.constexpr,
    LANES: tl.constexpr,
):
    """Start, goal and, without a goal, last control point in the first program of each group; points in the others.

    A group consists of the programs of the same trajectories, so that data that several of them read is fetched from
    memory once. `n_group` is 0 if only the points' gradients are wanted.
    """
    i_program = tl.program_id(0).to(tl.int64)
    b_lane = tl.arange(0, LANES)
    i_group = i_program
    i_points = i_program
    if n_group > 0:
        i_group = i_program // n_group
        i_points = i_program - i_group - 1
    if (n_group > 0) & (i_program == i_group * n_group):
        n_elements = n_batch.to(tl.int64) * D
        i_first = i_group * LANES
        i_batch, b_batch, b_column = split(i_first, b_lane, D)
        b_in = i_first + b_lane < n_elements
        b_batch = i_batch + b_batch
        b_at = b_batch * D + b_column
        b_length = _length(p_dt, b_batch, b_in, n_steps, DT_PER_TRAJECTORY)
        for i_end in tl.static_range(2):
            n_count = HEAD
            p_p = p_grad_goal_p
            p_v = p_grad_goal_v
            p_a = p_grad_goal_a
            p_j = p_grad_goal_j
            i_point = HEAD + n_used
            if i_end == 0:
                p_p = p_grad_start_p
                p_v = p_grad_start_v
                p_a = p_grad_start_a
                p_j = p_grad_start_j
                i_point = 0
            elif not HAS_GOAL:
                # The last control point, once for each of its repetitions: like a position.
                n_count = K + 1
                p_p = p_grad_action
                i_point = HEAD + n_points - 1
                b_at = (b_batch * n_points + n_points - 1) * D + b_column
            if ((p_p is not None) or (p_v is not None)) or ((p_a is not None) or (p_j is not None)):
                b_p = tl.zeros([LANES], tl.float64)
                b_v = b_p
                b_a = b_p
                b_j = b_p
                for m in range(n_count):
                    b_gradient = _point_gradient(
                        tl.zeros_like(b_lane) + (i_point + m),
                        p_grad_position,
                        p_grad_velocity,
                        p_grad_acceleration,
                        p_grad_jerk,
                        p_weights,
                        b_batch,
                        b_column,
                        b_in,
                        b_length,
                        n_segments,
                        n_steps,
                        D,
                        K,
                    )
                    b_p += b_gradient
                    if p_v is not None:
                        b_v += tl.load(p_states + m * 4 + 1) * b_gradient
                    if p_a is not None:
                        b_a += tl.load(p_states + m * 4 + 2) * b_gradient
                    if p_j is not None:
                        b_j += tl.load(p_states + m * 4 + 3) * b_gradient
                if p_p is not None:
                    tl.store(p_p + b_at, narrow(b_p, p_p), mask=b_in)
                if p_v is not None:
                    tl.store(p_v + b_at, narrow(b_v * b_length, p_v), mask=b_in)
                if p_a is not None:
                    tl.store(p_a + b_at, narrow(b_a * b_length * b_length, p_a), mask=b_in)
                if p_j is not None:
                    tl.store(p_j + b_at, narrow(b_j * b_length * b_length * b_length, p_j), mask=b_in)
    elif p_grad_action is not None:
        n_elements = n_batch.to(tl.int64) * n_points * D
        i_first = i_points * LANES
        i_batch, b_batch, b_place = split(i_first, b_lane, n_points * D)
        b_in = i_first + b_lane < n_elements
        b_batch = i_batch + b_batch
        b_given = b_place // D
        b_column = b_place - b_given * D
        if HAS_GOAL:
            b_counts = b_in & (b_given < n_used)
        else:  # another program computes the last one
            b_in &= b_given < n_points - 1
            b_counts = b_in
        b_length = _length(p_dt, b_batch, b_in, n_steps, DT_PER_TRAJECTORY)
        b_gradient = _point_gradient(
            HEAD + b_given,
            p_grad_position,
            p_grad_velocity,
            p_grad_acceleration,
            p_grad_jerk,
            p_weights,
            b_batch,
            b_column,
            b_counts,
            b_length,
            n_segments,
            n_steps,
            D,
            K,
        )
        tl.store(p_grad_action + b_batch * n_points * D + b_place, narrow(b_gradient, p_grad_action), mask=b_in)


@triton.jit
def _length(p_dt, b_batch, b_mask, n_steps, DT_PER_TRAJECTORY: tl.constexpr):
    """Length of the segments, s."""
    if DT_PER_TRAJECTORY:
        b_dt = tl.load(p_dt + b_batch, mask=b_mask, other=1).to(tl.float64)
    else:
        b_dt = tl.load(p_dt + tl.zeros_like(b_batch)).to(tl.float64)
    return n_steps * b_dt


@triton.jit
def _point_gradient(
    b_point,
    p_grad_position,
    p_grad_velocity,
    p_grad_acceleration,
    p_grad_jerk,
    p_weights,
    b_batch,
    b_column,
    b_mask,
    b_length,
    n_segments,
    n_steps,
    D,
    K: tl.constexpr,
):
    """Gradient of extended control points, float64."""
    b_sum0 = tl.zeros_like(b_length)
    b_sum1 = b_sum0
    b_sum2 = b_sum0
    b_sum3 = b_sum0
    n_rows = n_segments * n_steps + 1
    b_base = b_batch * n_rows * D + b_column
    for m in tl.static_range(K + 1):
        b_segment = b_point - m
        b_there = b_mask & (b_segment >= 0) & (b_segment < n_segments)
        for k in range(n_steps + 1):
            b_now = b_there & ((k < n_steps) | (b_segment == n_segments - 1))
            b_at = b_base + (b_segment * n_steps + k) * D
            p_weight = p_weights + k * (4 * (K + 1)) + m
            if p_grad_position is not None:
                b_g = tl.load(p_grad_position + b_at, mask=b_now, other=0).to(tl.float64)
                b_sum0 += tl.load(p_weight) * b_g
            if p_grad_velocity is not None:
                b_g = tl.load(p_grad_velocity + b_at, mask=b_now, other=0).to(tl.float64)
                b_sum1 += tl.load(p_weight + (K + 1)) * b_g
            if p_grad_acceleration is not None:
                b_g = tl.load(p_grad_acceleration + b_at, mask=b_now, other=0).to(tl.float64)
                b_sum2 += tl.load(p_weight + 2 * (K + 1)) * b_g
            if p_grad_jerk is not None:
                b_g = tl.load(p_grad_jerk + b_at, mask=b_now, other=0).to(tl.float64)
                b_sum3 += tl.load(p_weight + 3 * (K + 1)) * b_g
    b_rate = 1.0 / b_length
    return b_sum0 + b_rate * (b_sum1 + b_rate * (b_sum2 + b_rate * b_sum3))

"""Forward kernel of central differences; the equations are in clique_central.py."""

import triton
import triton.language as tl

from .addressing import difference, flat_places, load_start, narrow, reciprocal, reciprocal_double, split

_SCALARS = ("n_batch", "Ha", "D", "n_magic", "n_start_programs")
_POINTERS = ("p_action", "p_idx", "p_dt", "p_position", "p_velocity", "p_acceleration", "p_jerk")
_START_POINTERS = ("p_p0", "p_v0", "p_a0", "p_j0")


@triton.jit(
    do_not_specialize=["n_p0", "n_v0", "n_a0", "n_j0", *_SCALARS],
    do_not_specialize_on_alignment=[*_POINTERS, *_START_POINTERS],
)
def clique_central_fwd_kernel(
    p_action,
    p_idx,
    p_p0,
    n_p0,
    p_v0,
    n_v0,
    p_a0,
    n_a0,
    p_j0,
    n_j0,
    p_dt,
    p_position,
    p_velocity,
    p_acceleration,
    p_jerk,
    n_batch,
    Ha,
    D,
    n_magic,
    n_start_programs,
    DT_PER_TRAJECTORY: tl.constexpr,
    SHORT: tl.constexpr,
    START_LANES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Rows 0 to 3 in the first `n_start_programs` programs, the rows that depend only on actions in the others."""
    DOUBLE: tl.constexpr = p_action.dtype.element_ty == tl.float64
    i_program = tl.program_id(0)
    if i_program < n_start_programs:
        # In float64, over points measured from p0: small numbers keep more digits.
        INDEXED: tl.constexpr = p_idx is not None
        b_lane = tl.arange(0, START_LANES)
        n_elements = n_batch.to(tl.int64) * 4 * D
        i_first = i_program.to(tl.int64) * START_LANES
        i_row, b_row, b_place = split(i_first, b_lane, 4 * D)
        b_in = i_first + b_lane < n_elements
        b_row = i_row + b_row
        b_h = b_place // D
        b_column = b_place - b_h * D
        b_start_row = b_row
        if p_idx is not None:
            b_start_row = tl.load(p_idx + b_row, mask=b_in, other=0).to(tl.int64)
        if DT_PER_TRAJECTORY:
            b_dt = tl.load(p_dt + b_row, mask=b_in, other=1).to(tl.float64)
        else:
            b_dt = tl.load(p_dt + tl.zeros_like(b_h), mask=b_in, other=1).to(tl.float64)
        b_p0 = load_start(p_p0, n_p0, b_start_row, b_column, D, b_in, INDEXED)
        # The arc before the start in steps of dt: k (b_v0 + k (b_a0 + k b_j0)).
        b_v0 = load_start(p_v0, n_v0, b_start_row, b_column, D, b_in, INDEXED) * b_dt
        b_a0 = load_start(p_a0, n_a0, b_start_row, b_column, D, b_in, INDEXED) * (b_dt * b_dt) * 0.5
        b_j0 = load_start(p_j0, n_j0, b_start_row, b_column, D, b_in, INDEXED) * (b_dt * b_dt * b_dt * (1.0 / 6.0))
        p_point = p_action + b_row * (Ha.to(tl.int64) * D) + b_column
        b_e0 = _point(p_point, b_h - 3, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
        b_e1 = _point(p_point, b_h - 2, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
        b_e2 = _point(p_point, b_h - 1, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
        b_e3 = _point(p_point, b_h, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
        b_e4 = _point(p_point, b_h + 1, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
        b_v, b_a, b_j = _differences(b_e0, b_e1, b_e2, b_e3, b_e4, reciprocal_double(b_dt, DOUBLE))
        # The position is the action without arithmetic.
        b_is_action = b_h > 1
        b_row_of_action = tl.minimum(b_h - 2, Ha - 1)
        b_action = tl.load(p_point + b_row_of_action * D, mask=b_in & b_is_action, other=0).to(tl.float64)
        b_at = b_row * ((Ha + 4).to(tl.int64) * D) + b_place
        b_p = tl.where(b_is_action, b_action, b_p0 + b_e2)
        tl.store(p_position + b_at, narrow(b_p, p_position), mask=b_in)
        tl.store(p_velocity + b_at, narrow(b_v, p_velocity), mask=b_in)
        tl.store(p_acceleration + b_at, narrow(b_a, p_acceleration), mask=b_in)
        tl.store(p_jerk + b_at, narrow(b_j, p_jerk), mask=b_in)
        return
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    size = (Ha + 4) * D
    i_first, i_row, b_row, b_place, b_in = flat_places(
        i_program - n_start_programs, n_batch, size, n_magic, SHORT, LANES
    )
    b_in &= b_place >= 4 * D
    b_lane = tl.arange(0, LANES)
    # Trajectories of actions are 4 rows shorter. Rows beyond the last action repeat it.
    p_point = p_action + (i_first - i_row * (4 * D) - 4 * D)
    b_at = b_lane - b_row * (4 * D)
    b_in1 = b_in & (b_place < size - D)
    b_in2 = b_in & (b_place < size - 2 * D)
    b_in3 = b_in & (b_place < size - 3 * D)
    b_in4 = b_in & (b_place < size - 4 * D)
    b_e0 = tl.load(p_point + b_at, mask=b_in, other=0).to(DTYPE)
    b_e1 = tl.load(p_point + D + b_at, mask=b_in1, other=0).to(DTYPE)
    b_e2 = tl.load(p_point + 2 * D + b_at, mask=b_in2, other=0).to(DTYPE)
    b_e3 = tl.load(p_point + 3 * D + b_at, mask=b_in3, other=0).to(DTYPE)
    b_e4 = tl.load(p_point + 4 * D + b_at, mask=b_in4, other=0).to(DTYPE)
    if DT_PER_TRAJECTORY:
        b_r = reciprocal(tl.load(p_dt + i_row + b_row, mask=b_in, other=1), DTYPE)
    else:
        b_r = reciprocal(tl.load(p_dt), DTYPE)
    b_e1 = tl.where(b_in1, b_e1, b_e0)
    b_e2 = tl.where(b_in2, b_e2, b_e1)
    b_e3 = tl.where(b_in3, b_e3, b_e2)
    b_e4 = tl.where(b_in4, b_e4, b_e3)
    b_v, b_a, b_j = _differences(b_e0, b_e1, b_e2, b_e3, b_e4, b_r)
    tl.store(p_position + i_first + b_lane, b_e2, mask=b_in)
    tl.store(p_velocity + i_first + b_lane, b_v, mask=b_in)
    tl.store(p_acceleration + i_first + b_lane, b_a, mask=b_in)
    tl.store(p_jerk + i_first + b_lane, b_j, mask=b_in)


@triton.jit
def _point(p_point, b_k, Ha, D, b_p0, b_v0, b_a0, b_j0, b_mask):
    """e[k] - p0 for any k: an action (the last one beyond Ha), or a point of the arc for k <= 0."""
    b_action = tl.load(p_point + (tl.minimum(b_k, Ha) - 1) * D, mask=b_mask & (b_k > 0), other=0).to(tl.float64)
    b_steps = b_k.to(tl.float64)
    return tl.where(b_k > 0, b_action - b_p0, b_steps * (b_v0 + b_steps * (b_a0 + b_steps * b_j0)))


@triton.jit
def _differences(b_e0, b_e1, b_e2, b_e3, b_e4, b_r):
    """First, second and third central difference of five points at distance 1 / b_r."""
    b_d0, b_rest0 = difference(b_e1, b_e0)
    b_d1, b_rest1 = difference(b_e2, b_e1)
    b_d2, b_rest2 = difference(b_e3, b_e2)
    b_d3, b_rest3 = difference(b_e4, b_e3)
    b_inner = b_d1 + b_d2
    b_before = b_d1 - b_d0
    b_centre = b_d2 - b_d1
    b_after = b_d3 - b_d2
    b_v = (7.0 * b_inner - (b_d0 + b_d3)) * (b_r * (1.0 / 12.0))
    b_a = b_centre * (b_r * b_r) + (2.0 * b_centre - b_before - b_after) * (b_r * b_r * (1.0 / 12.0))
    b_rest = (b_rest3 - b_rest2) - (b_rest1 - b_rest0)
    b_j = ((b_after - b_before) + b_rest) * (0.5 * b_r * b_r * b_r)
    return b_v, b_a, b_j

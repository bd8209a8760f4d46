"""Control points between two states to rows, and the vjp: B-splines, and positions by central differences.

Extended control points c are those that represent the start, the given ones, and those that represent the goal or
repeat the last one. K + 1 of them affect a segment. With T the time of a segment, row k of segment i is

    out_q = sum_m W_q[k, m] (Delta^q c)[i + m] / T^q,      m = 0 .. K - q,   q = 0 (position) .. 3 (jerk)

The vjp takes differences first as well, from segment to segment, so that smooth upstream gradients g keep their digits:

    grad c[e] = sum_q sum_k sum_m W_q[k, m] (nabla^q g_q)[e - m, k] / T^q,      (nabla g)[i, k] = g[i-1, k] - g[i, k]

The last given point, if others repeat it, gets the sum of theirs, too: one difference less of each order, and running
sums of the positions' gradients. Start and goal get sums over few points (`ends`).

Central differences are segments of one row and five points, and their start is four points of its arc. H = Ha + 4; with
e[0] = p0, e[k] = u[k-1] up to Ha, e[k] = u[Ha-1] beyond, and before the start the cubic arc
e[k] = p0 + k dt v0 + (k dt)^2 a0 / 2 + (k dt)^3 j0 / 6, output h lies at e[h-1]:

    v[h] = (  e[-2] -  8 e[-1]           +  8 e[+1] - e[+2]) / (12 dt)        (offsets from h - 1)
    a[h] = ( -e[-2] + 16 e[-1] - 30 e[0] + 16 e[+1] - e[+2]) / (12 dt^2)
    j[h] = ( -e[-2] +  2 e[-1]           -  2 e[+1] + e[+2]) / (2 dt^3)
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import triton
import triton.language as tl
from torch import Tensor

from ..splines.form import SplineForm
from ..splines.weights import STATE_WEIGHTS, row_weights
from ..types import Inputs, VjpInputs
from . import launch
from .device import jit_kernel, load, load_state, places, put, state_row, trajectories
from .ends import on_device
from .pairs import product, second_difference, third_difference, two_product, two_sum


@dataclass(frozen=True, eq=False)
class Segments:
    """A map from control points to rows."""

    weights: Sequence[np.ndarray]
    """W by order of the difference, `[steps, K + 1 - q]`; if `closed`, one more row, with which the last one ends."""
    states: np.ndarray
    """`[HEAD, 4]`: point m of those that represent a state is the sum of the derivatives times T^k times these, which
    are 1, x, (x^2 - spread) / 2 and (x^3 - 3 spread x) / 6 with x = m - centre, or 0 for derivatives without effect."""
    centre: float
    spread: float = 0.0
    steps: int = 1
    closed: bool = False

    def forward(
        self, inputs: Inputs, used: int, out: Sequence[Tensor] | None, **options: object
    ) -> tuple[Tensor, ...]:
        """Return the outputs, as `backends` describes it; `used` is the number of actions that have an effect."""
        action, head = inputs.action, len(self.states)
        points, dof = action.shape[1:]
        # Rows of segments with a point of the start; rows from the first segment on whose last point is not given.
        edges = tuple(end * self.steps * dof for end in (head, head + used - self._degree))
        options |= {"edges": edges, "CENTRE": self.centre, "SPREAD": self.spread}
        options |= self._options(action, used, inputs.ends[1].rows[0] is not None)
        return launch.forward(points_fwd_kernel, inputs, self._rows(points), out, **options)

    def vjp(
        self, inputs: VjpInputs, used: int, out: Sequence[Tensor | None] | None, *, truncate: bool = False
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients, as `backends` describes it; truncated, the last action has that of positions alone."""
        like, points, has_goal = inputs.like, inputs.action_horizon, inputs.rows[1] >= 0
        start, goal = (on_device(table.tobytes(), like.dtype, like.device) for table in self._ends)
        ends = {
            "p_start_weights": start if any(inputs.needs[1:5]) else None,
            "p_goal_weights": goal if has_goal and any(inputs.needs[5:]) else None,
            "n_goal_first": (len(self.states) + used - self._degree) * self.steps,
            "n_rows": len(self._ends[0]),
            "n_steps": self.steps,
        }
        options = {**self._options(like, used, has_goal), "TRUNCATE": truncate}
        return launch.vjp(points_vjp_kernel, inputs, self._rows(points), points, out, ends, **options)

    @property
    def _degree(self) -> int:
        return self.weights[0].shape[1] - 1

    def _rows(self, points: int) -> int:
        return (points + len(self.states)) * self.steps + self.closed

    def _options(self, like: Tensor, used: int, has_goal: bool) -> dict[str, object]:
        """Return the arguments of both kernels."""
        weights = np.concatenate(self.weights, axis=1)
        sizes = {"K": self._degree, "HEAD": len(self.states), "STEPS": self.steps, "CLOSED": int(self.closed)}
        weights = on_device(weights.tobytes(), like.dtype, like.device)
        return {**sizes, "p_weights": weights, "n_used": used, "HAS_GOAL": has_goal}

    @functools.cached_property
    def _ends(self) -> list[np.ndarray]:
        """Return the tables of start and goal (`ends`), from the first row on that they affect."""
        head, steps, others = len(self.states), self.steps, np.zeros((self._degree, 4))
        found = []
        for points, closes in ((np.concatenate([self.states, others]), 0), (np.concatenate([others, self.states]), 1)):
            differences = [np.diff(points, q, axis=0) for q in range(4)]
            # By segment, order, row and kind.
            each = np.array([
                [w @ one[i : i + w.shape[1]] for w, one in zip(self.weights, differences, strict=True)]
                for i in range(head)
            ])  # fmt: skip
            rows = each[:, :, :steps].transpose(0, 2, 1, 3).reshape(-1, 4, 4)
            table = np.concatenate([rows, closes * each[-1, :, steps:].transpose(1, 0, 2)])
            for q, k in ((2, 0), (3, 0), (3, 0), (3, 1), (3, 2)):
                for row in range(steps, len(table)):
                    table[row, q, k] += table[row - steps, q, k]
            found.append(table)
        return found


# The equations in terms of first, second and third differences of e[h-3] to e[h+1].
_WEIGHTS = [[0, 0, 1, 0, 0]], [[-1 / 12, 7 / 12, 7 / 12, -1 / 12]], [[-1 / 12, 14 / 12, -1 / 12]], [[1 / 2, 1 / 2]]
_STATES = [[place**kind / math.factorial(kind) for kind in range(4)] for place in (-3, -2, -1, 0)]
_CENTRAL = Segments([np.array(one, dtype=float) for one in _WEIGHTS], np.array(_STATES), centre=3.0)


def clique_central_forward(inputs: Inputs, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Return the outputs, as `backends` describes it."""
    return _CENTRAL.forward(inputs, inputs.action.shape[1], out)


def clique_central_vjp(
    inputs: VjpInputs, *, truncate_terminal_gradient: bool = False, out: Sequence[Tensor | None] | None = None
) -> tuple[Tensor | None, ...]:
    """Return the gradients, as `backends` describes it; truncated, the last action has that of the positions alone."""
    return _CENTRAL.vjp(inputs, inputs.action_horizon, out, truncate=truncate_terminal_gradient)


def bspline_forward(inputs: Inputs, *, form: SplineForm, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Return the outputs, as `backends` describes it."""
    used = form.used(inputs.action.shape[1], inputs.ends[1].rows[0] is not None)
    unused = {} if form.has_jerk else {"p_start_j": None, "p_goal_j": None}
    return _of_spline(form).forward(inputs, used, out, **unused)


def bspline_vjp(
    inputs: VjpInputs, *, form: SplineForm, out: Sequence[Tensor | None] | None = None
) -> tuple[Tensor | None, ...]:
    """Return the gradients, as `backends` describes it."""
    return _of_spline(form).vjp(inputs, form.used(inputs.action_horizon, inputs.rows[1] >= 0), out)


@functools.lru_cache(maxsize=64)
def _of_spline(form: SplineForm) -> Segments:
    degree = form.degree
    states = np.array(STATE_WEIGHTS[degree, form.head, form.has_jerk])
    weights = row_weights(degree, form.steps)
    return Segments(weights, states, (degree - 1) / 2, (degree + 1) / 12, form.steps, closed=True)


@jit_kernel
def points_fwd_kernel(
    p_action, p_start_index, p_start_p, p_start_v, p_start_a, p_start_j, n_start, p_goal_index, p_goal_p, p_goal_v,
    p_goal_a, p_goal_j, n_goal, p_dt, p_weights, p_position, p_velocity, p_acceleration, p_jerk, n_batch, Ha, n_used,
    n_head, n_inner, n_edge, D: tl.constexpr, SHARED_DT: tl.constexpr, K: tl.constexpr, HEAD: tl.constexpr,
    STEPS: tl.constexpr, CLOSED: tl.constexpr, CENTRE: tl.constexpr, SPREAD: tl.constexpr, HAS_GOAL: tl.constexpr,
    WIDE: tl.constexpr, TRAJECTORIES: tl.constexpr, LANES: tl.constexpr,
):
    """Compute one element of the four outputs in each lane: first chunks with given points alone, then the others."""
    b_trajectory, b_there, b_time, b_time_lo, b_rate = trajectories(
        p_dt, n_batch, STEPS, SHARED_DT, WIDE, TRAJECTORIES
    )
    size = ((Ha + HEAD) * STEPS + CLOSED) * D
    for EDGE in tl.static_range(2):
        for i in range(tl.program_id(1), n_edge if EDGE else n_inner, tl.num_programs(1)):
            i_chunk = i + tl.where(i < n_head, 0, n_inner) if EDGE else n_head + i
            b_place, b_row, b_column, b_in = places(b_there, size, i_chunk, D, LANES)
            b_segment = tl.minimum(b_row // STEPS, Ha + HEAD - 1) if EDGE else b_row // STEPS
            p_weight = p_weights + (b_row - b_segment * STEPS) * (4 * K - 2)
            b_weighs = b_place < size  # in all trajectories, which share the weights of a row
            b_first = b_segment - HEAD
            b_points = b_trajectory * (Ha * D) + b_column
            b_x1 = load(None, b_points, b_in, WIDE)
            if EDGE:
                b_from = state_row(p_start_index, n_start, b_trajectory, b_there)
                b_p, b_v, b_v_lo, b_a, b_j = _state(
                    p_start_p, p_start_v, p_start_a, p_start_j, n_start, b_from, b_column, b_in & (b_first < 0),
                    b_time, b_time_lo, D, WIDE,
                )
            if EDGE and HAS_GOAL:
                b_from = state_row(p_goal_index, n_goal, b_trajectory, b_there)
                b_end_p, b_end_v, b_end_v_lo, b_end_a, b_end_j = _state(
                    p_goal_p, p_goal_v, p_goal_a, p_goal_j, n_goal, b_from, b_column, b_in & (b_first + K >= n_used),
                    b_time, b_time_lo, D, WIDE,
                )
            b_x2, b_x3, b_lo1, b_lo2, b_lo3 = b_x1, b_x1, b_x1, b_x1, b_x1
            b_sum0, b_sum1, b_sum2, b_sum3 = b_x1, b_x1, b_x1, b_x1
            # The points of the segment, one after the other; each completes one difference of every order. Rounding
            # errors are kept as the excess: x - 0 costs nothing, unlike x + 0.
            for m in tl.static_range(K + 1):
                b_given = b_first + m
                b_from = tl.minimum(tl.maximum(b_given, 0), Ha - 1) if EDGE else b_given
                b_x0 = load(p_action, b_points + b_from * D, b_in, WIDE)
                b_lo0 = tl.zeros_like(b_x0)
                if EDGE and m < HEAD:
                    b_point, b_lo = _carrying(b_segment + m, b_p, b_v, b_v_lo, b_a, b_j, CENTRE, SPREAD)
                    b_x0 = tl.where(b_given < 0, b_point, b_x0)
                    b_lo0 = tl.where(b_given < 0, b_lo, 0.0)
                if EDGE and (HAS_GOAL and m > K - HEAD):
                    b_point, b_lo = _carrying(
                        b_given - n_used, b_end_p, b_end_v, b_end_v_lo, b_end_a, b_end_j, CENTRE, SPREAD
                    )
                    b_x0 = tl.where(b_given >= n_used, b_point, b_x0)
                    b_lo0 = tl.where(b_given >= n_used, b_lo, b_lo0)
                b_sum0 = tl.fma(load(p_weight, m, b_weighs, WIDE), b_x0 - b_lo0, b_sum0)
                if m >= 1:
                    b_value = (b_x0 - b_x1) - (b_lo0 - b_lo1)
                    b_sum1 = tl.fma(load(p_weight, K + m, b_weighs, WIDE), b_value, b_sum1)
                if m >= 2:
                    b_value, b_lo = second_difference(b_x0, b_x1, b_x2)
                    b_lo -= (b_lo0 - b_lo1) - (b_lo1 - b_lo2)
                    b_sum2 = tl.fma(load(p_weight, 2 * K + m - 1, b_weighs, WIDE), b_value + b_lo, b_sum2)
                if m >= 3:
                    b_value, b_lo = third_difference(b_x0, b_x1, b_x2, b_x3)
                    b_lo -= (b_lo0 - b_lo3) - 3.0 * (b_lo1 - b_lo2)
                    b_sum3 = tl.fma(load(p_weight, 3 * K + m - 3, b_weighs, WIDE), b_value + b_lo, b_sum3)
                b_x1, b_x2, b_x3 = b_x0, b_x1, b_x2
                b_lo1, b_lo2, b_lo3 = b_lo0, b_lo1, b_lo2
            b_at = b_trajectory * size + b_place
            put(p_position, b_at, b_sum0, b_in)
            put(p_velocity, b_at, b_sum1 * b_rate, b_in)
            put(p_acceleration, b_at, b_sum2 * (b_rate * b_rate), b_in)
            put(p_jerk, b_at, b_sum3 * (b_rate * b_rate * b_rate), b_in)


@triton.jit
def _state(p_p, p_v, p_a, p_j, n_rows, b_row, b_column, b_mask, b_h, b_h_lo, D: tl.constexpr, WIDE: tl.constexpr):
    """Return a state, whose derivatives are multiplied by powers of a segment's time, as in a Taylor polynomial."""
    b_p = load_state(p_p, n_rows, b_row, b_column, D, b_mask, WIDE)
    b_v = load_state(p_v, n_rows, b_row, b_column, D, b_mask, WIDE)
    b_a = load_state(p_a, n_rows, b_row, b_column, D, b_mask, WIDE) * (b_h * b_h * 0.5)
    b_j = load_state(p_j, n_rows, b_row, b_column, D, b_mask, WIDE) * (b_h * b_h * b_h * (1.0 / 6.0))
    b_v, b_v_lo = product(b_v, None, b_h, b_h_lo)
    return b_p, b_v, b_v_lo, b_a, b_j


@triton.jit
def _carrying(b_m, b_p, b_v, b_v_lo, b_a, b_j, CENTRE: tl.constexpr, SPREAD: tl.constexpr):
    """Return point m of those that represent a state, and its rounding error."""
    b_x = b_m.to(b_p.dtype) - CENTRE
    b_moved, b_lo = two_product(b_x, b_v)
    b_point, b_point_lo = two_sum(b_p, b_moved)
    b_square = b_x * b_x
    b_bent = (b_square - SPREAD) * b_a + (b_x * (b_square - 3.0 * SPREAD)) * b_j
    return b_point, (b_point_lo + (b_lo + b_x * b_v_lo) + b_bent) * -1.0


@jit_kernel
def points_vjp_kernel(
    p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_dt, p_weights, p_grad_action, n_batch, Ha,
    n_used, n_inner, D: tl.constexpr, SHARED_DT: tl.constexpr, K: tl.constexpr, HEAD: tl.constexpr,
    STEPS: tl.constexpr, CLOSED: tl.constexpr, HAS_GOAL: tl.constexpr, TRUNCATE: tl.constexpr, WIDE: tl.constexpr,
    TRAJECTORIES: tl.constexpr, LANES: tl.constexpr,
):
    """Compute the gradient of a given control point in each lane."""
    b_trajectory, b_there, _b_time, _b_lo, b_rate = trajectories(p_dt, n_batch, STEPS, SHARED_DT, WIDE, TRAJECTORIES)
    for i in range(tl.program_id(1), n_inner, tl.num_programs(1)):
        b_place, b_point, b_column, b_in = places(b_there, Ha * D, i, D, LANES)
        b_used = b_in & (b_point < n_used)
        b_is_last = b_used & (b_point == Ha - 1)
        # From its last segment on, backwards.
        b_segment = b_trajectory * (((Ha + HEAD) * STEPS + CLOSED) * D) + ((b_point + HEAD) * (STEPS * D) + b_column)
        b_0 = load(None, b_segment, b_in, WIDE)
        b_1, b_2, b_3 = b_0, b_0, b_0
        # One difference less of each order where the point is repeated.
        b_less = b_0 if HAS_GOAL else tl.where(b_is_last, 1.0, b_0)
        for row in range(STEPS):
            b_p = tl.zeros_like(b_0)
            b_v1, b_a1, b_a2, b_j1, b_j2, b_j3 = b_p, b_p, b_p, b_p, b_p, b_p
            for m in tl.static_range(K + 1):
                b_at = b_segment + (row - m * STEPS) * D
                p_weight = p_weights + row * (4 * K - 2) + m
                b_p = tl.fma(b_p, b_less, load(p_grad_position, b_at, b_used, WIDE))
                b_0 = tl.fma(tl.load(p_weight), b_p, b_0)
                b_v0 = load(p_grad_velocity, b_at, b_used, WIDE)
                b_a0 = load(p_grad_acceleration, b_at, b_used, WIDE)
                b_j0 = load(p_grad_jerk, b_at, b_used, WIDE)
                if m >= 1:
                    b_1 = tl.fma(tl.load(p_weight + K), tl.fma(b_less - 1.0, b_v1, b_v0), b_1)
                if m >= 2:
                    b_value, b_lo = two_sum(b_a0, (1.0 - b_less) * b_a2)
                    b_value = tl.fma(b_less - 2.0, b_a1, b_value) + b_lo
                    b_2 = tl.fma(tl.load(p_weight + (2 * K - 1)), b_value, b_2)
                if m >= 3:
                    b_value, b_lo = second_difference(b_j0, b_j1, b_j2)
                    b_before, b_before_lo = second_difference(b_j1, b_j2, b_j3)
                    b_value = tl.fma(b_less - 1.0, b_before, b_value) + tl.fma(b_less - 1.0, b_before_lo, b_lo)
                    b_3 = tl.fma(tl.load(p_weight + (3 * K - 3)), b_value, b_3)
                b_v1, b_a1, b_a2, b_j1, b_j2, b_j3 = b_v0, b_a0, b_a1, b_j0, b_j1, b_j2
        # The row that ends the last segment: of derivatives, the last point affects at most the jerk there.
        if CLOSED and not HAS_GOAL:
            b_0 += load(p_grad_position, b_segment + STEPS * D, b_is_last, WIDE)
        if CLOSED and (HAS_GOAL and K == 3):
            b_3 -= load(p_grad_jerk, b_segment + STEPS * D, b_is_last, WIDE)
        b_by = tl.where(b_is_last, 0.0, b_rate) if TRUNCATE else b_rate
        b_grad = b_0 + b_by * (b_1 + b_by * (b_2 + b_by * b_3))
        put(p_grad_action, b_trajectory * (Ha * D) + b_place, b_grad, b_in)

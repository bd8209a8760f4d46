"""Steps by matrix products: on whole states, rows `[q | qd | qdd]` in one tensor or a `JointState`, and on positions.

What the functions take, unless they say otherwise:

- `act`, `pos_act`: actions `[B, H, D]`; `n_dofs`: D; `dt_h`, `diag_dt`: `[H]` step lengths, s.
- `state`: the start: `[B, 3 D]` or `[B, 1, 3 D]` with columns `[q | qd | qdd]`, or a JointState of fields `[B, D]`, of
  which a velocity or acceleration of None means 0.
- `integrate_matrix` `[H, H]` sums a sequence and `fd_matrix` `[H, H]` differentiates it (see `build_int_matrix`,
  `build_fd_matrix`); where a function does not use dt, the matrices contain it.
- `state_seq`: `[B, H, >= 3 D]`, whose first 3 D columns are overwritten; where these are all, its previous graph is
  dropped, so that a loop over one `state_seq` grows no graph. A JointState gets new tensors `[B, H, D]` in its fields.
  It is returned.

Everything is differentiable in the state, the actions and the matrices. Units: rad, s. Steps on positions are slower
than `clique_step` (they multiply mostly by zeros) and do not support a moving start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from .joint_state import JointState

Step = tuple[Tensor, Tensor, Tensor, Tensor]


def tensor_step_jerk(
    state: Tensor,
    act: Tensor,
    state_seq: Tensor,
    dt_h: Tensor,
    n_dofs: int,
    integrate_matrix: Tensor,
    fd_matrix: Tensor | None = None,
) -> Tensor:
    """Integrate jerks three times: `qdd = qdd0 + T (dt jerk)`, `qd = qd0 + T (dt qdd)`, `q = q0 + T (dt qd)`.

    `integrate_matrix` T is without dt; `fd_matrix` is not used.
    """
    q0, qd0, qdd0 = _start_columns(state, n_dofs)
    step = dt_h.reshape(-1, 1)
    qdd = qdd0 + integrate_matrix @ (step * act)
    qd = qd0 + integrate_matrix @ (step * qdd)
    q = q0 + integrate_matrix @ (step * qd)
    return _write(state_seq, q, qd, qdd)


def euler_integrate(q_0: Tensor, u: Tensor, diag_dt: Tensor | None, integrate_matrix: Tensor) -> Tensor:
    """Return `q_0 + integrate_matrix @ u`, `[B, H, D]`; `q_0` broadcasts against it, `diag_dt` is not used."""
    return q_0 + integrate_matrix @ u


def tensor_step_acc(
    state: Tensor,
    act: Tensor,
    state_seq: Tensor,
    dt_h: Tensor | None,
    n_dofs: int,
    integrate_matrix: Tensor,
    fd_matrix: Tensor | None = None,
) -> Tensor:
    """Integrate accelerations twice: `qdd = act`, `qd = qd0 + M act`, `q = q0 + M qd`.

    `integrate_matrix` M is with dt; `dt_h` and `fd_matrix` are not used.
    """
    q0, qd0, _ = _start_columns(state, n_dofs)
    qd = euler_integrate(qd0, act, dt_h, integrate_matrix)
    q = euler_integrate(q0, qd, dt_h, integrate_matrix)
    return _write(state_seq, q, qd, act)


def step_acc_semi_euler(
    state: Tensor, act: Tensor, diag_dt: Tensor | None, n_dofs: int, integrate_matrix: Tensor
) -> Tensor:
    """Return what `tensor_step_acc` writes, as a new tensor `[B, H, 3 D]`; `diag_dt` is not used.

    `state` may also be `[B, H, 3 D]`, as published: every row is then added to its own step.
    """
    q0, qd0, _ = _start_columns(state, n_dofs, act.shape[1])
    qd = euler_integrate(qd0, act, diag_dt, integrate_matrix)
    return torch.cat([euler_integrate(q0, qd, diag_dt, integrate_matrix), qd, act], -1)


def tensor_step_acc_semi_euler(
    state: JointState,
    act: Tensor,
    state_seq: JointState,
    diag_dt: Tensor | None,
    integrate_matrix: Tensor,
    integrate_matrix_pos: Tensor,
) -> JointState:
    """Integrate accelerations twice, with a matrix of its own for the position.

    `state_seq` receives acceleration `act`, velocity `qd0 + integrate_matrix act` and position
    `q0 + integrate_matrix_pos velocity`. Both matrices are with dt; `diag_dt` is not used.
    """
    state_seq.acceleration = act
    state_seq.velocity = euler_integrate(_or_zero(state.velocity, state).unsqueeze(1), act, diag_dt, integrate_matrix)
    state_seq.position = euler_integrate(state.position.unsqueeze(1), state_seq.velocity, diag_dt, integrate_matrix_pos)
    return state_seq


def tensor_step_vel(
    state: Tensor,
    act: Tensor,
    state_seq: Tensor,
    dt_h: Tensor,
    n_dofs: int,
    integrate_matrix: Tensor,
    fd_matrix: Tensor,
) -> Tensor:
    """Integrate and differentiate velocities, `qd = [qd0, act[:-1]]`; `q = q0 + M qd`, `qdd = [qdd0, (fd qd/dt)[:-1]]`.

    The position is `q0 + M qd` in row 0 too. `integrate_matrix` M is with dt, `fd_matrix` without.
    """
    q0, qd0, qdd0 = _start_columns(state, n_dofs)
    qd = _behind(qd0, act)
    qdd = _behind(qdd0, (fd_matrix @ qd) / dt_h.reshape(-1, 1))
    return _write(state_seq, euler_integrate(q0, qd, None, integrate_matrix), qd, qdd)


def tensor_step_pos(state: JointState, act: Tensor, state_seq: JointState, fd_matrix: Tensor) -> JointState:
    """Differentiate positions: row 0 is the start, then `act[:-1]`, `(fd position)[:-1]` and `(fd velocity)[:-1]`.

    `fd_matrix` is with 1 / dt.
    """
    position = _behind(state.position.unsqueeze(1), act)
    velocity = _behind(_or_zero(state.velocity, state).unsqueeze(1), fd_matrix @ position)
    acceleration = _behind(_or_zero(state.acceleration, state).unsqueeze(1), fd_matrix @ velocity)
    state_seq.position, state_seq.velocity, state_seq.acceleration = position, velocity, acceleration
    return state_seq


def tensor_step_pos_ik(act: Tensor, state_seq: JointState) -> JointState:
    """Return `state_seq` with the actions `[B, H, D]` as its position."""
    state_seq.position = act
    return state_seq


def tensor_step_pos_clique(
    state: JointState,
    act: Tensor,
    state_seq: JointState,
    mask_matrix: tuple[Tensor, Tensor],
    fd_matrix: tuple[Tensor, Tensor, Tensor],
) -> JointState:
    """Differentiate positions by `(mask, n_mask)` and `(fd_1, fd_2, fd_3)`, see `jit_tensor_step_pos_clique`."""
    outputs = jit_tensor_step_pos_clique(act, state.position, *mask_matrix, *fd_matrix)
    state_seq.position, state_seq.velocity, state_seq.acceleration, state_seq.jerk = outputs
    return state_seq


def jit_tensor_step_pos_clique(
    pos_act: Tensor, start_position: Tensor, mask: Tensor, n_mask: Tensor, fd_1: Tensor, fd_2: Tensor, fd_3: Tensor
) -> Step:
    """Return position `mask p0 + n_mask u` and `fd_1`, `fd_2`, `fd_3` times it: velocity, acceleration, jerk.

    `start_position` p0 is `[B, D]`. `mask` `[H, 1]` puts it into row 0 and `n_mask` `[H, H]` the actions u into the
    rows after it (`build_start_state_mask`); the others, `[H, H]`, carry the step length (1 / dt, ...).
    """
    position = mask @ start_position.unsqueeze(-2) + n_mask @ pos_act
    return position, fd_1 @ position, fd_2 @ position, fd_3 @ position


def jit_backward_pos_clique(
    grad_p: Tensor | None,
    grad_v: Tensor | None,
    grad_a: Tensor | None,
    grad_j: Tensor | None,
    n_mask: Tensor,
    fd_1: Tensor,
    fd_2: Tensor,
    fd_3: Tensor,
) -> Tensor:
    """Return the actions' gradient `n_mask' (grad_p + fd_3' grad_j + fd_2' grad_a + fd_1' grad_v)`, `[B, H, D]`.

    The upstream gradients are `[B, H, D]`, or None for 0, but not all of them; the matrices are those of
    `jit_tensor_step_pos_clique`.
    """
    terms = [grad_p] if grad_p is not None else []
    terms += [fd.mT @ grad for fd, grad in ((fd_3, grad_j), (fd_2, grad_a), (fd_1, grad_v)) if grad is not None]
    if not terms:
        raise ValueError("grad_p, grad_v, grad_a, grad_j: expected at least one gradient, got None for all")
    return n_mask.mT @ sum(terms[1:], start=terms[0])


def _contiguous(step: Callable[..., Tensor | Step]) -> Callable[..., Tensor | Step]:
    """Make what a step returns contiguous; its arguments stay the same."""

    @functools.wraps(step)
    def contiguous(*arguments: Tensor | None, **named: Tensor | None) -> Tensor | Step:
        result = step(*arguments, **named)
        return result.contiguous() if isinstance(result, Tensor) else tuple(output.contiguous() for output in result)

    contiguous.__name__ = contiguous.__qualname__ = f"{step.__name__}_contiguous"
    contiguous.__doc__ = f"Return what `{step.__name__}` returns, contiguous."
    return contiguous


jit_tensor_step_pos_clique_contiguous = _contiguous(jit_tensor_step_pos_clique)
jit_backward_pos_clique_contiguous = _contiguous(jit_backward_pos_clique)


class CliqueTensorStep:
    """The matrix form under the calling convention of an autograd function: see `jit_tensor_step_pos_clique`.

    Its gradient is torch's own for the products, the same as `jit_backward_pos_clique`: second derivatives, forward
    mode, `vmap` and `torch.compile` work, and the start position and the matrices have gradients too.
    """

    @staticmethod
    def apply(
        u_act: Tensor, start_position: Tensor, mask: Tensor, n_mask: Tensor, fd_1: Tensor, fd_2: Tensor, fd_3: Tensor
    ) -> Step:
        """Return what `jit_tensor_step_pos_clique` returns for these arguments."""
        return jit_tensor_step_pos_clique(u_act, start_position, mask, n_mask, fd_1, fd_2, fd_3)


def _start_columns(state: Tensor, n_dofs: int, horizon: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Position, velocity and acceleration of the start, each `[B, 1, D]`, or `[B, horizon, D]`."""
    fits = state.dim() == 2 or (state.dim() == 3 and state.shape[1] in (1, horizon))
    if not fits or state.shape[-1] < 3 * n_dofs:
        rows = "1" if horizon == 1 else f"1 or {horizon}"
        raise ValueError(
            f"state: expected [batch, 3 * n_dofs = {3 * n_dofs}] or [batch, {rows}, {3 * n_dofs}], got "
            f"{list(state.shape)}"
        )
    rows = state if state.dim() == 3 else state.unsqueeze(1)
    return rows[..., :n_dofs], rows[..., n_dofs : 2 * n_dofs], rows[..., 2 * n_dofs : 3 * n_dofs]


def _behind(start: Tensor, sequence: Tensor) -> Tensor:
    """The start in row 0, then the sequence without its last row."""
    return torch.cat([start.expand(sequence.shape[0], 1, -1), sequence[:, :-1]], 1)


def _or_zero(field: Tensor | None, state: JointState) -> Tensor:
    return torch.zeros_like(state.position) if field is None else field


def _write(state_seq: Tensor, *columns: Tensor) -> Tensor:
    values = torch.cat(columns, -1)
    width = values.shape[-1]
    if state_seq.dim() != 3 or state_seq.shape[:2] != values.shape[:2] or state_seq.shape[2] < width:
        expected = [*values.shape[:2], width]
        raise ValueError(f"state_seq: expected {expected} (or more columns), got {list(state_seq.shape)}")
    if state_seq.shape[2] > width:
        state_seq[..., :width] = values
        return state_seq
    if state_seq.grad_fn is not None and not state_seq._is_view():
        # Every number is replaced, so the graph of the old ones is dropped; otherwise it would grow with every call.
        state_seq.detach_()
    return state_seq.copy_(values)

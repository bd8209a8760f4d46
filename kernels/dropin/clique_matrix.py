"""Backward differences by matrix products: positions from actions and a start, then `fd_k @ position`.

Slower than `clique_step` (it multiplies mostly by zeros) and without support for a moving start; kept for code that was
written for it. All matrices are `[H, H]`, except `mask` `[H, 1]`; the matrices contain the step length (1 / dt, ...).
"""

from __future__ import annotations

from torch import Tensor

Step = tuple[Tensor, Tensor, Tensor, Tensor]


def jit_tensor_step_pos_clique(
    pos_act: Tensor, start_position: Tensor, mask: Tensor, n_mask: Tensor, fd_1: Tensor, fd_2: Tensor, fd_3: Tensor
) -> Step:
    """Return position `mask p0 + n_mask u` and `fd_1`, `fd_2`, `fd_3` times it: velocity, acceleration, jerk.

    Args:
        pos_act: actions u `[B, H, D]`, rad.
        start_position: p0 `[B, D]`, rad.
        mask: `[H, 1]`, puts the start position into row 0; see `build_start_state_mask`.
        n_mask: `[H, H]`, puts the actions into the rows after it.
        fd_1: `[H, H]`, positions to velocity.
        fd_2: `[H, H]`, positions to acceleration.
        fd_3: `[H, H]`, positions to jerk.

    Returns:
        Four tensors `[B, H, D]`, differentiable in every argument.

    """
    position = mask @ start_position.unsqueeze(-2) + n_mask @ pos_act
    return position, fd_1 @ position, fd_2 @ position, fd_3 @ position


def jit_tensor_step_pos_clique_contiguous(
    pos_act: Tensor, start_position: Tensor, mask: Tensor, n_mask: Tensor, fd_1: Tensor, fd_2: Tensor, fd_3: Tensor
) -> Step:
    """Return what `jit_tensor_step_pos_clique` returns, each output contiguous."""
    position, velocity, acceleration, jerk = jit_tensor_step_pos_clique(
        pos_act, start_position, mask, n_mask, fd_1, fd_2, fd_3
    )
    return position.contiguous(), velocity.contiguous(), acceleration.contiguous(), jerk.contiguous()


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

    Args:
        grad_p: upstream gradient of the position `[B, H, D]`; None means 0, here and below.
        grad_v: upstream gradient of the velocity.
        grad_a: upstream gradient of the acceleration.
        grad_j: upstream gradient of the jerk.
        n_mask: `[H, H]`, as in `jit_tensor_step_pos_clique`.
        fd_1: as there.
        fd_2: as there.
        fd_3: as there.

    Raises:
        ValueError: all four upstream gradients are None.

    """
    terms = [grad_p] if grad_p is not None else []
    terms += [fd.mT @ grad for fd, grad in ((fd_3, grad_j), (fd_2, grad_a), (fd_1, grad_v)) if grad is not None]
    if not terms:
        raise ValueError("grad_p, grad_v, grad_a, grad_j: expected at least one gradient, got None for all")
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return n_mask.mT @ total


def jit_backward_pos_clique_contiguous(
    grad_p: Tensor | None,
    grad_v: Tensor | None,
    grad_a: Tensor | None,
    grad_j: Tensor | None,
    n_mask: Tensor,
    fd_1: Tensor,
    fd_2: Tensor,
    fd_3: Tensor,
) -> Tensor:
    """Return what `jit_backward_pos_clique` returns, contiguous."""
    return jit_backward_pos_clique(grad_p, grad_v, grad_a, grad_j, n_mask, fd_1, fd_2, fd_3).contiguous()


class CliqueTensorStep:
    """The matrix form under the calling convention of an autograd function.

    Its gradient is torch's own for the products, the same as `jit_backward_pos_clique`: second derivatives, forward
    mode, `vmap` and `torch.compile` work, and the start position and the matrices have gradients too.
    """

    @staticmethod
    def apply(
        u_act: Tensor, start_position: Tensor, mask: Tensor, n_mask: Tensor, fd_1: Tensor, fd_2: Tensor, fd_3: Tensor
    ) -> Step:
        """Return what `jit_tensor_step_pos_clique` returns for these arguments."""
        return jit_tensor_step_pos_clique(u_act, start_position, mask, n_mask, fd_1, fd_2, fd_3)

"""One differentiable torch operator for each control map, and one for its transpose.

`StepOperator` registers `traj_integrator::<map>_forward` and `traj_integrator::<map>_vjp` with torch: schema,
shapes (fake), batching (`torch.vmap`) and derivatives of any order in reverse and forward mode. Each is the other's
derivative, since the maps are linear in everything but dt (`step_derivatives`). What computes them is a backend
(`backends`); derivatives with respect to dt are computed where they are asked for, by the float64 compositions
(`dt_derivatives`).

The derivatives are registered at torch's autograd key: the operator itself has them, it stays one opaque node for
`torch.compile` and `torch.export`, and it behaves the same under every `torch.func` transform.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .backends import Backend, check_backend, launcher
from .batching import fold, fold_dt, fold_start_index, unfold
from .fast_path import fast_step
from .registration import register
from .step_derivatives import forward_derivative, some, vjp_derivative
from .types import Trajectory
from .validation import prepare_step, prepare_vjp

_OUTPUTS = ("position", "velocity", "acceleration", "jerk")
_START = _OUTPUTS[:3]


class StepOperator:
    """The operator pair of one control map.

    Positional arguments of `forward`: action, each start, start_index, dt, the scheme (where the map has one), backend.
    Of `vjp`: the four upstream gradients, start_index, dt, start_rows, action_horizon, needs, scheme, backend; it
    returns the gradients of action and each start, None if `needs` says so. Shapes are those of
    `backends`; the public functions check them, the operators do not.

    Args:
        name: of the map; the operators are called after it.
        start: the start rows that the map takes.
        extra_horizon: output rows beyond the action horizon.
        integrators: enum of the schemes that the map knows, if it knows several.
        truncates: whether the map knows `truncate_terminal_gradient`.
        uniform_dt_only: whether the map refuses step lengths that differ along the horizon.

    """

    def __init__(
        self,
        name: str,
        start: Sequence[str] = _START,
        *,
        extra_horizon: int = 0,
        integrators: type[enum.Enum] | None = None,
        truncates: bool = False,
        uniform_dt_only: bool = False,
    ) -> None:
        self.name = name
        self.starts = len(start)
        self.extra_horizon = extra_horizon
        self.uniform_dt_only = uniform_dt_only
        self._integrators = integrators
        self._truncates = truncates
        starts = ", ".join(f"Tensor? start_{kind}" for kind in start)
        upstream = ", ".join(f"Tensor? grad_{kind}" for kind in _OUTPUTS)
        outputs = ", ".join(f"Tensor {kind}" for kind in _OUTPUTS)
        gradients = ", ".join(f"Tensor grad_{kind}" for kind in ("action", *(f"start_{kind}" for kind in start)))
        scheme = "str integrator, " * bool(integrators) + "bool truncate_terminal_gradient, " * truncates
        self.forward = register(
            f"{name}_forward",
            f"(Tensor action, {starts}, Tensor? start_index, Tensor dt, {scheme}str? backend) -> ({outputs})",
            run=self._run_forward,
            fake=self._fake_forward,
            vmap=self._vmap_forward,
            derivative=forward_derivative(self),
            dt_place=self.starts + 2,
        )
        self.vjp = register(
            f"{name}_vjp",
            f"({upstream}, Tensor? start_index, Tensor dt, SymInt start_rows, SymInt action_horizon, bool[] needs, "
            f"{scheme}str? backend) -> ({gradients})",
            run=self._run_vjp,
            fake=self._fake_vjp,
            vmap=self._vmap_vjp,
            derivative=vjp_derivative(self),
            dt_place=5,
        )

    def step(
        self,
        action: Tensor,
        start: Sequence[Tensor | None],
        dt: float | Tensor,
        start_index: Tensor | None,
        dt_per: str,
        backend: Backend | str | None,
        *scheme: object,
    ) -> Trajectory:
        """Check the arguments of a public step function and run the forward operator."""
        if backend is None:
            trajectory = fast_step(self.name, action, start, dt, start_index, dt_per, scheme)
            if trajectory is not None:
                return trajectory
        inputs = prepare_step(action, start, dt, start_index, dt_per, uniform_dt_only=self.uniform_dt_only)
        outputs = self.forward(
            inputs.action, *inputs.start, inputs.start_index, inputs.dt, *scheme, check_backend(backend)
        )
        return Trajectory(*outputs)

    def step_vjp(
        self,
        upstream: Sequence[Tensor | None],
        dt: float | Tensor,
        start_index: Tensor | None,
        dt_per: str,
        backend: Backend | str | None,
        *scheme: object,
        action_horizon: int,
        start_rows: int,
        needs: Sequence[bool],
    ) -> tuple[Tensor | None, ...]:
        """Check the arguments of `ControlMap.vjp` and run the transposed operator."""
        inputs = prepare_vjp(
            upstream,
            dt,
            start_index,
            dt_per,
            start_rows=start_rows,
            action_horizon=action_horizon,
            output_horizon=action_horizon + self.extra_horizon,
            uniform_dt_only=self.uniform_dt_only,
        )
        wanted = [*needs, *(False for _ in range(self.starts + 1 - len(needs)))]
        return self.vjp(
            *inputs.upstream,
            inputs.start_index,
            inputs.dt,
            start_rows,
            action_horizon,
            wanted,
            *scheme,
            check_backend(backend),
        )

    def split(self, arguments: Sequence) -> tuple[Tensor, Sequence[Tensor | None], Tensor | None, Tensor, Sequence]:
        """Action, start rows, start_index, dt and the rest of the arguments of `forward`."""
        n = self.starts + 1
        return arguments[0], arguments[1:n], arguments[n], arguments[n + 1], arguments[n + 2 :]

    def variants(self, action: Tensor, options: Sequence) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
        """Actions to run the forward map on, each with the outputs to take, for the map whose transpose `vjp` is.

        That is the forward map itself, except that a truncated transpose has never seen the last action but in the
        position.
        """
        if self._truncates and options[0]:
            yield action, (0,)
            yield torch.cat([action[:, :-1], torch.zeros_like(action[:, -1:])], 1), (1, 2, 3)
        else:
            yield action, (0, 1, 2, 3)

    def scheme(self, options: Sequence, *, vjp: bool = False) -> dict[str, object]:
        """Keyword arguments of a launcher from the last arguments of an operator."""
        if self._integrators is not None:
            return {"integrator": self._integrators(options[0])}
        if self._truncates and vjp:
            return {"truncate_terminal_gradient": options[0]}
        return {}

    def _run_forward(self, *arguments) -> tuple[Tensor, ...]:
        action, start, start_index, dt, options = self.split(arguments)
        launch = launcher(self.name, "forward", options[-1], action.device.type)
        return tuple(launch(action, *start, start_index, dt, **self.scheme(options)))

    def _fake_forward(self, action: Tensor, *_) -> tuple[Tensor, ...]:
        batch, horizon, dof = action.shape
        return tuple(action.new_empty(batch, horizon + self.extra_horizon, dof) for _ in _OUTPUTS)

    def _vmap_forward(self, info, in_dims: Sequence[int | None], *arguments) -> tuple[tuple, tuple]:
        size = info.batch_size
        action, start, start_index, dt, options = self.split(arguments)
        action_dim, start_dims, idx_dim, dt_dim, _ = self.split(in_dims)
        action = fold(action, action_dim, size)
        batch = action.shape[0] // size
        start = [fold(row, dim, size) for row, dim in zip(start, start_dims, strict=True)]
        rows = next((row.shape[0] // size for row in start if row is not None), batch)
        start_index = fold_start_index(start_index, idx_dim, size, batch, rows, action.device)
        outputs = self.forward(action, *start, start_index, fold_dt(dt, dt_dim, size, batch), *options)
        return unfold(outputs, size), (0,) * len(outputs)

    def _run_vjp(self, *arguments) -> tuple[Tensor | None, ...]:
        *upstream_index_dt, start_rows, action_horizon, needs = arguments[:9]
        options = arguments[9:]
        device = some(upstream_index_dt[:4]).device
        return launcher(self.name, "vjp", options[-1], device.type)(
            *upstream_index_dt,
            start_rows=start_rows,
            action_horizon=action_horizon,
            needs=tuple(needs),
            **self.scheme(options, vjp=True),
        )

    def _fake_vjp(self, *arguments) -> tuple[Tensor | None, ...]:
        start_rows, action_horizon, needs = arguments[6:9]
        like = some(arguments[:4])
        batch, _, dof = like.shape
        shapes = [(batch, action_horizon, dof), *[(start_rows, dof)] * self.starts]
        return tuple(like.new_empty(shape) if needed else None for shape, needed in zip(shapes, needs, strict=True))

    def _vmap_vjp(self, info, in_dims: Sequence[int | None], *arguments) -> tuple[tuple[Tensor | None, ...], tuple]:
        size = info.batch_size
        start_index, dt, start_rows = arguments[4:7]
        upstream = [fold(g, dim, size) for g, dim in zip(arguments[:4], in_dims[:4], strict=True)]
        like = some(upstream)
        batch = like.shape[0] // size
        start_index = fold_start_index(start_index, in_dims[4], size, batch, start_rows, like.device)
        dt = fold_dt(dt, in_dims[5], size, batch)
        gradients = self.vjp(*upstream, start_index, dt, size * start_rows, *arguments[7:])
        return unfold(gradients, size), tuple(None if gradient is None else 0 for gradient in gradients)

"""One differentiable torch operator for each control map, and one for its vjp.

`StepOperator` registers `traj_integrator::<map>_forward` and `traj_integrator::<map>_vjp` with torch: schema, shapes
(fake), batching (`torch.vmap`) and derivatives of any order in reverse and forward mode. Each is the other's
derivative, since the maps are linear in everything but dt (`step_derivatives`). What computes them is a backend
(`backends`); derivatives with respect to dt are computed in float64 if they are requested, by kernels or by
compositions (`dt_derivatives`).

The derivatives are registered at torch's autograd key: they belong to the operator itself, which stays one opaque node
for `torch.compile` and `torch.export`, and it behaves the same under every `torch.func` transform.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from .backends import Backend, check_backend, launcher
from .batching import fold, fold_dt, fold_start_index, unfold
from .fast_path import fast_step
from .registration import register
from .sharding import is_sharded, rules
from .splines.form import SplineForm
from .step_derivatives import forward_derivative, some, vjp_derivative
from .types import End, Trajectory, counted, own_rows
from .validation import prepare_step, prepare_vjp

_OUTPUTS = ("position", "velocity", "acceleration", "jerk")
_START = _OUTPUTS[:3]


class StepOperator:
    """The operator pair of one control map.

    Positional arguments of `forward`: action, each start, start_index, dt, the scheme (if the map has one), backend. Of
    `vjp`: the four upstream gradients, start_index, dt, start_rows, action_horizon, needs, scheme, backend; it returns
    the gradients of action and each start, None if `needs` says so. If the map takes a goal, its rows and goal_index
    follow the start's, and goal_rows (-1: there is no goal) follows start_rows. Without an index, 0 rows mean one for
    each trajectory, which is also right for a part of the batch. Shapes are those of `backends`; the public functions
    check them, the operators do not.

    Args:
        name: of the map; the operators are named after it.
        start: the start rows that the map takes.
        goal: the goal rows that the map takes.
        extra_horizon: output rows beyond the action horizon, if that number is the same for every horizon.
        integrators: enum of the integration schemes of the map, if it has several.
        truncates: whether the map takes `truncate_terminal_gradient`.
        splines: whether the scheme is that of a `SplineForm`, which then also determines the number of output rows.
        one_dt_for: what needs one step length for each trajectory, for error messages; None if step lengths may differ
            along the horizon.
        action_name: of the action in errors.

    """

    def __init__(
        self,
        name: str,
        start: Sequence[str] = _START,
        goal: Sequence[str] = (),
        *,
        extra_horizon: int = 0,
        integrators: type[enum.Enum] | None = None,
        truncates: bool = False,
        splines: bool = False,
        one_dt_for: str | None = None,
        action_name: str = "action",
    ) -> None:
        self.name = name
        self.starts = len(start)
        self.goals = len(goal)
        self.extra_horizon = extra_horizon
        self.one_dt_for = one_dt_for
        self.action_name = action_name
        self._integrators = integrators
        self.truncates = truncates
        self._splines = splines
        self.ends = (self.starts, self.goals) if goal else (self.starts,)
        """Kinds of start rows, and of goal rows if the map takes a goal."""
        self.dt_place = 1 + sum(rows + 1 for rows in self.ends)
        """Index of dt in the arguments of `forward`; `vjp_dt_place` is that in the arguments of `vjp`."""
        self.row_places = tuple(range(1, self.starts + 1)) + tuple(range(self.starts + 2, self.dt_place - 1))
        """Indices of the start and goal rows in the arguments of `forward`."""
        self.vjp_dt_place = 4 + len(self.ends)
        named = [("start", start), ("goal", goal)][: len(self.ends)]
        ends = "".join(
            "".join(f"Tensor? {end}_{kind}, " for kind in kinds) + f"Tensor? {end}_index, " for end, kinds in named
        )
        indices = "".join(f"Tensor? {end}_index, " for end, _ in named)
        counts = "".join(f"SymInt {end}_rows, " for end, _ in named)
        upstream = ", ".join(f"Tensor? grad_{kind}" for kind in _OUTPUTS)
        outputs = ", ".join(f"Tensor {kind}" for kind in _OUTPUTS)
        gradients = ", ".join(
            f"Tensor grad_{name}" for name in ("action", *(f"{end}_{kind}" for end, kinds in named for kind in kinds))
        )
        scheme = (
            "str integrator, " * bool(integrators)
            + "bool truncate_terminal_gradient, " * truncates
            + "int degree, int steps, str layout, " * splines
        )
        _REGISTERED[name] = self
        self.forward = register(
            f"{name}_forward",
            f"(Tensor action, {ends}Tensor dt, {scheme}str? backend) -> ({outputs})",
            run=self._run_forward,
            fake=self._fake_forward,
            vmap=self._vmap_forward,
            derivative=forward_derivative(self),
            dt_place=self.dt_place,
            ensure_rules=self.ensure_rules,
        )
        self.vjp = register(
            f"{name}_vjp",
            f"({upstream}, {indices}Tensor dt, {counts}SymInt action_horizon, bool[] needs, {scheme}str? backend) "
            f"-> ({gradients})",
            run=self._run_vjp,
            fake=self._fake_vjp,
            vmap=self._vmap_vjp,
            derivative=vjp_derivative(self),
            dt_place=self.vjp_dt_place,
            ensure_rules=self.ensure_rules,
        )

    @property
    def uniform_dt_only(self) -> bool:
        """Whether step lengths may not differ along the horizon."""
        return self.one_dt_for is not None

    def output_horizon(self, action_horizon: int, scheme: Sequence = ()) -> int:
        """Number of output rows for `action_horizon` actions with these scheme arguments."""
        if self._splines:
            return SplineForm(*scheme[:3]).rows(action_horizon)
        return action_horizon + self.extra_horizon

    def step(
        self,
        action: Tensor,
        start: Sequence[Tensor | None],
        dt: float | Tensor,
        start_index: Tensor | None,
        dt_per: str,
        backend: Backend | str | None,
        *scheme: object,
        goal: Sequence[Tensor | None] = (),
        goal_index: Tensor | None = None,
    ) -> Trajectory:
        """Check the arguments of a public step function and run the forward operator."""
        if backend is None and not self.goals:
            trajectory = fast_step(self, action, start, dt, start_index, dt_per, scheme)
            if trajectory is not None:
                return trajectory
        if is_sharded(action):
            ends = {"start": (start, start_index), "goal": (goal, goal_index)}
            rules().check_step(action, self.action_name, ends, dt)
        inputs = prepare_step(
            action,
            start,
            dt,
            start_index,
            dt_per,
            one_dt_for=self.one_dt_for,
            goal=goal,
            goal_index=goal_index,
            action_name=self.action_name,
        )
        goal_arguments = (*inputs.goal, inputs.goal_index) if self.goals else ()
        outputs = self.forward(
            inputs.action,
            *inputs.start,
            inputs.start_index,
            *goal_arguments,
            rules().step_lengths(inputs.dt, action) if is_sharded(action) else inputs.dt,
            *scheme,
            check_backend(backend),
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
        goal_rows: int | None = None,
        goal_index: Tensor | None = None,
    ) -> tuple[Tensor | None, ...]:
        """Check the arguments of `ControlMap.vjp` and run the vjp operator."""
        like = next((gradient for gradient in upstream if gradient is not None), None)
        if is_sharded(like):
            indices = {"start_index": start_index, "goal_index": goal_index}
            rules().check_vjp(upstream, like, indices, dt)
        inputs = prepare_vjp(
            upstream,
            dt,
            start_index,
            dt_per,
            start_rows=start_rows,
            action_horizon=action_horizon,
            output_horizon=self.output_horizon(action_horizon, scheme),
            one_dt_for=self.one_dt_for,
            goal_rows=goal_rows,
            goal_index=goal_index,
        )
        batch = some(inputs.upstream).shape[0]
        wanted = [*needs, *(False for _ in range(self.starts + self.goals + 1 - len(needs)))]
        return self.vjp(
            *inputs.upstream,
            inputs.start_index,
            *((inputs.goal_index,) if self.goals else ()),
            rules().step_lengths(inputs.dt, like) if is_sharded(like) else inputs.dt,
            own_rows(start_rows, start_index, batch),
            *((-1 if goal_rows is None else own_rows(goal_rows, inputs.goal_index, batch),) if self.goals else ()),
            action_horizon,
            wanted,
            *scheme,
            check_backend(backend),
        )

    def __reduce__(self) -> tuple[Callable[[str], StepOperator], tuple[str]]:
        """Pickle and copy by name: torch has one operator of each name."""
        return _registered, (self.name,)

    def split(self, arguments: Sequence) -> tuple[Tensor, list[End], Tensor, Sequence]:
        """Action, start and goal (if the map takes one), dt and the rest of the arguments of `forward`."""
        ends, place = [], 1
        for rows in self.ends:
            ends.append(End(arguments[place : place + rows], arguments[place + rows]))
            place += rows + 1
        return arguments[0], ends, arguments[place], arguments[place + 1 :]

    def split_vjp(
        self, arguments: Sequence
    ) -> tuple[Sequence[Tensor | None], Sequence[Tensor | None], Tensor, Sequence[int], int, Sequence[bool], Sequence]:
        """Upstream gradients, indices of start and goal, dt, their rows, action horizon, needs, the rest of `vjp`."""
        place, ends = self.vjp_dt_place, len(self.ends)
        after = place + 1 + ends
        counts = arguments[place + 1 : after]
        return (
            arguments[:4],
            arguments[4:place],
            arguments[place],
            counts,
            arguments[after],
            arguments[after + 1],
            arguments[after + 2 :],
        )

    def joined(
        self, tensors: Sequence[Tensor | None], indices: Sequence[Tensor | None]
    ) -> tuple[Tensor | None, list[End]]:
        """Action and ends from one flat sequence that lacks the indices of the ends."""
        ends, place = [], 1
        for rows, index in zip(self.ends, indices, strict=True):
            ends.append(End(tensors[place : place + rows], index))
            place += rows
        return tensors[0], ends

    def counts(self, rows: Sequence[int], indices: Sequence[Tensor | None], batch: int) -> dict[str, int]:
        """Rows of start and goal as keyword arguments of a launcher."""
        return dict(zip(("start_rows", "goal_rows"), counted(rows, indices, batch), strict=False))

    def ensure_rules(self) -> None:
        """Register the sharding rules, so that DTensors pass through the operators."""
        rules().ensure_rules(self)

    def flat(self, ends: Sequence[End]) -> list[Tensor | None]:
        """Start and goal as arguments of `forward`."""
        return [argument for end in ends for argument in (*end.rows, end.index)]

    def variants(self, action: Tensor, options: Sequence) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
        """Actions to run the forward map on, each with the outputs to use, for the linear map whose transpose is `vjp`.

        That is the forward map itself, except that for a truncated vjp the last action affects only the position.
        """
        if self.truncates and options[0]:
            yield action, (0,)
            yield torch.cat([action[:, :-1], torch.zeros_like(action[:, -1:])], 1), (1, 2, 3)
        else:
            yield action, (0, 1, 2, 3)

    def scheme(self, options: Sequence, *, vjp: bool = False) -> dict[str, object]:
        """Scheme arguments of a launcher, by keyword, from the last arguments of an operator."""
        if self._integrators is not None:
            return {"integrator": self._integrators(options[0])}
        if self.truncates and vjp:
            return {"truncate_terminal_gradient": options[0]}
        if self._splines:
            return {"form": SplineForm(*options[:3])}
        return {}

    def _run_forward(self, *arguments) -> tuple[Tensor, ...]:
        action, ends, dt, options = self.split(arguments)
        launch = launcher(self.name, "forward", options[-1], action.device.type)
        return tuple(launch(action, *self.flat(ends), dt, **self.scheme(options)))

    def _fake_forward(self, *arguments) -> tuple[Tensor, ...]:
        action, _, _, options = self.split(arguments)
        batch, horizon, dof = action.shape
        return tuple(action.new_empty(batch, self.output_horizon(horizon, options), dof) for _ in _OUTPUTS)

    def _vmap_forward(self, info, in_dims: Sequence[int | None], *arguments) -> tuple[tuple, tuple]:
        size = info.batch_size
        action, ends, dt, options = self.split(arguments)
        action_dim, end_dims, dt_dim, _ = self.split(in_dims)
        action = fold(action, action_dim, size)
        batch = action.shape[0] // size
        folded = []
        for end, dims in zip(ends, end_dims, strict=True):
            rows = [fold(row, dim, size) for row, dim in zip(end.rows, dims.rows, strict=True)]
            count = next((row.shape[0] // size for row in rows if row is not None), batch)
            folded.append(End(rows, fold_start_index(end.index, dims.index, size, batch, count, action.device)))
        outputs = self.forward(action, *self.flat(folded), fold_dt(dt, dt_dim, size, batch), *options)
        return unfold(outputs, size), (0,) * len(outputs)

    def _run_vjp(self, *arguments) -> tuple[Tensor | None, ...]:
        upstream, indices, dt, counts, action_horizon, needs, options = self.split_vjp(arguments)
        like = some(upstream)
        return launcher(self.name, "vjp", options[-1], like.device.type)(
            *upstream,
            *indices,
            dt,
            **self.counts(counts, indices, like.shape[0]),
            action_horizon=action_horizon,
            needs=tuple(needs),
            **self.scheme(options, vjp=True),
        )

    def _fake_vjp(self, *arguments) -> tuple[Tensor | None, ...]:
        upstream, indices, _, counts, action_horizon, needs, _ = self.split_vjp(arguments)
        like = some(upstream)
        batch, _, dof = like.shape
        shapes = [(batch, action_horizon, dof)]
        for rows, count in zip(self.ends, counted(counts, indices, batch), strict=True):
            shapes += [(count, dof)] * rows
        return tuple(like.new_empty(shape) if needed else None for shape, needed in zip(shapes, needs, strict=True))

    def _vmap_vjp(self, info, in_dims: Sequence[int | None], *arguments) -> tuple[tuple[Tensor | None, ...], tuple]:
        size = info.batch_size
        upstream, indices, dt, counts, *rest, options = self.split_vjp(arguments)
        upstream_dims, index_dims, dt_dim, *_ = self.split_vjp(in_dims)
        upstream = [fold(g, dim, size) for g, dim in zip(upstream, upstream_dims, strict=True)]
        like = some(upstream)
        batch = like.shape[0] // size
        indices = [
            None if count < 0 else fold_start_index(index, dim, size, batch, count, like.device)
            for index, dim, count in zip(indices, index_dims, counted(counts, indices, batch), strict=True)
        ]
        dt = fold_dt(dt, dt_dim, size, batch)
        counts = [count if count < 0 else size * count for count in counts]
        gradients = self.vjp(*upstream, *indices, dt, *counts, *rest, *options)
        return unfold(gradients, size), tuple(None if gradient is None else 0 for gradient in gradients)


_REGISTERED: dict[str, StepOperator] = {}


def _registered(name: str) -> StepOperator:
    return _REGISTERED[name]

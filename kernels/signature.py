"""What a control map takes and returns: the signature of its operators, and how flat arguments are split by it."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .splines.form import SplineForm
from .types import End, counted

_OUTPUTS = ("position", "velocity", "acceleration", "jerk")
_START = _OUTPUTS[:3]


class Signature:
    """The arguments of the operator pair of one control map.

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
        self.truncates = truncates
        self._integrators = integrators
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
        self.forward_schema = f"(Tensor action, {ends}Tensor dt, {scheme}str? backend) -> ({outputs})"
        self.vjp_schema = (
            f"({upstream}, {indices}Tensor dt, {counts}SymInt action_horizon, bool[] needs, {scheme}str? backend) "
            f"-> ({gradients})"
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


def first_given(upstream: Sequence[Tensor | None]) -> Tensor:
    """Return the first of the upstream gradients that is not None."""
    for gradient in upstream:
        if gradient is not None:
            return gradient
    raise ValueError("upstream: expected at least one tensor, got None for all four")

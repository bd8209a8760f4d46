"""The signature of a control map's operators: arguments and results."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .splines.form import SplineForm
from .types import Inputs, Trajectory

KINDS = Trajectory._fields
ROWS = tuple(f"{end}_{kind}" for end in ("start", "goal") for kind in KINDS)
"""Names of the start and goal rows, in the order of `Inputs.values`."""


class Signature:
    """The arguments of the operator pair of one control map.

    `forward` takes the parts of `Inputs`, `vjp` those of `VjpInputs`; after them come the scheme (if the map has one)
    and backend. The results of `vjp` are gradients of `Inputs.values`, None if `needs` says so. The public functions
    check shapes, the operators do not.

    Args:
        name: of the map; the operators are named after it.
        starts: number of start rows that the map takes: without or with the jerk.
        extra_horizon: output rows beyond the action horizon, if that number is the same for every horizon.
        integrators: enum of the integration schemes of the map, if it has several.
        truncates: whether the map takes `truncate_terminal_gradient`.
        splines: whether the scheme is that of a `SplineForm`, which then also determines the number of output rows;
            only these maps take goal rows.
        one_dt_for: what needs one step length for each trajectory, for error messages; None if step lengths may differ
            along the horizon.
        action_name: of the action in errors.

    """

    def __init__(
        self,
        name: str,
        starts: int = 3,
        *,
        extra_horizon: int = 0,
        integrators: type[enum.Enum] | None = None,
        truncates: bool = False,
        splines: bool = False,
        one_dt_for: str | None = None,
        action_name: str = "action",
    ) -> None:
        self.name = name
        self.starts = starts
        self.goals = 4 if splines else 0
        self.extra_horizon = extra_horizon
        self.one_dt_for = one_dt_for
        self.action_name = action_name
        self.truncates = truncates
        self._integrators = integrators
        scheme = (
            "str integrator, " * bool(integrators)
            + "bool truncate_terminal_gradient, " * truncates
            + "int degree, int steps, str layout, " * splines
        )
        rows = ", ".join(f"Tensor? {row}" for row in ROWS)
        upstream = ", ".join(f"Tensor? grad_{kind}" for kind in KINDS)
        indices = "Tensor? start_index, Tensor? goal_index, Tensor dt"
        sizes = "SymInt start_rows, SymInt goal_rows, SymInt action_horizon, bool[] needs"
        outputs = ", ".join(f"Tensor {kind}" for kind in KINDS)
        gradients = ", ".join(f"Tensor grad_{name}" for name in ("action", *ROWS))
        self.forward_schema = f"(Tensor action, {rows}, {indices}, {scheme}str? backend) -> ({outputs})"
        self.vjp_schema = f"({upstream}, {indices}, {sizes}, {scheme}str? backend) -> ({gradients})"

    @property
    def uniform_dt_only(self) -> bool:
        """Return whether step lengths may not differ along the horizon."""
        return self.one_dt_for is not None

    def output_horizon(self, action_horizon: int, scheme: Sequence = ()) -> int:
        """Number of output rows for `action_horizon` actions with these scheme arguments."""
        if self.goals:
            return SplineForm(*scheme[:3]).rows(action_horizon)
        return action_horizon + self.extra_horizon

    def variants(self, inputs: Inputs, options: Sequence) -> Iterator[tuple[Inputs, tuple[int, ...]]]:
        """Inputs of the forward map, each with the outputs to use, for the linear map whose transpose is `vjp`.

        That is the forward map itself, except that for a truncated vjp the last action affects only the position.
        """
        if self.truncates and options[0]:
            action = inputs.action
            yield inputs, (0,)
            cut = torch.cat([action[:, :-1], torch.zeros_like(action[:, -1:])], 1)
            yield inputs._replace(values=(cut, *inputs.values[1:])), (1, 2, 3)
        else:
            yield inputs, (0, 1, 2, 3)

    def scheme(self, options: Sequence, *, vjp: bool = False) -> dict[str, object]:
        """Scheme arguments of a launcher, by keyword, from the last arguments of an operator."""
        if self._integrators is not None:
            return {"integrator": self._integrators(options[0])}
        if self.truncates and vjp:
            return {"truncate_terminal_gradient": options[0]}
        if self.goals:
            return {"form": SplineForm(*options[:3])}
        return {}


def four(rows: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Return rows of position, velocity, acceleration and jerk; None for those that a map does not take."""
    return (*rows, *[None] * (4 - len(rows)))


def all_values(values: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Return `Inputs.values`, nine, from the rows that a map takes."""
    return (*values, *[None] * (1 + len(ROWS) - len(values)))

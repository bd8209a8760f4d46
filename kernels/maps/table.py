"""The table of control maps: one row for each way of turning actions into a trajectory."""

from __future__ import annotations

import copyreg
import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from torch import Tensor
from torch.compiler import is_compiling

from ..arguments import row_indices
from ..backends import Backend, check_backend
from ..call import fast_map
from ..operator import StepOperator
from ..splines.form import SplineForm
from ..types import AccelerationIntegrator, BsplineLayout, ControlSpace, FiniteDifference, Trajectory
from ..validation import prepare_vjp
from .bspline import BSPLINE, bspline_step
from .clique import CLIQUE, CLIQUE_CENTRAL, CLIQUE_CENTRAL_GOAL, CLIQUE_GOAL, clique_central_step, clique_step
from .goal import goal_vjp
from .held import ACCELERATION, JERK, VELOCITY, acceleration_step, jerk_step, velocity_step

Rows = TypeVar("Rows", Tensor, np.ndarray)


@dataclass(frozen=True)
class ControlMap:
    """One control map, with what a caller needs to know about it."""

    name: str
    control_space: ControlSpace
    step: Callable[..., Trajectory]
    """The public function, with its scheme chosen."""
    operator: StepOperator
    scheme: tuple[object, ...] = ()
    """Scheme arguments of the operator."""
    schemes: Mapping[str, str | int] = field(default_factory=dict, hash=False)
    """Scheme among maps of the same space: arguments of `control_map`, fields of `IntegratorConfig`."""
    start_row: int = 0
    """Output row that is the start state."""
    goal: tuple[str, ...] = ()
    """The parts of a goal state that the map takes; empty if it takes no goal."""
    goal_place: int = 0
    """The action that a goal position replaces, counted from the end; 0 if the operator itself takes the goal."""

    @property
    def action_name(self) -> str:
        """Name of the actions in the public function."""
        return self.operator.action_name

    def output_horizon(self, action_horizon: int) -> int:
        """Number of output rows for `action_horizon` actions."""
        return self.operator.output_horizon(action_horizon, self.scheme)

    def duration(self, dt: Rows, action_horizon: int) -> Rows:
        """Seconds from the start's row to the last one, `[1 or B]`, for step lengths `[1 or B, 1 or Ha]`."""
        if dt.shape[1] == 1:
            return dt[:, 0] * (self.output_horizon(action_horizon) - 1 - self.start_row)
        return dt[:, 1:].sum(1)

    @property
    def uniform_dt_only(self) -> bool:
        """Return whether step lengths may not differ along the horizon."""
        return self.operator.uniform_dt_only

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy as what `control_map` returns for these schemes; a map made by hand by its fields."""
        if _map_of(self.control_space, self.schemes) is self:
            return _map_of, (self.control_space, self.schemes)
        return copyreg.__newobj__, (type(self),), self.__dict__

    def vjp(
        self,
        upstream: Sequence[Tensor | None],
        *,
        dt: float | Tensor,
        action_horizon: int,
        start_rows: int,
        start_index: Tensor | None = None,
        dt_per: str = "step",
        goal_rows: int | None = None,
        goal_index: Tensor | None = None,
        needs: Sequence[bool] = (True,) * 7,
        backend: Backend | str | None = None,
    ) -> tuple[Tensor | None, ...]:
        """Vector-Jacobian product of `step` for actions, start and goal, without a forward pass: the map is linear.

        Differentiable in the upstream gradients and in dt, to any order.

        - `upstream`: gradients of position, velocity, acceleration and jerk, each `[B, H, D]` or None for zero, but not
          all of them; H is `output_horizon(action_horizon)`.
        - `start_rows`: S, rows of the start state: 1, B, or the size of the pool for `start_index`.
        - `goal_rows`: rows of the goal state, like `start_rows`; None: there is no goal.
        - `needs`: which gradients are wanted: of the action, start position, start velocity, start acceleration, and of
          the parts of a goal that the map takes: position, velocity, acceleration.

        All other arguments and the errors are those of `step`.

        Returns:
            Gradients of the action, `[B, Ha, D]`, of each start, `[S, D]`, and with `goal_rows` of the parts of a goal
            that the map takes, `[goal_rows, D]`; None if not wanted.

        """
        kinds = len(self.goal)
        goal_index = row_indices("goal_index", goal_index)
        if goal_rows is not None and not kinds:
            raise ValueError(f"goal_rows: expected None, because {self.name} takes no goal, got {goal_rows}")
        if goal_index is not None and goal_rows is None:
            raise ValueError("goal_rows: expected a number of rows with goal_index, got None")
        needs = [*needs, *[False] * (4 + kinds - len(needs))]
        goals = needs[4 : 4 + kinds]

        def vjp(action: bool, goals: Sequence[bool], *goal: int | Tensor | None) -> tuple[Tensor | None, ...]:
            wanted = [bool(one) for one in (action, *needs[1:4], False, *goals, *[False] * (4 - len(goals)))]
            ends = {"start": (start_rows, start_index), "goal": goal}
            horizons = action_horizon, self.output_horizon(action_horizon)
            fast = fast_map(self.operator, *self.scheme) if backend is None and not is_compiling() else None
            if fast is not None:
                found = fast.vjp(upstream, ends["start"], ends["goal"], dt, dt_per, horizons, wanted)
                if found is not None:
                    return *found[:4], *found[5 : 5 + len(goals)]
            inputs = prepare_vjp(self.operator, upstream, ends, dt, dt_per, horizons, wanted)
            found = self.operator.vjp(*inputs.arguments, *self.scheme, check_backend(backend))
            return *found[:4], *found[5 : 5 + len(goals)]

        if goal_rows is None:
            return vjp(needs[0], (), None, None)
        if self.goal_place:
            action, *starts = vjp(needs[0] or any(goals), (), None, None)
            goal = None
            if action is not None:
                action, goal = goal_vjp(action, goal_rows, goal_index, self.goal_place)
            return (action if needs[0] else None, *starts, goal if any(goals) else None)
        return vjp(needs[0], goals, goal_rows, goal_index)


def control_map(
    control_space: ControlSpace | ControlMap | str | int,
    finite_difference: FiniteDifference | str | None = None,
    acceleration_integrator: AccelerationIntegrator | str | None = None,
    bspline_degree: int | None = None,
    bspline_steps: int | None = None,
    bspline_layout: BsplineLayout | str | None = None,
) -> ControlMap:
    """Return the map of a control space under the given schemes.

    Args:
        control_space: what an action is; or a name in `MAPS`, or a map, whose own schemes are then the defaults.
        finite_difference: of positions; None means "backward".
        acceleration_integrator: None means "zoh".
        bspline_degree: None means 3.
        bspline_steps: None means 4.
        bspline_layout: None means "tight".

    Raises:
        ValueError: an unknown control space, name or scheme, or a scheme that the named map does not have.

    """
    given = finite_difference, acceleration_integrator, bspline_degree, bspline_steps, bspline_layout
    chosen: dict[str, str | int] = {}
    for (name, usual), value in zip(_SCHEMES.items(), given, strict=True):
        if value is not None:
            chosen[name] = type(usual)(value).value if isinstance(usual, enum.Enum) else value
    named = _named(control_space)
    if named is None:
        return _map_of(ControlSpace(control_space), chosen)
    for name, value in chosen.items():  # the schemes that a name stands for
        if isinstance(value, str) and named.schemes.get(name, value) != value:
            raise ValueError(f"{name}: expected {named.schemes[name]!r}, as in {named.name}, got {value!r}")
    return _map_of(named.control_space, {**named.schemes, **chosen}) if chosen else named


def _named(control_space: object) -> ControlMap | None:
    """The map that is given or named; None for a control space."""
    if isinstance(control_space, ControlMap):
        return control_space
    if isinstance(control_space, str):
        if control_space in MAPS:
            return MAPS[control_space]
    elif control_space in list(ControlSpace):
        return None
    raise ValueError(
        f"control_map: expected a ControlMap or one of {', '.join(MAPS)}, or a ControlSpace, got {control_space!r}"
    )


_SCHEMES = {
    "finite_difference": FiniteDifference.BACKWARD,
    "acceleration_integrator": AccelerationIntegrator.ZOH,
    "bspline_degree": 3,
    "bspline_steps": 4,
    "bspline_layout": BsplineLayout.TIGHT,
}
"""The usual schemes, in the order of the arguments of `control_map`."""


def _map_of(space: ControlSpace, chosen: Mapping[str, str | int]) -> ControlMap:
    schemes = {**_SCHEMES, **chosen}
    if space is ControlSpace.BSPLINE:
        return _spline_map(SplineForm(schemes["bspline_degree"], schemes["bspline_steps"], schemes["bspline_layout"]))
    return next(row for row in MAPS.values() if row.control_space is space and row.schemes.items() <= schemes.items())


@functools.cache
def _spline_map(form: SplineForm) -> ControlMap:
    """Return the map of splines of one form, named after its differences from the default form."""
    usual = SplineForm(layout=form.layout)
    name = f"bspline_{form.layout.value}" + ("" if form == usual else f"_degree{form.degree}_steps{form.steps}")
    step = functools.partial(bspline_step, degree=form.degree, steps=form.steps, layout=form.layout)
    return ControlMap(
        name,
        ControlSpace.BSPLINE,
        step,
        BSPLINE,
        form.scheme,
        {"bspline_degree": form.degree, "bspline_steps": form.steps, "bspline_layout": form.layout.value},
        goal=("position", "velocity", "acceleration"),
    )


MAPS: dict[str, ControlMap] = {
    entry.name: entry
    for entry in (
        ControlMap(
            "clique",
            ControlSpace.POSITION,
            clique_step,
            CLIQUE,
            schemes={"finite_difference": FiniteDifference.BACKWARD.value},
            goal=("position",),
            goal_place=CLIQUE_GOAL,
        ),
        ControlMap(
            "clique_central",
            ControlSpace.POSITION,
            clique_central_step,
            CLIQUE_CENTRAL,
            (False,),
            {"finite_difference": FiniteDifference.CENTRAL.value},
            start_row=1,
            goal=("position",),
            goal_place=CLIQUE_CENTRAL_GOAL,
        ),
        ControlMap("velocity", ControlSpace.VELOCITY, velocity_step, VELOCITY),
        *(
            ControlMap(
                f"acceleration_{scheme.value}",
                ControlSpace.ACCELERATION,
                functools.partial(acceleration_step, integrator=scheme),
                ACCELERATION,
                (scheme.value,),
                {"acceleration_integrator": scheme.value},
            )
            for scheme in AccelerationIntegrator
        ),
        ControlMap("jerk", ControlSpace.JERK, jerk_step, JERK),
        *(_spline_map(SplineForm(layout=layout)) for layout in BsplineLayout),
    )
}

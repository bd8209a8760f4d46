"""The table of control maps: one row for each way of turning actions into a trajectory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from .acceleration import acceleration_step
from .clique import clique_central_step, clique_step
from .jerk import jerk_step
from .reference import CENTRAL_EXTRA_HORIZON
from .types import AccelerationIntegrator, ControlSpace, FiniteDifference, Trajectory
from .velocity import velocity_step


@dataclass(frozen=True)
class ControlMap:
    """One control map and what a caller must know of it."""

    name: str
    control_space: ControlSpace
    step: Callable[..., Trajectory]
    extra_horizon: int = 0
    """Output rows beyond the action horizon."""
    uniform_dt_only: bool = False
    start_row: int = 0
    """Output row that is the start state."""


def control_map(
    control_space: ControlSpace,
    finite_difference: FiniteDifference | str = FiniteDifference.BACKWARD,
    acceleration_integrator: AccelerationIntegrator | str = AccelerationIntegrator.ZOH,
) -> ControlMap:
    """Return the map of a control space under the given schemes.

    Raises:
        ValueError: an unknown control space or scheme.

    """
    space = ControlSpace(control_space)
    if space is ControlSpace.POSITION:
        return MAPS[f"clique_{FiniteDifference(finite_difference).value}"]
    if space is ControlSpace.ACCELERATION:
        return MAPS[f"acceleration_{AccelerationIntegrator(acceleration_integrator).value}"]
    return MAPS[space.name.lower()]


MAPS: dict[str, ControlMap] = {
    entry.name: entry
    for entry in (
        ControlMap("clique_backward", ControlSpace.POSITION, clique_step),
        ControlMap(
            "clique_central",
            ControlSpace.POSITION,
            clique_central_step,
            extra_horizon=CENTRAL_EXTRA_HORIZON,
            uniform_dt_only=True,
            start_row=1,
        ),
        ControlMap("velocity", ControlSpace.VELOCITY, velocity_step),
        *(
            ControlMap(
                f"acceleration_{scheme.value}",
                ControlSpace.ACCELERATION,
                functools.partial(acceleration_step, integrator=scheme),
            )
            for scheme in AccelerationIntegrator
        ),
        ControlMap("jerk", ControlSpace.JERK, jerk_step),
    )
}

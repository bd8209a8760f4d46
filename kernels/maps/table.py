"""The table of control maps: one row for each way of turning actions into a trajectory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from ..backends import Backend
from ..step_operator import StepOperator
from ..types import AccelerationIntegrator, ControlSpace, FiniteDifference, Trajectory
from .acceleration import ACCELERATION, acceleration_step
from .clique import CLIQUE, clique_step
from .clique_central import CLIQUE_CENTRAL, clique_central_step
from .jerk import JERK, jerk_step
from .velocity import VELOCITY, velocity_step


@dataclass(frozen=True)
class ControlMap:
    """One control map and what a caller must know of it."""

    name: str
    control_space: ControlSpace
    step: Callable[..., Trajectory]
    """The public function, with its scheme chosen."""
    operator: StepOperator
    scheme: tuple[object, ...] = ()
    """Scheme arguments of the operator."""
    schemes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What sets it apart from other maps of its space: arguments of `control_map` and fields of `IntegratorConfig`."""
    start_row: int = 0
    """Output row that is the start state."""

    @property
    def extra_horizon(self) -> int:
        """Output rows beyond the action horizon."""
        return self.operator.extra_horizon

    @property
    def uniform_dt_only(self) -> bool:
        """Whether step lengths may not differ along the horizon."""
        return self.operator.uniform_dt_only

    def vjp(
        self,
        upstream: Sequence[Tensor | None],
        *,
        dt: float | Tensor,
        action_horizon: int,
        start_rows: int,
        start_index: Tensor | None = None,
        dt_per: str = "step",
        needs: Sequence[bool] = (True, True, True, True),
        backend: Backend | str | None = None,
    ) -> tuple[Tensor | None, ...]:
        """Vector-Jacobian product of `step` by actions and start state, without a forward pass: the map is linear.

        Differentiable in the upstream gradients and in dt, to any order.

        Args:
            upstream: gradients of position, velocity, acceleration and jerk, each `[B, H, D]` or None for zero; at
                least one is a tensor.
            dt: step lengths, s, in a form that `step` takes.
            action_horizon: Ha; the upstream gradients have `Ha + extra_horizon` rows.
            start_rows: S, rows of the start state: 1, B, or those of the pool for `start_index`.
            start_index: `[B]` int32 or int64, row of the start pool for each trajectory.
            dt_per: as for `step`.
            needs: which gradients are wanted: of the action, start position, start velocity, start acceleration.
            backend: what computes; None for the device's default (see `backend_info`).

        Returns:
            Gradients of the action, `[B, Ha, D]`, and of each start, `[S, D]`, None if not wanted.

        Raises:
            TypeError: an argument of a wrong type or dtype, named.
            ValueError: an argument of a wrong shape, device or value, named.
            BackendUnavailable: the backend cannot run on this device.

        """
        return self.operator.step_vjp(
            upstream,
            dt,
            start_index,
            dt_per,
            backend,
            *self.scheme,
            action_horizon=action_horizon,
            start_rows=start_rows,
            needs=needs,
        )[:4]


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
    chosen = {
        "finite_difference": FiniteDifference(finite_difference).value,
        "acceleration_integrator": AccelerationIntegrator(acceleration_integrator).value,
    }
    return next(row for row in MAPS.values() if row.control_space is space and row.schemes.items() <= chosen.items())


MAPS: dict[str, ControlMap] = {
    entry.name: entry
    for entry in (
        ControlMap(
            "clique",
            ControlSpace.POSITION,
            clique_step,
            CLIQUE,
            schemes={"finite_difference": FiniteDifference.BACKWARD.value},
        ),
        ControlMap(
            "clique_central",
            ControlSpace.POSITION,
            clique_central_step,
            CLIQUE_CENTRAL,
            (False,),
            {"finite_difference": FiniteDifference.CENTRAL.value},
            start_row=1,
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
    )
}

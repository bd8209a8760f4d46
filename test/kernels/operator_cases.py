"""Shared by the tests of the public functions and their operators: maps, backends, calls of any form, a call log."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from traj_integrator_ros.kernels import MAPS, Backend, ControlMap, Trajectory, backend_info, control_map

MAP = pytest.mark.parametrize("kernel", MAPS.values(), ids=MAPS)
# One map of each operator, for calls that `cases` draws: of any scheme.
OPERATORS = {kernel.operator.name: kernel for kernel in MAPS.values()}
OPERATOR = pytest.mark.parametrize("kernel", OPERATORS.values(), ids=OPERATORS)
# The operators know the maps by their signature alone, so one map of each signature is enough in most tests.
SIGNATURES = ("acceleration_zoh", "clique_central", "bspline_tight")
SIGNATURE = pytest.mark.parametrize("kernel", [MAPS[name] for name in SIGNATURES], ids=SIGNATURES)

# Backends by device, and every other one that can run here: the reference where the C++ kernels are the default,
# Triton's interpreter where TRITON_INTERPRET=1 is set.
_CPU = backend_info()[0]
CPU_BACKENDS = (None, *(other for other in Backend if other is not _CPU.backend and other not in _CPU.unavailable))
BACKEND = pytest.mark.parametrize(
    "backend", CPU_BACKENDS, ids=["by device" if backend is None else backend.value for backend in CPU_BACKENDS]
)

STATE = ("position", "velocity", "acceleration", "jerk")
# The argument dt, from step lengths `[B, H]`.
DT: dict[str, Callable[[Tensor], Tensor | float]] = {
    "number": lambda dt: float(dt[0, 0]),
    "scalar": lambda dt: dt[0, 0],
    "[1]": lambda dt: dt[0, :1],
    "[B]": lambda dt: dt[:, 0],
    "[B, 1]": lambda dt: dt[:, :1],
    "[H]": lambda dt: dt[0],
    "[1, H]": lambda dt: dt[:1],
    "[B, H]": lambda dt: dt,
}
UNIFORM = tuple(DT)[:5]
POOL = 3
LATER = ("start_jerk", *(f"goal_{kind}" for kind in STATE[1:]))


@dataclass(frozen=True)
class Case:
    """One call of a public function, in float64; the numbers are drawn from the seed."""

    kernel: ControlMap
    batch: int = 2
    horizon: int = 4
    dof: int = 2
    dt: str = "[B, H]"
    start: str = "own"
    """One row for all ("one"), one for each trajectory ("own"), or a "pool"."""
    goal: str = ""
    """The same for the goal; "": there is none."""
    absent: tuple[str, ...] = LATER
    single: tuple[str, ...] = ()
    """Rows for all trajectories beside a row for each."""
    seed: int = 0

    @functools.cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Tensors to differentiate by: action, rows of start and goal, and dt unless that is a number."""
        random = functools.partial(numbers, generator=torch.Generator().manual_seed(self.seed))
        operator = self.kernel.operator
        named = {"action": random(self.batch, self.horizon, self.dof)}
        for end, form, kinds in (
            ("start", self.start, operator.starts),
            ("goal", self.goal, operator.goals or len(self.kernel.goal)),
        ):
            for kind in STATE[:kinds] if form else ():
                if f"{end}_{kind}" not in self.absent:
                    alone = form == "own" and f"{end}_{kind}" in self.single
                    named[f"{end}_{kind}"] = random(1 if alone else self._rows(form), self.dof)
        given = DT[self.dt](self.lengths)
        return {**named, "dt": given} if isinstance(given, Tensor) else named

    @functools.cached_property
    def lengths(self) -> Tensor:
        """Step lengths, `[B, H]`, as the form of dt says; at least one row if all trajectories share them."""
        generator = torch.Generator().manual_seed(self.seed + 1)
        rows = max(self.batch, 1)
        dt = 0.5 + torch.rand(rows, self.horizon, generator=generator, dtype=torch.float64)
        dt = dt[:, :1].expand(rows, self.horizon) if self.dt in UNIFORM else dt
        return dt[: self.batch] if self.dt.startswith("[B") else dt[:1].expand(rows, self.horizon)

    @functools.cached_property
    def fixed(self) -> dict[str, object]:
        """The other arguments."""
        fixed: dict[str, object] = {"dt_per": "trajectory"} if self.dt == "[B]" else {}
        generator = torch.Generator().manual_seed(self.seed + 2)
        for end, form, dtype in (("start", self.start, torch.int32), ("goal", self.goal, torch.int64)):
            if form == "pool":
                fixed[f"{end}_index"] = torch.randint(POOL, (self.batch,), generator=generator).to(dtype)
        return fixed if "dt" in self.tensors else {**fixed, "dt": DT[self.dt](self.lengths)}

    @property
    def values(self) -> list[Tensor]:
        """Copies of the tensors."""
        return [tensor.clone() for tensor in self.tensors.values()]

    def leaves(self) -> list[Tensor]:
        """Copies that require grad."""
        return [tensor.clone().requires_grad_() for tensor in self.tensors.values()]

    def step(self, *values: Tensor, **options: object) -> Trajectory:
        """The map of these tensors, or else of its own."""
        return self.function(**options)(*(values or self.tensors.values()))

    def function(self, **options: object) -> Callable[..., Trajectory]:
        """The map of the tensors as a function that torch can trace."""
        kernel, (_, *names), options = self.kernel, self.tensors, {**self.fixed, **options}
        return lambda action, *others: kernel.step(action, **dict(zip(names, others, strict=True)), **options)

    def of_trajectory(self, b: int) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray] | None, np.ndarray]:
        """Action, four rows of start and of goal (None if there is none), and step lengths of one trajectory."""

        def place(end: str, form: str) -> int:
            return int(self.fixed[f"{end}_index"][b]) if form == "pool" else b if form == "own" else 0

        def rows(end: str, form: str) -> list[np.ndarray]:
            given = (self.tensors.get(f"{end}_{kind}", torch.zeros(1, self.dof)) for kind in STATE)
            return [row[place(end, form) if len(row) > 1 else 0].numpy() for row in given]

        goal = rows("goal", self.goal) if self.goal else None
        return self.tensors["action"][b].numpy(), rows("start", self.start), goal, self.lengths[b].numpy()

    def _rows(self, form: str) -> int:
        return {"one": 1, "own": self.batch, "pool": POOL}[form]


def numbers(*shape: int, generator: torch.Generator) -> Tensor:
    """Numbers between -2 and 2, float64, the same on every machine: those of `randn` are not."""
    return torch.randint(-(2**52), 2**52, shape, generator=generator).double() / 2**51


def cases(kernel: ControlMap, **sizes: st.SearchStrategy) -> st.SearchStrategy[Case]:
    """Calls of a map's operator in any form and with any scheme; splines have any degree and layout."""
    kernels = st.sampled_from([other for other in MAPS.values() if other.operator is kernel.operator])
    if kernel.operator.goals:
        form = kernels, st.integers(3, 5), st.integers(1, 3)
        kernels = st.builds(lambda layout, k, s: control_map(layout, None, None, k, s), *form)
    starts = st.sampled_from(("one", "own", "pool"))
    ends = [f"{end}_{kind}" for end in ("start", "goal") for kind in STATE]
    return st.builds(
        _possible,
        kernels,
        **sizes,
        dt=st.sampled_from(UNIFORM if kernel.uniform_dt_only else tuple(DT)),
        start=starts,
        goal=st.one_of(st.just(""), starts) if kernel.goal else st.just(""),
        absent=st.one_of(st.just(()), st.sets(st.sampled_from([*ends[1:4], *ends[5:]])).map(tuple)),
        single=st.one_of(st.just(()), st.sets(st.sampled_from(ends)).map(tuple)),
        seed=st.integers(0, 2**20),
    )


def _possible(kernel: ControlMap, *, horizon: int, goal: str, **fields: object) -> Case:
    goal = goal if horizon >= -kernel.goal_place else ""
    return Case(kernel, horizon=horizon, goal=goal, **fields)


def signature_case(kernel: ControlMap, **fields: object) -> Case:
    """A call with every argument of its signature; a spline's has a goal position."""
    dt = "[B, 1]" if kernel.uniform_dt_only else "[B, H]"
    return Case(kernel, dt=dt, goal="own" if kernel.operator.goals else "", **fields)


def weights_like(outputs) -> list[Tensor]:
    """Tensors of arbitrary values, without random numbers, for use under any transform."""
    return [
        (torch.arange(output.numel(), dtype=output.dtype) * 0.7 + k).sin().view(output.shape)
        for k, output in enumerate(outputs)
    ]


def cost(outputs) -> Tensor:
    """A scalar that is quadratic in every output, each element weighted differently."""
    return sum((weight * output * output).sum() for weight, output in zip(weights_like(outputs), outputs, strict=True))


def assert_all_close(got, expected, tolerance: float = 1e-9) -> None:
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)

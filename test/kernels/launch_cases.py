"""The calls of operator_cases.py in the form of a backend's launches, with their results in float64."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st
from operator_cases import Case, cases, numbers
from torch import Tensor

from traj_integrator_ros.kernels import MAPS, ControlMap
from traj_integrator_ros.kernels.backends import launcher
from traj_integrator_ros.kernels.signature import ROWS
from traj_integrator_ros.kernels.types import Inputs, VjpInputs
from traj_integrator_ros.kernels.validation import prepare_step

DTYPES = (torch.float64, torch.float32)
# Relative to the norm of each result: rounding of the arithmetic, float32 for half types, too, and of the result.
LIMIT = {torch.float64: 1e-11, torch.float32: 5e-7, torch.bfloat16: 2**-7, torch.float16: 2**-10}
SUM_LIMIT = 2e-6
INNER = 4
"""Rows at each end some of whose differences have fewer terms."""


@dataclass
class Launch:
    """A call; goals are left out where the map's operator takes none."""

    case: Case
    dtype: torch.dtype = torch.float64
    dt_dtype: torch.dtype = torch.float64
    truncated: bool = False
    absent_upstream: Collection[int] = ()
    unneeded: Collection[int] = ()
    strided: bool = False
    device: str = "cpu"
    inputs: Inputs = field(init=False)
    upstream: list[Tensor | None] = field(init=False)

    def __post_init__(self) -> None:
        self.kernel, self.operator = self.case.kernel, self.case.kernel.operator
        goals = self.operator.goals if self.case.goal else 0
        names = ["action", *ROWS[:4], *ROWS[4 : 4 + goals]]
        values = [self._given(self.case.tensors.get(name)) for name in names] + [None] * (4 - goals)
        fixed = self.case.fixed
        indices = [fixed.get(f"{end}_index") if count else None for end, count in (("start", 4), ("goal", goals))]
        indices = [None if index is None else index.to(self.device) for index in indices]
        dt = torch.as_tensor(self.case.tensors.get("dt", fixed.get("dt")))
        dt = dt.to(self.device, self.dt_dtype)
        self.inputs = prepare_step(self.operator, Inputs(values, indices, dt), fixed.get("dt_per", "step"))
        shape = self.case.batch, self.kernel.output_horizon(self.case.horizon), self.case.dof
        generator = torch.Generator().manual_seed(self.case.seed + 3)
        upstream = [numbers(*shape, generator=generator) for _ in range(4)]
        self.upstream = [None if k in self.absent_upstream else self._given(one) for k, one in enumerate(upstream)]
        self.takes = [True, *(k < count for count in (self.operator.starts, goals) for k in range(4))]
        self.needs = [one and k not in self.unneeded for k, one in enumerate(self.takes)]

    def forward(self, backend: str, **options: object) -> tuple[Tensor, ...]:
        """The four outputs."""
        scheme = self.operator.scheme(self.kernel.scheme)
        return self._launcher("forward", backend)(self.inputs, **scheme, **options)

    def vjp(self, backend: str, **options: object) -> tuple[Tensor | None, ...]:
        """The gradients of the action, and of the rows of start and goal."""
        counts = [end.count for end in self.inputs.ends]
        inputs = VjpInputs(self.upstream, self.inputs.indices, self.inputs.dt, counts, self.case.horizon, self.needs)
        scheme = self.operator.scheme([self.truncated] if self.operator.truncates else self.kernel.scheme, vjp=True)
        return self._launcher("vjp", backend)(inputs, **scheme, **options)

    def _launcher(self, direction: str, backend: str) -> Callable[..., tuple]:
        """What Triton launches is executed on the CPU, too (`ptx_launch`)."""
        return launcher(self.operator.name, direction, backend, "cuda" if backend == "triton" else self.device)

    def both(self, backend: str) -> list[Tensor | None]:
        """Outputs and gradients."""
        return [*self.forward(backend), *self.vjp(backend)]

    def dt_gradient(self, backend: object) -> Tensor | None:
        """The gradient of dt, by a backend's function for it."""
        scheme = self.operator.scheme(self.kernel.scheme)
        return backend.dt_gradient(self.operator.name, self.inputs, self.upstream, **scheme)

    def expected(self) -> tuple[list[Tensor | None], Tensor]:
        """Results of the reference and autograd in float64: those of `both`, and the gradient of dt."""
        outputs, gradients, of_dt = self._by_reference(**self.operator.scheme(self.kernel.scheme))
        if self.truncated and self.operator.truncates:
            _, gradients, _ = self._by_reference(truncate_terminal_gradient=True)
        return [*outputs, *(one if need else None for one, need in zip(gradients, self.needs, strict=True))], of_dt

    def _by_reference(self, **scheme: object) -> tuple[list[Tensor], list[Tensor | None], Tensor]:
        """Outputs and gradients; rows that are absent are zeros."""
        counts = [1, *(end.count for end in self.inputs.ends for _ in range(4))]
        values = [
            torch.zeros(count, self.case.dof, dtype=torch.float64) if one is None and takes else one
            for one, takes, count in zip(self.inputs.values, self.takes, counts, strict=True)
        ]
        values = [one if one is None else one.detach().cpu().double().requires_grad_() for one in values]
        indices = [None if index is None else index.cpu() for index in self.inputs.indices]
        dt = self.inputs.dt.detach().cpu().double().requires_grad_()
        launch = launcher(self.operator.name, "forward", "reference", "cpu")
        outputs = launch(Inputs(values, indices, dt), **scheme)
        pairs = zip(outputs, self.upstream, strict=True)
        upstream = [torch.zeros_like(output) if one is None else one.cpu().double() for output, one in pairs]
        leaves = [dt, *(one for one in values if one is not None)]
        of_dt, *found = torch.autograd.grad(outputs, leaves, upstream, allow_unused=True, materialize_grads=True)
        found = iter(found)
        return [output.detach() for output in outputs], [next(found) if one else None for one in self.takes], of_dt

    def _given(self, tensor: Tensor | None) -> Tensor | None:
        """Tensors in the dtype and on the device; with `strided`, every second number of a larger tensor."""
        if tensor is None:
            return None
        tensor = tensor.to(self.device, self.dtype)
        return torch.stack([tensor, tensor + 1], -1)[..., 0] if self.strided else tensor


def launches(
    kernel: ControlMap, dtypes: Sequence[torch.dtype] = DTYPES, **sizes: st.SearchStrategy
) -> st.SearchStrategy[Launch]:
    """Launches of any kind for a map's operator."""
    return st.builds(
        Launch,
        cases(kernel, **sizes),
        st.sampled_from(dtypes),
        st.sampled_from(DTYPES),
        st.booleans(),
        st.sets(st.integers(0, 3), max_size=3),
        st.sampled_from(((), (0,), (2,), (1, 3), (2, 7), (1, 2, 3, 4))),
        st.booleans(),
    )


def assert_close(got: Tensor | None, want: Tensor | None, limit: float, name: object = "") -> None:
    """Assert the relative error in the norm over the whole tensor; None must match None."""
    assert (got is None) == (want is None), name
    if want is not None:
        assert got.shape == want.shape and got.is_contiguous(), name
        assert (got.cpu().double() - want).norm() <= limit * want.norm() + 1e-300, name


def assert_matches(launch: Launch) -> None:
    """Forward and transpose agree with the reference and its autograd."""
    limit, forms = LIMIT[launch.dtype], {launch.case.start, launch.case.goal}
    # Gradients of rows that trajectories share are rounded before they are added up, where they may cancel.
    of_rows = SUM_LIMIT if launch.dtype == torch.float32 and forms & {"one", "pool"} else limit
    for place, (got, want) in enumerate(zip(launch.both("triton"), launch.expected()[0], strict=True)):
        assert got is None or got.dtype == launch.dtype
        assert_close(got, want, limit if place < 5 else of_rows, place)


def assert_keeps_digits(
    name: str, horizon: int, dt: float, goal: str, device: str = "cpu", backend: str = "triton", limit: float = 5e-7
) -> None:
    """Largest error over the largest value, where errors of many rows add up or values of neighbouring rows cancel."""
    case = Case(MAPS[name], 1, horizon, 4, dt="scalar", goal=goal)
    launch = Launch(case, torch.float32, device=device)
    times = 1.3 * dt * torch.arange(launch.upstream[0].shape[1] + 1, dtype=torch.float64)[:, None] + torch.arange(4)
    waves = [torch.sin(times + kind).float().to(device)[None] for kind in range(4)]
    action = waves[3] if name == "jerk" else 2 + waves[0]
    start = 2 + waves[0], 1.3 * torch.cos(times).float().to(device)[None], -1.69 * waves[0]
    values = (action[:, 1 : horizon + 1], *(one[:, 0] for one in start), *launch.inputs.values[4:])
    launch.inputs = launch.inputs._replace(values=values, dt=torch.full((1, 1), dt, dtype=torch.float64, device=device))
    launch.upstream = [wave[:, :-1].contiguous() for wave in waves]
    for place, (got, want) in enumerate(zip(launch.both(backend), launch.expected()[0], strict=True)):
        if want is not None:
            rows = [slice(None)] if want.dim() < 3 else [slice(None), slice(INNER, -INNER)]
            for part in rows:  # gradients of rows within are small beside those at the ends, where nothing cancels
                error = (got.cpu().double() - want)[:, part].abs().max()
                assert error <= limit * want[:, part].abs().max(), (place, part)

"""Random problems for the launchers of a backend, and the reference that answers them in float64."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from traj_integrator_ros.kernels import AccelerationIntegrator, bspline_step, reference_backend
from traj_integrator_ros.kernels.types import End

# Map, scheme of both directions, scheme of the transpose alone, start rows.
VARIANTS = {
    "clique": ("clique", {}, {}, 3),
    "clique_central": ("clique_central", {}, {"truncate_terminal_gradient": False}, 4),
    "clique_central truncated": ("clique_central", {}, {"truncate_terminal_gradient": True}, 4),
    "acceleration zoh": ("acceleration", {"integrator": AccelerationIntegrator.ZOH}, {}, 3),
    "acceleration euler": ("acceleration", {"integrator": AccelerationIntegrator.SEMI_IMPLICIT_EULER}, {}, 3),
    "velocity": ("velocity", {}, {}, 3),
    "jerk": ("jerk", {}, {}, 3),
}
OUTPUTS = ("position", "velocity", "acceleration", "jerk")


@dataclass
class Case:
    """One problem: the shape, and everything else drawn from the seed."""

    variant: str
    batch: int
    horizon: int
    dof: int
    dtype: torch.dtype
    seed: int
    dt_form: str = "scalar"  # "scalar", "step", "trajectory" or "both"
    start_form: str = "each"  # "each", "one" or "pool"
    strided: bool = False
    given: tuple[bool, ...] = (True,) * 4  # which upstream gradients there are
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.map, self.scheme, self.vjp_scheme, self.starts = VARIANTS[self.variant]
        self.generator = torch.Generator().manual_seed(self.seed)
        rows = {"each": self.batch, "one": 1, "pool": 3}[self.start_form]
        self.start_rows = rows
        self.action = self.random(self.batch, self.horizon, self.dof)
        self.start = [self.random(rows, self.dof) for _ in range(self.starts)]
        if self.seed % 3 == 0:
            self.start[1] = None
        self.start_index = None
        if self.start_form == "pool":
            index_dtype = torch.int32 if self.seed % 2 else torch.int64
            self.start_index = torch.randint(0, rows, (self.batch,), generator=self.generator, dtype=index_dtype)
        columns = self.horizon if self.dt_form in ("step", "both") and self.map != "clique_central" else 1
        dt_rows = self.batch if self.dt_form in ("trajectory", "both") else 1
        self.dt = 0.001 + 0.1 * torch.rand(dt_rows, columns, generator=self.generator, dtype=torch.float64)
        outputs = self.horizon + (4 if self.map == "clique_central" else 0)
        self.upstream = [self.random(self.batch, outputs, self.dof) if given else None for given in self.given]

    def random(self, *shape: int) -> Tensor:
        """Numbers; with `strided` every second element of a larger tensor."""
        if self.strided:
            return numbers(*shape[:-1], 2 * shape[-1], generator=self.generator, dtype=self.dtype)[..., ::2]
        return numbers(*shape, generator=self.generator, dtype=self.dtype)

    def forward(self, backend) -> tuple[Tensor, ...]:
        """The four outputs."""
        launch = getattr(backend, f"{self.map}_forward")
        return launch(self.action, *self.start, self.start_index, self.dt, **self.scheme)

    def vjp(self, backend, needs: tuple[bool, ...] | None = None) -> tuple[Tensor | None, ...]:
        """The gradients of action and start rows."""
        return getattr(backend, f"{self.map}_vjp")(
            *self.upstream,
            self.start_index,
            self.dt,
            start_rows=self.start_rows,
            action_horizon=self.horizon,
            needs=needs or (True,) * (self.starts + 1),
            **self.scheme,
            **self.vjp_scheme,
        )

    def dt_gradient(self, backend) -> Tensor:
        """The gradient of dt."""
        ends = [End(tuple(self.start), self.start_index)]
        inputs = (tuple(self.upstream), self.action, ends, self.dt)
        return backend.dt_gradient(self.map, *inputs, **self.scheme)

    def in_double(self) -> Case:
        """The same numbers in float64."""
        twin = Case(self.variant, self.batch, self.horizon, self.dof, self.dtype, self.seed, self.dt_form,
                    self.start_form, self.strided, self.given)  # fmt: skip
        twin.action = self.action.double()
        twin.start = [None if row is None else row.double() for row in self.start]
        twin.upstream = [None if gradient is None else gradient.double() for gradient in self.upstream]
        return twin

    def expected_forward(self) -> tuple[Tensor, ...]:
        """The results of float64 arithmetic for the inputs."""
        return self.in_double().forward(reference_backend)

    def expected_vjp(self) -> tuple[Tensor, ...]:
        """The results of float64 arithmetic for the upstream gradients."""
        return self.in_double().vjp(reference_backend)

    def expected_dt_gradient(self) -> Tensor:
        """The gradients of the reference by autograd in float64."""
        twin = self.in_double()
        twin.dt = twin.dt.clone().requires_grad_()
        cost = 0 * twin.dt.sum()  # dt does not reach every output
        for output, gradient in zip(twin.forward(reference_backend), twin.upstream, strict=True):
            if gradient is not None:
                cost = cost + (output * gradient).sum()
        return torch.autograd.grad(cost, twin.dt)[0]


def numbers(*shape: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Numbers between -2 and 2, the same for every dtype, and on every machine: those of `randn` are not."""
    return torch.randint(-(2**24), 2**24, shape, generator=generator).to(dtype) / 2**23


def spline_and_gradients(
    degree: int, steps: int, dtype: torch.dtype, dof: int, backend: str | None = None
) -> tuple[Tensor, ...]:
    """A spline to a goal, and the gradients of everything, from the same float32 numbers for every dtype."""
    generator = torch.Generator().manual_seed(degree * steps)
    sizes = [(3, 6, dof), *[(3, dof)] * 8]
    leaves = [numbers(*size, generator=generator, dtype=dtype).requires_grad_() for size in sizes]
    dt = torch.full((1, 1), 0.1, dtype=torch.float64, requires_grad=True)
    goal = {f"goal_{name}": row for name, row in zip(OUTPUTS, leaves[5:], strict=True)}
    outputs = bspline_step(*leaves[:5], **goal, dt=dt, degree=degree, steps=steps, layout="curobo", backend=backend)
    upstream = [numbers(*output.shape, generator=generator, dtype=dtype) for output in outputs]
    return (*(output.detach() for output in outputs), *torch.autograd.grad(outputs, [*leaves, dt], upstream))


def assert_close(got: Tensor, want: Tensor, limit: float, name: object = "") -> None:
    """Relative error in the norm over the whole tensor."""
    assert got.shape == want.shape, name
    assert (got.double() - want).norm() <= limit * want.norm() + 1e-300, name

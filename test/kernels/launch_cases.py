"""Random launches for the launchers of any backend, and what the reference makes of them in float64."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st
from torch import Tensor

from traj_integrator_ros.kernels import MAPS, AccelerationIntegrator, SplineForm
from traj_integrator_ros.kernels.backends import launcher
from traj_integrator_ros.kernels.types import End, Inputs, VjpInputs

OUTPUTS = ("position", "velocity", "acceleration", "jerk")
# Of both directions; that of splines is the `form` of the case.
SCHEMES = {
    "clique": {},
    "clique_central": {},
    "clique_central truncated": {},
    "acceleration zoh": {"integrator": AccelerationIntegrator.ZOH},
    "acceleration euler": {"integrator": AccelerationIntegrator.SEMI_IMPLICIT_EULER},
    "velocity": {},
    "jerk": {},
    "bspline": {},
}
_OPERATORS = {kernel.operator.name: kernel.operator for kernel in MAPS.values()}


@dataclass
class Case:
    """One launch: its shape, and everything else drawn from the seed."""

    variant: str
    batch: int
    horizon: int
    dof: int
    dtype: torch.dtype = torch.float64
    seed: int = 0
    dt_form: str = "scalar"
    dt_dtype: torch.dtype = torch.float64
    start_form: str = "each"
    form: SplineForm = field(default_factory=SplineForm)
    goal_form: str | None = None  # of splines; None: no goal
    absent_rows: tuple[int, ...] = ()
    absent_upstream: tuple[int, ...] = ()
    unneeded: tuple[int, ...] = ()
    strided: bool = False
    device: str = "cpu"
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.map, _, words = self.variant.partition(" ")
        self.scheme = {"form": self.form} if self.map == "bspline" else SCHEMES[self.variant]
        self.vjp_scheme = {"truncate_terminal_gradient": words == "truncated"} if self.map == "clique_central" else {}
        self.operator = _OPERATORS[self.map]
        self.generator = torch.Generator().manual_seed(self.seed)
        self.action = self.random(self.batch, self.horizon, self.dof)
        takes = self.operator.starts, self.operator.goals if self.goal_form else 0
        self.ends = [self._end(self.start_form, takes[0]), self._end(self.goal_form, takes[1])]
        rows = self.batch if self.dt_form in ("trajectory", "both") else 1
        columns = self.horizon if self.dt_form in ("step", "both") and not self.operator.uniform_dt_only else 1
        dt = 0.001 + 0.1 * torch.rand(rows, columns, generator=self.generator, dtype=torch.float64)
        self.dt = dt.to(self.device, self.dt_dtype)
        is_spline = self.map == "bspline"
        rows = self.form.rows(self.horizon) if is_spline else self.horizon + self.operator.extra_horizon
        shape = (self.batch, rows, self.dof)
        self.upstream = [None if k in self.absent_upstream else self.random(*shape) for k in range(4)]
        self.takes = [True, *(k < kinds for kinds in takes for k in range(4))]
        self.needs = tuple(one and k not in self.unneeded for k, one in enumerate(self.takes))

    @property
    def start(self) -> list[Tensor | None]:
        """The rows of the start."""
        return self.ends[0].rows

    @property
    def start_index(self) -> Tensor | None:
        """The rows of the pool in which the trajectories start."""
        return self.ends[0].index

    @property
    def inputs(self) -> Inputs:
        """What the forward launchers take."""
        rows = (row for end in self.ends for row in end.rows)
        return Inputs((self.action, *rows), tuple(end.index for end in self.ends), self.dt)

    def random(self, *shape: int) -> Tensor:
        """Numbers; with `strided` every second element of a larger tensor."""
        if self.strided:
            shape = (*shape[:-1], 2 * shape[-1])
        values = numbers(*shape, generator=self.generator, dtype=self.dtype).to(self.device)
        return values[..., ::2] if self.strided else values

    def forward(self, backend: str, **options: object) -> tuple[Tensor, ...]:
        """The four outputs."""
        return launcher(self.map, "forward", backend, self.device)(self.inputs, **self.scheme, **options)

    def vjp(self, backend: str, **options: object) -> tuple[Tensor | None, ...]:
        """The gradients of the action, and of the rows of start and goal."""
        counts = [end.count for end in self.ends]
        inputs = VjpInputs(self.upstream, self.inputs.indices, self.dt, counts, self.horizon, self.needs)
        schemes = {**self.scheme, **self.vjp_scheme, **options}
        return launcher(self.map, "vjp", backend, self.device)(inputs, **schemes)

    def both(self, backend: str) -> list[Tensor]:
        """Outputs and gradients, those that there are."""
        return [result for result in (*self.forward(backend), *self.vjp(backend)) if result is not None]

    def dt_gradient(self, backend: object) -> Tensor | None:
        """The gradient of dt by that function of a backend."""
        return backend.dt_gradient(self.map, self.inputs, self.upstream, **self.scheme)

    def expected_forward(self) -> tuple[Tensor, ...]:
        """The results of float64 arithmetic for the inputs, on the CPU."""
        return tuple(output.detach() for output in self._by_reference()[1])

    def expected_vjp(self) -> tuple[Tensor | None, ...]:
        """The gradients of the reference by autograd in float64."""
        leaves, outputs = self._by_reference(**self.vjp_scheme)
        wanted = [value for value, needed in zip(leaves.values, self.needs, strict=True) if needed]
        found = iter(self._gradients(outputs, wanted))
        return tuple(next(found) if needed else None for needed in self.needs)

    def expected_dt_gradient(self) -> Tensor:
        """The gradient of dt, of the outputs without truncation."""
        leaves, outputs = self._by_reference()
        return self._gradients(outputs, [leaves.dt])[0]

    def _by_reference(self, **scheme: object) -> tuple[Inputs, tuple[Tensor, ...]]:
        """The inputs in float64, with zeros for what is absent unless the map takes none, and their outputs."""
        values = [None if one is None else one.detach().cpu().double() for one in self.inputs.values]
        for k, end in ((k, self.ends[(k - 1) // 4]) for k in range(1, 9)):
            if values[k] is None and self.takes[k]:
                values[k] = torch.zeros(end.count, self.dof, dtype=torch.float64)
        values = [one if one is None else one.requires_grad_() for one in values]
        indices = [None if end.index is None else end.index.cpu() for end in self.ends]
        leaves = Inputs(values, indices, self.dt.detach().cpu().double().requires_grad_())
        return leaves, launcher(self.map, "forward", "reference", "cpu")(leaves, **self.scheme, **scheme)

    def _gradients(self, outputs: tuple[Tensor, ...], wanted: list[Tensor]) -> tuple[Tensor, ...]:
        pairs = zip(outputs, self.upstream, strict=True)
        upstream = [torch.zeros_like(output) if one is None else one.cpu().double() for output, one in pairs]
        return torch.autograd.grad(outputs, wanted, upstream, allow_unused=True, materialize_grads=True)

    def _end(self, form: str | None, kinds: int) -> End:
        if not kinds:
            return End([None] * 4, None)
        rows = {"each": self.batch, "one": 1}.get(form, 3)
        values = [None if k in self.absent_rows or k >= kinds else self.random(rows, self.dof) for k in range(4)]
        if not form.startswith("pool"):
            return End(values, None)
        index = torch.randint(0, rows, (self.batch,), generator=self.generator)
        return End(values, index.to(self.device, torch.int32 if form.endswith("32") else torch.int64))


def numbers(*shape: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Numbers between -2 and 2, the same for every dtype, and on every machine: those of `randn` are not."""
    return (torch.randint(-(2**24), 2**24, shape, generator=generator).double() / 2**23).to(dtype)


def cases(
    variants: st.SearchStrategy[str], steps: st.SearchStrategy[int], **shape: st.SearchStrategy
) -> st.SearchStrategy[Case]:
    """Launches of any kind, for these variants, steps of splines, batches, horizons and joints."""
    forms = st.sampled_from(("each", "one", "pool int32", "pool int64"))
    return st.builds(
        Case,
        variants,
        **shape,
        dtype=st.sampled_from((torch.float64, torch.float32)),
        seed=st.integers(0, 2**31),
        dt_form=st.sampled_from(("scalar", "step", "trajectory", "both")),
        dt_dtype=st.sampled_from((torch.float64, torch.float32)),
        start_form=forms,
        form=st.builds(SplineForm, st.integers(3, 5), steps, st.sampled_from(("tight", "curobo"))),
        goal_form=st.one_of(st.none(), forms),
        absent_rows=st.sampled_from(((), (1,), (2,), (1, 2, 3))),
        absent_upstream=st.sets(st.integers(0, 3), max_size=3).map(tuple),
        unneeded=st.sampled_from(((), (0,), (2,), (1, 3), (2, 7), (1, 2, 3, 4))),
        strided=st.booleans(),
    )


def assert_close(got: Tensor | None, want: Tensor | None, limit: float, name: object = "") -> None:
    """Relative error in the norm over the whole tensor; None must be where None is wanted."""
    assert (got is None) == (want is None), name
    if want is not None:
        assert got.shape == want.shape and got.is_contiguous(), name
        assert (got.cpu().double() - want).norm() <= limit * want.norm() + 1e-300, name

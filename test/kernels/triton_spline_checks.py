"""What the Triton kernels of B-splines must hold, as `triton_checks.py` has it for the other maps.

The oracle is the reference in float64 on the same inputs; transposes are compared with its autograd.
"""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from triton_launches import DEVICE, ON_GPU

from traj_integrator_ros.kernels import SplineForm, bspline_step
from traj_integrator_ros.kernels.triton.bspline import bspline_forward, bspline_vjp
from traj_integrator_ros.kernels.triton.launch import FlatTile

FORMS = st.builds(SplineForm, st.sampled_from((3, 4, 5)), st.integers(1, 5), st.sampled_from(("tight", "curobo")))
ROWS = ("own", "one", "pool int32", "pool int64")
ABSENT = st.sampled_from(((), (1,), (2, 3), (1, 2, 3)))
# The interpreter's time depends on the number of programs.
LARGEST = ((5, "batch"), (9, "points"), (9, "dof")) if ON_GPU else ((3, "batch"), (7, "points"), (5, "dof"))
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-6}
"""Of the norm of each result."""


class Spline:
    """Random inputs of one call; `rows` says of what kind start and goal (None: there is none) are."""

    def __init__(self, form: SplineForm, batch: int, points: int, dof: int, dtype: torch.dtype, seed: int = 0) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._dtype, self.form, self.batch = dtype, form, batch
        self.points = self._random(batch, points, dof)
        self.upstream: list[torch.Tensor | None] = [
            self._random(batch, form.rows(points), dof) * scale for scale in (1, 0.1, 0.01, 0.001)
        ]
        self.start, self.start_index = self._rows("own", ())
        self.goal: list[torch.Tensor | None] = [None] * 4
        self.goal_index: torch.Tensor | None = None
        self.dt = torch.full((1, 1), 0.05, dtype=torch.float64, device=DEVICE)

    def with_start(self, kind: str, absent: tuple[int, ...]) -> Spline:
        self.start, self.start_index = self._rows(kind, absent)
        return self

    def with_goal(self, kind: str, absent: tuple[int, ...]) -> Spline:
        self.goal, self.goal_index = self._rows(kind, absent)
        return self

    def with_dt_of_each(self) -> Spline:
        self.dt = 0.05 + 0.1 * torch.rand((self.batch, 1), generator=self._generator, dtype=torch.float64).to(DEVICE)
        return self

    def forward(self, tile: FlatTile | None = None) -> tuple[torch.Tensor, ...]:
        ends = (*self.start, self.start_index, *self.goal, self.goal_index)
        return bspline_forward(self.points, *ends, self.dt, form=self.form, tile=tile)

    def vjp(self, needs: tuple[bool, ...], tile: FlatTile | None = None) -> tuple[torch.Tensor | None, ...]:
        has_goal = self.goal[0] is not None
        return bspline_vjp(
            *self.upstream,
            self.start_index,
            self.goal_index,
            self.dt,
            start_rows=len(self.start[0]),
            goal_rows=len(self.goal[0]) if has_goal else -1,
            action_horizon=self.points.shape[1],
            needs=needs,
            form=self.form,
            tile=tile,
        )

    def given(self) -> list[torch.Tensor | None]:
        return [self.points, *self.start, *self.goal]

    def expected(self) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
        """Outputs and gradients in float64 on the CPU."""
        leaves = [None if one is None else one.double().cpu().requires_grad_() for one in self.given()]
        names = ("goal_position", "goal_velocity", "goal_acceleration", "goal_jerk")
        indices = (None if index is None else index.cpu() for index in (self.start_index, self.goal_index))
        outputs = bspline_step(
            *leaves[:5],
            **dict(zip(names, leaves[5:], strict=True)),
            **dict(zip(("start_index", "goal_index"), indices, strict=True)),
            dt=self.dt.cpu(),
            degree=self.form.degree,
            steps=self.form.steps,
            layout=self.form.layout,
            backend="reference",
        )
        outputs_seen = [(o, g.double().cpu()) for o, g in zip(outputs, self.upstream, strict=True) if g is not None]
        loss = sum((output * gradient).sum() for output, gradient in outputs_seen)
        there = [leaf for leaf in leaves if leaf is not None]
        gradients = iter(torch.autograd.grad(loss, there, allow_unused=True, materialize_grads=True))
        return list(outputs), [None if leaf is None else next(gradients) for leaf in leaves]

    def _rows(self, kind: str, absent: tuple[int, ...]) -> tuple[list[torch.Tensor | None], torch.Tensor | None]:
        count = {"own": self.batch, "one": 1}.get(kind, 3)
        dof = self.points.shape[2]
        rows = [None if k in absent else self._random(count, dof) for k in range(4)]
        if not kind.startswith("pool"):
            return rows, None
        dtype = torch.int32 if kind.endswith("32") else torch.int64
        return rows, torch.randint(0, 3, (self.batch,), generator=self._generator).to(DEVICE, dtype)

    def _random(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator, dtype=torch.float64).to(DEVICE, self._dtype)


def assert_near(got: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    assert got.shape == expected.shape
    away = (got.double().cpu() - expected.detach()).norm()
    assert away <= tolerance * max(float(expected.detach().norm()), 1e-30), float(away / expected.detach().norm())


def assert_matches(spline: Spline, needs: tuple[bool, ...], tile: FlatTile | None = None) -> None:
    outputs, gradients = spline.expected()
    tolerance = TOLERANCE[spline.points.dtype]
    for got, expected in zip(spline.forward(tile), outputs, strict=True):
        assert_near(got, expected, tolerance)
    for got, expected, wanted in zip(spline.vjp(needs, tile), gradients, needs, strict=True):
        assert (got is not None) == wanted
        if wanted:
            assert_near(got, expected, tolerance)


@settings(max_examples=60 if ON_GPU else 8, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_forward_and_vjp_match_the_reference_for_any_form_shape_and_absence(data):
    dtype = data.draw(st.sampled_from((torch.float64, torch.float64, torch.float32)), "dtype")
    shape = [data.draw(st.integers(1, most), name) for most, name in LARGEST]
    spline = Spline(data.draw(FORMS, "form"), *shape, dtype, data.draw(st.integers(0, 99), "seed"))
    spline.with_start(data.draw(st.sampled_from(ROWS), "start"), data.draw(ABSENT, "absent of start"))
    if data.draw(st.booleans(), "goal"):
        spline.with_goal(data.draw(st.sampled_from(ROWS), "goal rows"), data.draw(ABSENT, "absent of goal"))
    if data.draw(st.booleans(), "dt of each"):
        spline.with_dt_of_each()
    for k in data.draw(st.sampled_from(((), (0,), (3,), (1, 2), (0, 1, 2))), "absent upstream"):
        spline.upstream[k] = None
    unneeded = data.draw(st.sampled_from(((), (0,), (1, 2, 3, 4), (2, 7))), "unneeded")
    needs = tuple(one is not None and k not in unneeded for k, one in enumerate(spline.given()))
    tile = data.draw(st.sampled_from((None, FlatTile(64, 1), FlatTile(32, 1))), "tile")
    if any(needs):
        assert_matches(spline, needs, tile)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_lose_no_more_than_their_own_rounding(dtype):
    spline = Spline(SplineForm(), 3, 6, 2, dtype).with_goal("own", (1, 2, 3))
    outputs, gradients = spline.expected()
    rounding = torch.finfo(dtype).eps
    for got, expected in zip(spline.forward(), outputs, strict=True):
        assert_near(got, expected, rounding)
    needs = tuple(one is not None for one in spline.given())
    for got, expected in zip(spline.vjp(needs), gradients, strict=True):
        if expected is not None:
            assert_near(got, expected, rounding)


@pytest.mark.parametrize(
    ("shape", "has_goal"), [((1, 1, 1), True), ((1, 1, 1), False), ((1, 40, 2), True), ((30, 2, 1), False)]
)
def test_smallest_and_longest_shapes_match_the_reference(shape, has_goal):
    spline = Spline(SplineForm(5, 3), *shape, torch.float64)
    spline = spline.with_goal("own", ()) if has_goal else spline
    assert_matches(spline, tuple(one is not None for one in spline.given()))


def test_no_trajectories_are_none():
    spline = Spline(SplineForm(), 0, 4, 3, torch.float64)
    assert all(output.shape == (0, 29, 3) for output in spline.forward())
    assert spline.vjp((True,) * 5 + (False,) * 4)[0].shape == (0, 4, 3)

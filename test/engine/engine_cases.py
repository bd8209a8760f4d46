"""Calls of the engine in all the forms they may take, for the tests that compare two ways of doing them."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from traj_integrator_ros.engine.call import Runner
from traj_integrator_ros.engine.integrator import (
    Gradient,
    IntegratorConfig,
    StartState,
    TrajectoryIntegrator,
    UpstreamGradient,
)
from traj_integrator_ros.kernels import MAPS

KINDS = ("position", "velocity", "acceleration")


@dataclasses.dataclass(frozen=True)
class EngineCase:
    """Inputs of one forward and one vjp call."""

    kernel: str = "clique"
    batch: int = 5
    horizon: int = 6
    dof: int = 3
    dt: str = "number"
    start: str = "one row"
    goal: str | None = None
    given_starts: tuple[bool, bool] = (True, True)
    given_upstream: tuple[bool, bool, bool, bool] = (True, True, True, True)
    input_dtype: str = "float32"
    seed: int = 0

    def engine(self, runner: Runner | None = None, **fields: object) -> TrajectoryIntegrator:
        """An engine for these inputs."""
        return TrajectoryIntegrator(self.config(**fields), runner)

    def config(self, **fields: object) -> IntegratorConfig:
        """Its configuration."""
        kernel = MAPS[self.kernel]
        fields = {"device": "cpu", **kernel.schemes, **fields}
        return IntegratorConfig(dof=self.dof, control_space=kernel.control_space, **fields)

    def arguments(self) -> dict[str, object]:
        """Those of `integrate`."""
        random = np.random.default_rng(self.seed)

        def draw(*shape: int) -> np.ndarray:
            return random.standard_normal(shape).astype(self.input_dtype)

        def end(form: str, given: tuple[bool, ...]) -> tuple[StartState, np.ndarray | None]:
            rows = {"one row": 1, "rows": self.batch, "pool": 3}[form]
            index = random.integers(0, rows, self.batch) if form == "pool" else None
            return StartState(*(draw(rows, self.dof) if one else None for one in given)), index

        dt = 0.1 + random.random({"number": (), "steps": (self.horizon,), "rows": (self.batch, 1)}.get(self.dt) or ())
        if self.dt == "both":
            dt = 0.1 + random.random((self.batch, self.horizon))
        start, start_index = end(self.start, (True, *self.given_starts))
        given = {"start": start, "actions": draw(self.batch, self.horizon, self.dof), "dt": dt}
        given["start_index"] = start_index
        kinds = len(MAPS[self.kernel].goal)
        if self.goal is not None and kinds:
            given["goal"], given["goal_index"] = end(self.goal, tuple(k < kinds for k in range(3)))
        return given

    def upstream(self) -> UpstreamGradient:
        """Gradients of the outputs."""
        random = np.random.default_rng(self.seed + 1)
        shape = (self.batch, MAPS[self.kernel].output_horizon(self.horizon), self.dof)
        return UpstreamGradient(
            *(random.standard_normal(shape).astype(self.input_dtype) if one else None for one in self.given_upstream)
        )

    def run(self, engine: TrajectoryIntegrator, *, want_dt: bool = False) -> list[Tensor]:
        """Copies of the four outputs and of the gradients, that of dt before the goal's."""
        given = self.arguments()
        outputs = torch.tensor(engine.integrate_array(**given))
        gradient = engine.vjp_arrays(given.pop("start"), self.upstream(), want_dt=want_dt, **given)
        return [*outputs, *tensors_of(gradient)]

    def leaves(self, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Tensor | None]]:
        """The arguments of the public functions, which require grad, and the indices."""
        given, kernel = self.arguments(), MAPS[self.kernel]
        start, goal, dt = given.pop("start"), given.pop("goal", None), given.pop("dt")
        rest = np.zeros_like(start.position)
        named = {"action": given.pop("actions")}
        named |= {f"start_{kind}": rest if row is None else row for kind, row in zip(KINDS, start.rows, strict=True)}
        leaves = {name: torch.tensor(value, dtype=dtype, requires_grad=True) for name, value in named.items()}
        leaves["dt"] = torch.tensor(dt, requires_grad=True)
        for kind, row in zip(kernel.goal, () if goal is None else goal.rows, strict=False):
            leaves[f"goal_{kind}"] = torch.tensor(row, dtype=dtype, requires_grad=True)
        return leaves, {name: None if index is None else torch.tensor(index) for name, index in given.items()}

    def expected(self, dtype: torch.dtype) -> list[Tensor]:
        """What the public function and autograd through it give: outputs, gradients, that of dt before the goal's."""
        leaves, indices = self.leaves(dtype)
        action, *others = leaves.items()
        outputs = MAPS[self.kernel].step(action[1], **dict(others), **indices)
        upstream = [
            torch.zeros_like(out) if g is None else torch.tensor(g).to(dtype)
            for out, g in zip(outputs, self.upstream(), strict=True)
        ]
        found = torch.autograd.grad(outputs, [*leaves.values()], upstream, allow_unused=True, materialize_grads=True)
        return [*(output.detach() for output in outputs), *found]


def tensors_of(gradient: Gradient) -> list[Tensor]:
    """Copies of the gradients that are there, that of dt before the goal's."""
    return [torch.tensor(x) for x in gradient._replace(values=None) if x is not None]


def assert_same(got: list[Tensor], wanted: list[Tensor], *, exact: bool = True) -> None:
    """Compare results; not `exact` allows the rounding of sums taken in another order."""
    assert len(got) == len(wanted)
    for i, (actual, expected) in enumerate(zip(got, wanted, strict=True)):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        if exact:
            assert torch.equal(actual, expected), f"result {i}"
        else:
            torch.testing.assert_close(actual, expected, rtol=2e-6, atol=2e-6 * float(expected.abs().max()))


def engine_cases(**fixed: object) -> st.SearchStrategy[EngineCase]:
    """Cases of every map and form; steps that differ, and goals, only where the map takes them."""
    fields = {
        "kernel": st.sampled_from(list(MAPS)),
        "batch": st.integers(1, 9),
        "horizon": st.sampled_from([1, 2, 5, 8]),
        "dof": st.sampled_from([1, 2, 7]),
        "dt": st.sampled_from(["number", "steps", "rows", "both"]),
        "start": st.sampled_from(["one row", "rows", "pool"]),
        "goal": st.sampled_from([None, "one row", "rows", "pool"]),
        "given_starts": st.tuples(st.booleans(), st.booleans()),
        "given_upstream": st.tuples(*[st.booleans()] * 4),
        "input_dtype": st.sampled_from(["float32", "float64"]),
        "seed": st.integers(0, 1000),
    }
    fields.update({name: st.just(value) for name, value in fixed.items()})
    return st.builds(EngineCase, **fields).map(_possible)


def _possible(case: EngineCase) -> EngineCase:
    if MAPS[case.kernel].uniform_dt_only and case.dt in ("steps", "both"):
        case = dataclasses.replace(case, dt="rows")
    return case if case.horizon > 1 and MAPS[case.kernel].goal else dataclasses.replace(case, goal=None)

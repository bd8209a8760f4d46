"""Calls of the engine in all the forms they may take, for the tests that compare two ways of doing them."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from traj_integrator_ros.engine.call import Runner
from traj_integrator_ros.engine.integrator import IntegratorConfig, StartState, TrajectoryIntegrator, UpstreamGradient
from traj_integrator_ros.kernels import MAPS


@dataclasses.dataclass(frozen=True)
class EngineCase:
    """Inputs of one forward and one vjp call."""

    kernel: str = "clique"
    batch: int = 5
    horizon: int = 6
    dof: int = 3
    dt: str = "number"
    start: str = "one row"
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

    def run(self, engine: TrajectoryIntegrator, *, want_dt: bool = False) -> list[Tensor]:
        """Copies of the four outputs and of the gradients."""
        random = np.random.default_rng(self.seed)
        rows = {"one row": 1, "rows": self.batch, "pool": 3}[self.start]

        def draw(*shape: int) -> np.ndarray:
            return random.standard_normal(shape).astype(self.input_dtype)

        starts = [draw(rows, self.dof) if given else None for given in (True, *self.given_starts)]
        start = StartState(*starts)
        actions = draw(self.batch, self.horizon, self.dof)
        index = random.integers(0, rows, self.batch) if self.start == "pool" else None
        dt = 0.1 + random.random({"number": (), "steps": (self.horizon,), "rows": (self.batch, 1)}.get(self.dt) or ())
        if self.dt == "both":
            dt = 0.1 + random.random((self.batch, self.horizon))
        output = (self.batch, engine.output_horizon(self.horizon), self.dof)
        upstream = UpstreamGradient(*(draw(*output) if given else None for given in self.given_upstream))
        trajectory = [x.clone() for x in engine.integrate(start, actions, dt, start_index=index)]
        gradient = engine.vjp(start, upstream, actions=actions, dt=dt, start_index=index, want_dt=want_dt)
        return [*trajectory, *(x.clone() for x in gradient if x is not None)]


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
    """Cases of every map and form; steps that differ only where the map takes them."""
    fields = {
        "kernel": st.sampled_from(list(MAPS)),
        "batch": st.integers(1, 9),
        "horizon": st.sampled_from([1, 2, 5, 8]),
        "dof": st.sampled_from([1, 2, 7]),
        "dt": st.sampled_from(["number", "steps", "rows", "both"]),
        "start": st.sampled_from(["one row", "rows", "pool"]),
        "given_starts": st.tuples(st.booleans(), st.booleans()),
        "given_upstream": st.tuples(*[st.booleans()] * 4),
        "input_dtype": st.sampled_from(["float32", "float64"]),
        "seed": st.integers(0, 1000),
    }
    fields.update({name: st.just(value) for name, value in fixed.items()})
    return st.builds(EngineCase, **fields).map(_possible)


def _possible(case: EngineCase) -> EngineCase:
    if MAPS[case.kernel].uniform_dt_only and case.dt in ("steps", "both"):
        return dataclasses.replace(case, dt="rows")
    return case

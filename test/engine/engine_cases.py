"""Calls of the engine in all the forms they may take, for the tests that compare two ways of doing them."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from hypothesis import strategies as st
from operator_cases import DT, STATE, Case
from torch import Tensor

from traj_integrator_ros.engine.call import NO_ENDS, Array, Call, Gradient, call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS, ControlMap

KINDS = STATE[:3]
JERKS = ("start_jerk", "goal_jerk")
"""The engine's states have no jerks."""


@dataclasses.dataclass(frozen=True)
class EngineCase(Case):
    """Inputs of one call of `integrate` and one of `vjp`."""

    kernel: ControlMap = MAPS["clique"]
    batch: int = 5
    horizon: int = 6
    dof: int = 3
    dt: str = "number"
    start: str = "one"
    absent: tuple[str, ...] = JERKS
    given_upstream: tuple[bool, bool, bool, bool] = (True, True, True, True)
    input_dtype: str = "float32"

    @property
    def indices(self) -> dict[str, Tensor]:
        """Arguments that are pools of rows."""
        return {name: index for name, index in self.fixed.items() if name.endswith("_index")}

    def call(self) -> Call:
        """The call of `integrate`."""
        given = {name: tensor.numpy().astype(self.input_dtype) for name, tensor in self.tensors.items()}
        start, goal = ([given.get(f"{end}_{kind}") for kind in KINDS] for end in ("start", "goal"))
        indices = {name: index.numpy() for name, index in self.indices.items()}
        ends = ends_of(start, indices.get("start_index")), NO_ENDS
        if self.goal:
            ends = ends[0], ends_of(goal[: len(self.kernel.goal)], indices.get("goal_index"))
        return call_of(self.kernel, given["action"], np.asarray(DT[self.dt](self.lengths)), *ends)

    def upstream(self) -> tuple[Array | None, ...]:
        """Gradients of the outputs."""
        random = np.random.default_rng(self.seed + 1)
        shape = (self.batch, self.kernel.output_horizon(self.horizon), self.dof)
        values = [random.standard_normal(shape).astype(self.input_dtype) for _ in range(4)]
        return tuple(value if one else None for value, one in zip(values, self.given_upstream, strict=True))

    def run(self, engine: TrajectoryIntegrator | None = None, *, want_dt: bool = False) -> list[Tensor]:
        """Copies of outputs and gradients, dt's before the goal's, from an engine, or from one on the CPU."""
        engine = TrajectoryIntegrator("cpu") if engine is None else engine
        call = self.call()
        outputs = torch.tensor(engine.integrate(call))
        gradient = engine.vjp(call._replace(upstream=self.upstream()), want_dt=want_dt)
        return [*outputs, *tensors_of(gradient)]

    def leaves(self, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
        """The arguments of the public functions, which require grad: dt before the goal, zeros for an absent start."""
        absent = dict.fromkeys([f"start_{kind}" for kind in KINDS], torch.zeros_like(self.tensors["start_position"]))
        dt = torch.as_tensor(DT[self.dt](self.lengths), dtype=torch.float64)
        named = {"action": None, **absent, "dt": None, **self.tensors}
        given = getattr(torch, self.input_dtype)
        leaves = {name: dt if name == "dt" else tensor.to(given).to(dtype) for name, tensor in named.items()}
        return {name: leaf.clone().requires_grad_() for name, leaf in leaves.items()}

    def expected(self, dtype: torch.dtype) -> list[Tensor]:
        """Results of the public function and of autograd: outputs, gradients, that of dt before the goal's."""
        leaves = self.leaves(dtype)
        (_, action), *others = leaves.items()
        outputs = self.kernel.step(action, **dict(others), **self.indices)
        upstream = [
            torch.zeros_like(out) if g is None else torch.tensor(g).to(dtype)
            for out, g in zip(outputs, self.upstream(), strict=True)
        ]
        found = torch.autograd.grad(outputs, [*leaves.values()], upstream, allow_unused=True, materialize_grads=True)
        named = dict(zip(leaves, found, strict=True))
        named["dt"] = torch.atleast_2d(named["dt"])
        return [*(output.detach() for output in outputs), *named.values()]


def tensors_of(gradient: Gradient) -> list[Tensor]:
    """Copies of the gradients that are not None; dt's comes before the goal's."""
    found = gradient.action, *gradient.start, gradient.dt, *(gradient.goal or ())
    return [torch.tensor(x) for x in found if x is not None]


def assert_same(got: list[Tensor], wanted: list[Tensor]) -> None:
    """Compare results; rounding of sums in another order is allowed."""
    for actual, expected in zip(got, wanted, strict=True):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        torch.testing.assert_close(actual, expected, rtol=2e-6, atol=2e-6 * float(expected.abs().max()))


def engine_cases(**fixed: object) -> st.SearchStrategy[EngineCase]:
    """Cases of every map and form; steps that differ, and goals, only where the map takes them."""
    ends = ("one", "own", "pool")
    absent = st.sets(st.sampled_from(("start_velocity", "start_acceleration")))
    fields = {
        "kernel": st.sampled_from(list(MAPS.values())),
        "batch": st.integers(1, 9),
        "horizon": st.sampled_from([1, 2, 5, 8]),
        "dof": st.sampled_from([1, 2, 7]),
        "dt": st.sampled_from(("number", "[H]", "[B, 1]", "[B, H]")),
        "start": st.sampled_from(ends),
        "goal": st.sampled_from(("", *ends)),
        "absent": absent.map(lambda kinds: (*JERKS, *kinds)),
        "given_upstream": st.tuples(*[st.booleans()] * 4),
        "input_dtype": st.sampled_from(["float32", "float64"]),
        "seed": st.integers(0, 1000),
    }
    fields.update({name: st.just(value) for name, value in fixed.items()})
    return st.builds(EngineCase, **fields).map(_possible)


def _possible(case: EngineCase) -> EngineCase:
    if case.kernel.uniform_dt_only and case.dt in ("[H]", "[B, H]"):
        case = dataclasses.replace(case, dt="[B, 1]")
    return case if case.horizon > 1 and case.kernel.goal else dataclasses.replace(case, goal="")

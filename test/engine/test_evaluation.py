"""Costs and their gradients through the engine: the numbers of the public function, fused, composed and in parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_cases import KINDS, EngineCase, engine_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import MAP

from traj_integrator_ros.engine.integrator import StartState, Wanted
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import CostTerm, QuadraticCost, quadratic_cost

BATCH, HORIZON, DOF = 5, 6, 3
ALL = Wanted(action=True, start=True, goal=True, dt=True)


def cost_of(batch: int = BATCH, horizon: int = HORIZON, dof: int = DOF, duration: object = 0.7) -> QuadraticCost:
    rng = np.random.default_rng(7)
    bound = rng.random(dof)
    return QuadraticCost(
        CostTerm(rng.random((batch, horizon, dof)), rng.normal(size=(horizon, dof)), rng.random((batch, dof))),
        CostTerm(rng.random(dof), rng.normal(size=(batch, horizon, dof))),
        CostTerm(limit_weight=rng.random(dof), lower=-bound, upper=bound),
        CostTerm(weight=1e-3 * rng.random((horizon, dof))),
        duration_weight=duration,
    )


@MAP
@settings(max_examples=25)
@given(data=st.data())
def test_costs_and_gradients_are_those_of_the_public_function(kernel, data):
    case = data.draw(engine_cases(kernel=kernel))
    runner = StagedRunner(torch.device("cpu"), torch.float64, max_graphs=0)
    engine = case.engine(data.draw(st.sampled_from((None, runner)), "runner"), dtype="float64")
    duration = np.linspace(0.0, 1.0, case.batch) if data.draw(st.booleans(), "a weight for each") else 0.7
    cost = cost_of(case.batch, kernel.output_horizon(case.horizon), case.dof, duration)
    leaves = case.leaves()
    terms = QuadraticCost(
        *(CostTerm(*(x if x is None else torch.tensor(x) for x in term)) for term in cost.outputs),
        duration_weight=torch.as_tensor(cost.duration_weight, dtype=torch.float64),
    )
    expected = quadratic_cost(**leaves, cost=terms, control_map=kernel, **case.indices)
    found = torch.autograd.grad(expected.sum(), list(leaves.values()), allow_unused=True, materialize_grads=True)
    found = dict(zip(leaves, found, strict=True))
    if data.draw(st.booleans(), "in parts"):
        engine._sizes._fitting["evaluate", engine.control_map().name, case.horizon] = 2
    for wanted in (ALL, Wanted(start=True, goal=True), Wanted(), Wanted(action=False)):
        arguments = case.arguments()
        got = engine.evaluate(arguments.pop("start"), arguments.pop("actions"), cost, wanted=wanted, **arguments)
        np.testing.assert_allclose(got.cost, expected.detach().numpy(), rtol=1e-11)
        answers = {"action": got.action, "dt": got.dt}
        answers |= {f"start_{kind}": x for kind, x in zip(KINDS, got.start or (), strict=False)}
        answers |= {f"goal_{kind}": x for kind, x in zip(KINDS, got.goal or (), strict=False)}
        answers = {name: value for name, value in answers.items() if value is not None}
        assert set(answers) == {name for name in found if getattr(wanted, name.split("_")[0])}
        for name, value in answers.items():
            right = found[name].numpy()
            atol = 1e-9 * (1 + np.abs(right).max())
            np.testing.assert_allclose(value.reshape(right.shape), right, rtol=1e-9, atol=atol, err_msg=name)


def test_arrays_that_do_not_fit_are_an_error():
    engine = EngineCase().engine(dtype="float64")
    start = StartState(np.zeros((1, DOF)))
    cost = QuadraticCost(CostTerm(np.ones(DOF + 1)))
    with pytest.raises(ValueError, match="arrays: expected real numbers in shapes that belong together"):
        engine.evaluate(start, np.zeros((1, 2, DOF)), cost, 0.1)

"""Costs and their gradients through the engine: the numbers of the public function, fused, composed and in parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from traj_integrator_ros.engine.integrator import IntegratorConfig, StartState, TrajectoryIntegrator, Wanted
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import ControlSpace, CostTerm, QuadraticCost, SplineForm, quadratic_cost

KINDS = {
    "clique": (ControlSpace.POSITION, "backward", None),
    "clique_central": (ControlSpace.POSITION, "central", None),
    "acceleration": (ControlSpace.ACCELERATION, "backward", None),
    "bspline of its own form": (ControlSpace.BSPLINE, "backward", SplineForm(5, 3, "curobo")),
}
BATCH, HORIZON, DOF = 5, 6, 3
ALL = Wanted(action=True, start=True, goal=True, dt=True)
STATE = ("position", "velocity", "acceleration")


def engine_of(difference: str, staged: bool, dtype: str = "float64") -> TrajectoryIntegrator:
    config = IntegratorConfig(dof=DOF, dtype=dtype, device="cpu", finite_difference=difference)
    runner = StagedRunner(torch.device("cpu"), torch.float64, max_graphs=0) if staged else None
    return TrajectoryIntegrator(config, runner)


def states(rows: int, count: int = 3) -> StartState:
    return StartState(*np.random.default_rng(rows).standard_normal((count, rows, DOF)))


def cost_of(horizon: int) -> QuadraticCost:
    rng = np.random.default_rng(7)
    bound = rng.random(DOF)
    return QuadraticCost(
        CostTerm(rng.random((BATCH, horizon, DOF)), rng.normal(size=(horizon, DOF)), rng.random((BATCH, DOF))),
        CostTerm(rng.random(DOF), rng.normal(size=(BATCH, horizon, DOF))),
        CostTerm(limit_weight=rng.random(DOF), lower=-bound, upper=bound),
        CostTerm(weight=1e-3 * rng.random((horizon, DOF))),
        duration_weight=0.7,
    )


@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "parts"])
@pytest.mark.parametrize("pooled", [True, False], ids=["pool", "rows"])
@pytest.mark.parametrize("staged", [False, True], ids=["direct", "staged"])
@pytest.mark.parametrize(("space", "difference", "form"), KINDS.values(), ids=KINDS)
def test_costs_and_gradients_are_those_of_the_public_function(space, difference, form, staged, pooled, in_parts):
    engine = engine_of(difference, staged)
    kernel = engine.control_map(space, form)
    cost = cost_of(kernel.output_horizon(HORIZON))
    if not pooled:
        cost = cost._replace(duration_weight=np.linspace(0.0, 1.0, BATCH))
    actions = np.random.default_rng(0).standard_normal((BATCH, HORIZON, DOF))
    start, goal = states(2 if pooled else 1), states(3 if pooled else BATCH, len(kernel.goal)) if kernel.goal else None
    start_index = np.array([1, 0, 0, 1, 1]) if pooled else None
    goal_index = np.array([0, 2, 2, 1, 0]) if pooled and goal else None
    leaves = {"action": torch.tensor(actions, requires_grad=True)}
    for end, given in (("start", start), ("goal", goal)):
        for kind, rows in zip(STATE, given.rows if given else (), strict=False):
            if rows is not None:
                leaves[f"{end}_{kind}"] = torch.tensor(rows, requires_grad=True)
    leaves["dt"] = torch.tensor([[0.1]], dtype=torch.float64, requires_grad=True)
    indices = {
        f"{end}_index": torch.tensor(index)
        for end, index in (("start", start_index), ("goal", goal_index))
        if index is not None
    }
    terms = QuadraticCost(
        *(CostTerm(*(x if x is None else torch.tensor(x) for x in term)) for term in cost.outputs),
        duration_weight=torch.as_tensor(cost.duration_weight, dtype=torch.float64),
    )
    expected = quadratic_cost(**leaves, cost=terms, control_map=kernel, **indices)
    found = dict(zip(leaves, torch.autograd.grad(expected.sum(), list(leaves.values())), strict=True))
    if in_parts:
        engine._sizes._fitting["evaluate", kernel.name, HORIZON] = 2
    given = {"start_index": start_index, "goal": goal, "goal_index": goal_index}
    for wanted in (ALL, Wanted(start=True, goal=True), Wanted(), Wanted(action=False)):
        got = engine.evaluate(start, actions, cost, 0.1, control_space=space, spline=form, wanted=wanted, **given)
        np.testing.assert_allclose(got.cost, expected.detach().numpy(), rtol=1e-11)
        answers = {"action": got.action, "dt": got.dt}
        answers |= {f"start_{kind}": x for kind, x in zip(STATE, got.start or (), strict=False)}
        answers |= {f"goal_{kind}": x for kind, x in zip(STATE, got.goal or (), strict=False)}
        answers = {name: value for name, value in answers.items() if value is not None}
        assert set(answers) == {name for name in found if getattr(wanted, name.split("_")[0])}
        for name, value in answers.items():
            np.testing.assert_allclose(value, found[name].numpy(), rtol=1e-9, atol=1e-9, err_msg=name)


def test_a_start_at_rest_has_gradients_of_what_was_not_given():
    engine = engine_of("backward", staged=True)
    fused = engine_of("backward", staged=False)
    actions = np.random.default_rng(0).standard_normal((BATCH, HORIZON, DOF))
    start = StartState(np.zeros((1, DOF)))
    for other in (engine, fused):
        got = other.evaluate(start, actions, cost_of(HORIZON), 0.1, wanted=Wanted(start=True))
        assert [rows.shape for rows in got.start] == [(1, DOF)] * 3
        assert all(np.abs(rows).max() > 0 for rows in got.start)


def test_the_steady_state_keeps_its_memory_and_takes_what_is_read_only():
    engine = engine_of("backward", staged=False, dtype="float32")
    actions = np.random.default_rng(0).standard_normal((BATCH, HORIZON, DOF)).astype(np.float32)
    actions.flags.writeable = False
    start = StartState(np.zeros((1, DOF), np.float32))
    first = engine.evaluate(start, actions, cost_of(HORIZON), 0.1)
    again = engine.evaluate(start, actions, cost_of(HORIZON), 0.1)
    assert first.action.ctypes.data == again.action.ctypes.data
    assert again.action.dtype == np.float32


def test_arrays_that_do_not_fit_are_an_error():
    engine = engine_of("backward", staged=False)
    start = StartState(np.zeros((1, DOF)))
    cost = QuadraticCost(CostTerm(np.ones(DOF + 1)))
    with pytest.raises(ValueError, match="arrays: expected real numbers in shapes that belong together"):
        engine.evaluate(start, np.zeros((1, 2, DOF)), cost, 0.1)

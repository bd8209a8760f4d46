"""Goal states and forms of splines by call; test_integrator.py has the numbers and gradients of all kinds of goals."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from engine_cases import assert_same

from traj_integrator_ros.engine.integrator import IntegratorConfig, StartState, TrajectoryIntegrator, UpstreamGradient
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import ControlSpace, CostTerm, QuadraticCost, SplineForm

BATCH, HORIZON, DOF = 4, 6, 3


def states(rows: int, count: int = 3) -> StartState:
    return StartState(*np.random.default_rng(rows).standard_normal((count, rows, DOF)))


@pytest.mark.parametrize("staged", [False, True], ids=["direct", "staged"])
def test_a_spline_of_its_own_form_is_that_of_an_engine_with_this_form(staged):
    config = IntegratorConfig(dof=DOF, control_space=ControlSpace.BSPLINE, device="cpu")
    runner = StagedRunner(torch.device("cpu"), torch.float32, max_graphs=0) if staged else None
    configured = {"bspline_degree": 5, "bspline_steps": 3, "bspline_layout": "curobo"}
    engines = (
        (TrajectoryIntegrator(config, runner), SplineForm(5, 3, "curobo")),
        (TrajectoryIntegrator(dataclasses.replace(config, **configured)), None),
    )
    actions = np.random.default_rng(0).standard_normal((BATCH, HORIZON, DOF))
    goal, index = states(3), np.array([0, 2, 2, 1])
    given = {"actions": actions, "goal": goal, "goal_index": index}
    results = []
    for engine, form in engines:
        outputs = [x.clone() for x in engine.integrate(states(1), **given, spline=form)]
        gradient = engine.vjp(states(1), UpstreamGradient(*outputs), **given, spline=form, want_dt=True)
        cost = QuadraticCost(CostTerm(weight=np.ones(DOF)))
        evaluated = engine.evaluate(states(1), actions, cost, goal=goal, goal_index=index, spline=form)
        costs = [torch.from_numpy(values).double() for values in (evaluated.cost, evaluated.action)]
        results.append([*outputs, *gradient, *costs])
    assert_same(*results, exact=False)


def test_what_a_map_does_not_take_is_refused_by_name():
    engine = TrajectoryIntegrator(IntegratorConfig(dof=DOF, device="cpu"))
    actions = np.zeros((BATCH, HORIZON, DOF), np.float32)
    for space, goal, message in (
        (ControlSpace.VELOCITY, states(1), "goal: expected None, because control map velocity takes no goal"),
        (
            ControlSpace.POSITION,
            states(1),
            "goal.velocity: expected None, because control map clique takes a position only",
        ),
        (ControlSpace.BSPLINE, states(3), "goal.position: expected 1 or 4 rows without goal_index, got 3"),
    ):
        with pytest.raises(ValueError) as raised:
            engine.integrate(states(1), actions, control_space=space, goal=goal)
        assert str(raised.value) == message
    with pytest.raises(ValueError, match=r"^bspline_degree: expected 3, 4 or 5, got 7"):
        IntegratorConfig(dof=DOF, bspline_degree=7)

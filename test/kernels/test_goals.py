"""Goals that hold for some trajectories only, beyond the maps: costs, fits, evaluation, pieces, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_cases import STATE, assert_all_close

from traj_integrator_ros.kernels import (
    MAPS,
    CostTerm,
    QuadraticCost,
    bspline_segments,
    clique_step,
    control_map,
    evaluate_bspline,
    fit_bspline,
    quadratic_cost,
)

BATCH, POINTS, DOF = 4, 6, 2


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


ACTION, P0, V0 = normal(BATCH, POINTS, DOF), normal(BATCH, DOF, seed=1), normal(BATCH, DOF, seed=2)


@pytest.mark.parametrize("name", [name for name, kernel in MAPS.items() if kernel.goal])
def test_the_cost_is_that_of_the_masked_trajectories(name):
    terms = QuadraticCost(position=CostTerm(weight=1.0, target=0.2), jerk=CostTerm(weight=1e-6))
    action, goal = ACTION.clone().requires_grad_(), normal(3, DOF, seed=10).requires_grad_()
    mask = np.array([1, 0, 1], np.uint8)
    options = {"goal_position": goal, "goal_index": [2, 0, 2, 1], "goal_mask": mask, "dt": 0.1}
    values = quadratic_cost(action, P0, V0, cost=terms, control_map=name, **options)
    motion = MAPS[name].step(action, P0, V0, **options)
    wanted = (motion.position - 0.2).square().sum((1, 2)) + 1e-6 * motion.jerk.square().sum((1, 2))
    torch.testing.assert_close(values, wanted)
    assert_all_close(
        torch.autograd.grad(values.sum(), [action, goal]), torch.autograd.grad(wanted.sum(), [action, goal])
    )


SPLINES = {"degree 3": MAPS["bspline_tight"], "degree 4 curobo": control_map("bspline_curobo", bspline_degree=4)}


@pytest.mark.parametrize("kernel", SPLINES.values(), ids=SPLINES)
def test_fit_evaluation_and_segments_take_the_mask(kernel):
    form = dict(zip(("degree", "steps", "layout"), kernel.scheme, strict=True))
    goal = {f"goal_{kind}": normal(3, DOF, seed=10 + k) for k, kind in enumerate(STATE)}
    common = {**goal, "goal_index": [2, 0, 2, 1], "goal_mask": [True, False, True], "dt": 0.1}
    motion = kernel.step(ACTION, P0, V0, **common)
    times = torch.arange(motion.position.shape[1], dtype=torch.float64) * 0.1
    assert_all_close(evaluate_bspline(ACTION, P0, V0, times=times, **common, **form)[:3], motion[:3])
    fitted = fit_bspline(motion.position, P0, V0, **common, **form)
    used = POINTS - (form["layout"] == "curobo")
    assert_all_close([fitted[:, :used]], [ACTION[:, :used]])
    assert_all_close([fitted[3, -1]], [ACTION[3, -1]])  # trajectory 3 rests there
    pieces = bspline_segments(ACTION, P0, V0, **common, **form)
    torch.testing.assert_close(torch.from_numpy(pieces.position), motion.position[:, :: form["steps"]])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"goal_mask": [True] * 4}, ValueError, "goal_position: expected a tensor with goal_mask, got None"),
        ({"goal_position": P0, "goal_mask": [True] * 3}, ValueError, r"goal_mask: expected shape \[goal rows = 4\]"),
        (
            {"goal_position": P0[:3], "goal_index": [0] * 4, "goal_mask": [True] * 4},
            ValueError,
            r"goal_mask: expected shape \[goal rows = 3\], got \[4\]",
        ),
        ({"goal_position": P0, "goal_mask": torch.ones(4)}, TypeError, "goal_mask: expected a tensor of bool or uint8"),
        (
            {"goal_position": P0, "goal_mask": True},
            TypeError,
            "goal_mask: expected a tensor of bool or uint8.*got bool",
        ),
    ],
)
def test_a_wrong_mask_is_named(options, error, message):
    for step in (clique_step, MAPS["bspline_tight"].step):
        with pytest.raises(error, match=message):
            step(ACTION, P0, dt=0.1, **options)
    with pytest.raises(error, match=message):
        fit_bspline(normal(BATCH, 37, DOF), P0, dt=0.1, **options)


def test_misuse_of_goals_is_named():
    sizes = {"dt": 0.1, "action_horizon": POINTS, "start_rows": 1}
    with pytest.raises(ValueError, match="goal_mask: expected None, because jerk takes no goal"):
        quadratic_cost(ACTION, P0, cost=QuadraticCost(), control_map="jerk", dt=0.1, goal_mask=[True] * BATCH)
    with pytest.raises(ValueError, match="goal_rows: expected a number of rows with goal_mask, got None"):
        MAPS["clique"].vjp([ACTION, None, None, None], **sizes, goal_mask=[True])
    with pytest.raises(ValueError, match=r"^goal_rows: expected None, because velocity takes no goal, got 1"):
        MAPS["velocity"].vjp([ACTION, None, None, None], **sizes, goal_rows=1)
    with pytest.raises(ValueError, match=r"^action: expected a horizon >= 2 with a goal, got 1"):
        clique_step(ACTION[:, :1], P0, goal_position=P0, dt=0.1)
    with pytest.raises(ValueError, match=r"^goal_position: expected a tensor with goal_index, got None"):
        clique_step(ACTION, P0, goal_index=[0] * BATCH, dt=0.1)

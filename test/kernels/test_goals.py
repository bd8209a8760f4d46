"""Goals of positions in the place of an action, and goals that hold for some trajectories only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_cases import BACKEND, assert_all_close, cost
from torch.autograd import gradcheck, gradgradcheck

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
KERNELS = {
    **{name: kernel for name, kernel in MAPS.items() if kernel.goal},
    "degree 5": control_map("bspline_tight", bspline_degree=5, bspline_steps=3),
    "degree 4 curobo": control_map("bspline_curobo", bspline_degree=4, bspline_steps=2),
}
EACH = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
KINDS = ("position", "velocity", "acceleration", "jerk")


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def goals(kernel, rows: int) -> dict[str, torch.Tensor]:
    kinds = KINDS if not kernel.goal_place else KINDS[:1]
    return {f"goal_{kind}": normal(rows, DOF, seed=10 + k) for k, kind in enumerate(kinds)}


POSITIONS = pytest.mark.parametrize(
    "kernel", [kernel for kernel in MAPS.values() if kernel.goal_place], ids=lambda kernel: kernel.name
)
ACTION, P0, V0 = normal(BATCH, POINTS, DOF), normal(BATCH, DOF, seed=1), normal(BATCH, DOF, seed=2)
POOLS = {
    "one goal for all, masked by trajectory": (1, None, [True, False, False, True]),
    "one goal each": (BATCH, None, [False, True, True, False]),
    "a pool": (3, [2, 0, 2, 1], [True, False, True]),
}
POOL = pytest.mark.parametrize(("rows", "index", "mask"), POOLS.values(), ids=POOLS)


def holding(index, mask) -> torch.Tensor:
    return torch.tensor(mask if index is None else [mask[i] for i in index])


@POSITIONS
@BACKEND
def test_the_goal_takes_the_place_and_the_gradient_of_the_last_action_that_counts(kernel, backend):
    action, goal = ACTION.clone().requires_grad_(), normal(3, DOF, seed=3).requires_grad_()
    index, place = torch.tensor([2, 0, 2, 2], dtype=torch.int32), kernel.goal_place
    outputs = kernel.step(action, P0, goal_position=goal, goal_index=index, dt=0.1, backend=backend)
    of_action, of_goal, *upstream = torch.autograd.grad(cost(outputs), [action, goal, *outputs])
    sizes = {"action_horizon": POINTS, "start_rows": BATCH, "goal_rows": 3, "goal_index": index}
    product = kernel.vjp(upstream, dt=0.1, **sizes)
    assert_all_close([product[0], product[4]], [of_action, of_goal])
    replaced = ACTION.clone()
    replaced[:, place] = goal.detach()[index.long()]
    wanted = kernel.step(replaced.requires_grad_(), P0, dt=0.1, backend=backend)
    assert_all_close(outputs, wanted)
    assert torch.equal(wanted.position[:, -1], replaced[:, place])
    (whole,) = torch.autograd.grad(cost(wanted), replaced)
    torch.testing.assert_close(of_goal, torch.zeros_like(goal).index_add(0, index, whole[:, place]))
    whole[:, place] = 0
    torch.testing.assert_close(of_action, whole)


@EACH
@BACKEND
@POOL
def test_each_trajectory_is_that_with_or_without_the_goal(kernel, backend, rows, index, mask):
    goal, options = goals(kernel, rows), {"dt": 0.1, "backend": backend}
    index = None if index is None else torch.tensor(index)
    # What does not hold is not read: a NaN may stand there.
    unused = {name: row.clone() for name, row in goal.items()}
    if rows == len(mask):
        for row in unused.values():
            row[~torch.tensor(mask)] = torch.nan
    got = kernel.step(ACTION, P0, V0, **unused, goal_index=index, goal_mask=mask, **options)
    with_goal = kernel.step(ACTION, P0, V0, **goal, goal_index=index, **options)
    without = kernel.step(ACTION, P0, V0, **options)
    holds = holding(None if index is None else index.tolist(), mask)[:, None, None]
    for output, to_goal, to_rest in zip(got, with_goal, without, strict=True):
        torch.testing.assert_close(output, torch.where(holds, to_goal, to_rest), rtol=1e-12, atol=1e-9)


@EACH
@POOL
def test_gradients_and_the_vjp_follow_the_mask(kernel, rows, index, mask):
    goal = {name: row.requires_grad_() for name, row in goals(kernel, rows).items()}
    action, index = ACTION.clone().requires_grad_(), None if index is None else torch.tensor(index)
    holds = torch.tensor(mask)
    outputs = kernel.step(action, P0, V0, **goal, goal_index=index, goal_mask=holds, dt=0.1)
    got = torch.autograd.grad(cost(outputs), [action, *goal.values()], retain_graph=True)
    picks = holding(None if index is None else index.tolist(), mask)
    weight = torch.autograd.grad(cost(outputs), outputs, retain_graph=True)
    for row in range(BATCH):  # the gradient of each trajectory by itself
        one = action[row : row + 1].detach().clone().requires_grad_()
        place = row if index is None else int(index[row])
        rest = {name: value.detach()[min(place, rows - 1)][None] for name, value in goal.items()} if picks[row] else {}
        alone = kernel.step(one, P0[row : row + 1], V0[row : row + 1], **rest, dt=0.1)
        (wanted,) = torch.autograd.grad(alone, one, [w[row : row + 1].detach() for w in weight])
        torch.testing.assert_close(got[0][row : row + 1], wanted, rtol=1e-9, atol=1e-7)
    sizes = {"action_horizon": POINTS, "start_rows": BATCH, "goal_rows": rows, "goal_index": index}
    upstream = [w.detach() for w in weight]
    product = kernel.vjp(upstream, dt=0.1, goal_mask=holds, **sizes)
    count = len(kernel.goal)
    assert_all_close([product[0], *product[4:]], [got[0], *got[1 : 1 + count]])
    only_goal = kernel.vjp(upstream, dt=0.1, goal_mask=holds, **sizes, needs=[False] * 4 + [True] * count)
    assert only_goal[0] is None
    assert_all_close(only_goal[4:], product[4:])


@EACH
def test_derivatives_match_finite_differences(kernel):
    leaves = [normal(2, 3, 1), normal(2, 1, seed=1), normal(2, 1, seed=3)]

    def step(action, start, goal):
        return tuple(kernel.step(action, start, goal_position=goal, goal_mask=[True, False], dt=0.5))

    leaves = [x.requires_grad_() for x in leaves]
    assert gradcheck(step, leaves, check_forward_ad=True)
    assert gradgradcheck(step, leaves)
    if kernel is MAPS["bspline_tight"]:
        torch._dynamo.reset()
        assert_all_close(torch.compile(step, fullgraph=True, backend="eager")(*leaves), step(*leaves))


@EACH
def test_the_cost_is_that_of_the_masked_trajectories(kernel):
    terms = QuadraticCost(position=CostTerm(weight=1.0, target=0.2), jerk=CostTerm(weight=1e-6))
    action, goal = ACTION.clone().requires_grad_(), goals(kernel, 3)
    leaf = goal["goal_position"].requires_grad_()
    options = {"goal_index": [2, 0, 2, 1], "goal_mask": np.array([1, 0, 1], np.uint8), "dt": 0.1}
    values = quadratic_cost(action, P0, V0, **goal, cost=terms, control_map=kernel, **options)
    motion = kernel.step(action, P0, V0, **goal, **options)
    wanted = (motion.position - 0.2).square().sum((1, 2)) + 1e-6 * motion.jerk.square().sum((1, 2))
    torch.testing.assert_close(values, wanted)
    assert_all_close(
        torch.autograd.grad(values.sum(), [action, leaf]), torch.autograd.grad(wanted.sum(), [action, leaf])
    )


@pytest.mark.parametrize(
    "kernel", [KERNELS["bspline_tight"], KERNELS["degree 4 curobo"]], ids=lambda kernel: kernel.name
)
def test_fit_evaluation_and_segments_take_the_mask(kernel):
    form = dict(zip(("degree", "steps", "layout"), kernel.scheme, strict=True))
    common = {**goals(kernel, 3), "goal_index": [2, 0, 2, 1], "goal_mask": [True, False, True], "dt": 0.1, **form}
    motion = kernel.step(ACTION, P0, V0, **{name: value for name, value in common.items() if name not in form})
    times = torch.arange(motion.position.shape[1], dtype=torch.float64) * 0.1
    assert_all_close(evaluate_bspline(ACTION, P0, V0, times=times, **common)[:3], motion[:3])
    fitted = fit_bspline(motion.position, P0, V0, **common)
    used = POINTS - (form["layout"] == "curobo")
    assert_all_close([fitted[:, :used]], [ACTION[:, :used]])
    assert_all_close([fitted[3, -1]], [ACTION[3, -1]])  # trajectory 3 rests there
    pieces = bspline_segments(ACTION, P0, V0, **common)
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

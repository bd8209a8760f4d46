"""Goal states through the engine: the numbers and gradients of the public functions, in whole and in parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from traj_integrator_ros.engine.integrator import (
    IntegratorConfig,
    StartState,
    TrajectoryIntegrator,
    UpstreamGradient,
)
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import ControlSpace, SplineForm

# Control space, difference, and form of splines (None: the configured one).
KINDS = {
    "bspline": (ControlSpace.BSPLINE, "backward", None),
    "bspline of its own form": (ControlSpace.BSPLINE, "backward", SplineForm(5, 3, "curobo")),
    "clique": (ControlSpace.POSITION, "backward", None),
    "clique_central": (ControlSpace.POSITION, "central", None),
}
BATCH, HORIZON, DOF = 4, 6, 3
KIND = pytest.mark.parametrize(("space", "difference", "form"), KINDS.values(), ids=KINDS)


def states(rows: int, count: int = 3) -> StartState:
    return StartState(*np.random.default_rng(rows).standard_normal((count, rows, DOF)))


@KIND
@pytest.mark.parametrize("pooled", [True, False], ids=["pool", "rows"])
@pytest.mark.parametrize("staged", [False, True], ids=["direct", "staged"])
def test_goals_give_the_numbers_and_gradients_of_the_public_functions(space, difference, form, pooled, staged):
    config = IntegratorConfig(dof=DOF, dtype="float64", device="cpu", finite_difference=difference)
    executor = StagedRunner(torch.device("cpu"), torch.float64, max_graphs=0) if staged else None
    engine = TrajectoryIntegrator(config, executor)
    kernel = engine.control_map(space, form)
    actions = np.random.default_rng(0).standard_normal((BATCH, HORIZON, DOF))
    start, goal = states(2), states(3 if pooled else 1, len(kernel.goal))
    start_index, goal_index = np.array([1, 0, 0, 1]), np.array([0, 2, 2, 1]) if pooled else None
    given = {"control_space": space, "start_index": start_index, "goal": goal, "goal_index": goal_index, "spline": form}
    got = [x.clone() for x in engine.integrate(start, actions, 0.1, **given)]
    leaves = [torch.tensor(x, requires_grad=True) for x in (actions, *start.rows, np.float64(0.1))]
    goals = {
        f"goal_{kind}": torch.tensor(row, requires_grad=True) for kind, row in zip(kernel.goal, goal.rows, strict=False)
    }
    indices = {"start_index": torch.tensor(start_index), "goal_index": torch.tensor(goal_index) if pooled else None}
    wanted = kernel.step(*leaves[:4], dt=leaves[4], **goals, **indices)
    for output, want in zip(got, wanted, strict=True):
        torch.testing.assert_close(output, want.detach())
    upstream = [np.random.default_rng(i).standard_normal(output.shape) for i, output in enumerate(got)]
    expected = torch.autograd.grad(wanted, [*leaves, *goals.values()], [torch.tensor(g) for g in upstream])
    gradient = engine.vjp(start, UpstreamGradient(*upstream), actions=actions, dt=0.1, want_dt=True, **given)
    for value, want in zip(gradient, expected, strict=False):
        torch.testing.assert_close(value, want)
    assert all(value is None for value in gradient[len(expected) :])
    without = {**given, "goal": None, "goal_rows": goal.position.shape[0]}
    size = {"batch": BATCH, "action_horizon": HORIZON, "start_rows": 2, "dt": 0.1}
    again = engine.vjp_arrays(None, UpstreamGradient(*upstream), **size, **without)
    np.testing.assert_allclose(again.goal_position, expected[5].numpy())
    assert again.values.size == sum(x.size for x in (*again[:4], *again[6:]) if x is not None)


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

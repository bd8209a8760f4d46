"""A goal in position control: in the place of the last action that the trajectory sees, with all of its gradient."""

from __future__ import annotations

import pytest
import torch
from operator_cases import BACKEND, assert_all_close, cost

from traj_integrator_ros.kernels import MAPS, clique_central_step, clique_step

STEPS = {"clique": clique_step, "clique_central": clique_central_step}
EACH = pytest.mark.parametrize("name", STEPS)


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


@EACH
def test_the_last_row_is_the_goal(name):
    action, start, goal = random(3, 6, 2), random(3, 2), random(1, 2)
    position = STEPS[name](action, start, goal_position=goal, dt=0.1).position
    assert torch.equal(position[:, -1], goal.expand(3, 2))
    assert torch.equal(position[:, :-3], STEPS[name](action, start, dt=0.1).position[:, :-3])


@EACH
@BACKEND
def test_the_gradient_goes_to_the_goal_and_none_to_the_action_it_replaces(name, backend):
    place = MAPS[name].goal_place
    action, start, goal = random(4, 6, 2).requires_grad_(), random(4, 2), random(3, 2).requires_grad_()
    index = torch.tensor([2, 0, 2, 2], dtype=torch.int32)
    outputs = STEPS[name](action, start, goal_position=goal, goal_index=index, dt=0.1, backend=backend)
    of_action, of_goal, *upstream = torch.autograd.grad(cost(outputs), [action, goal, *outputs])
    sizes = {"action_horizon": 6, "start_rows": 4, "goal_rows": 3, "goal_index": index}
    product = MAPS[name].vjp(upstream, dt=0.1, **sizes)
    assert_all_close([product[0], product[4]], [of_action, of_goal])
    with torch.no_grad():
        replaced = action.detach().clone()
        replaced[:, place] = goal[index.long()]
    replaced.requires_grad_()
    wanted = STEPS[name](replaced, start, dt=0.1, backend=backend)
    assert_all_close(outputs, wanted)
    (whole,) = torch.autograd.grad(cost(wanted), replaced)
    assert not of_action[:, place].any()
    rows = torch.zeros_like(goal).index_add(0, index, whole[:, place])
    torch.testing.assert_close(of_goal, rows)
    keep = torch.ones(6, dtype=torch.bool)
    keep[place] = False
    torch.testing.assert_close(of_action[:, keep], whole[:, keep])


def test_misuse_is_named():
    action, row = torch.zeros(2, 1, 3), torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"^action: expected a horizon >= 2 with a goal, got 1"):
        clique_step(action, row, goal_position=row, dt=0.1)
    with pytest.raises(ValueError, match=r"^goal_position: expected a tensor with goal_index, got None"):
        clique_step(action, row, goal_index=torch.zeros(2, dtype=torch.int64), dt=0.1)
    with pytest.raises(ValueError, match=r"^goal_rows: expected None, because velocity takes no goal, got 1"):
        MAPS["velocity"].vjp((action, None, None, None), dt=0.1, action_horizon=1, start_rows=2, goal_rows=1)

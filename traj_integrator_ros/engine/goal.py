"""Goals in position control, which take the place of one of the actions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .buffers import Buffers
from .call import NO_ENDS, Call


def with_goal_in_actions(call: Call, buffers: Buffers) -> Call:
    """Return a call without goal, whose actions are a copy, on the host, with the goal in place of one of them."""
    copy = buffers.view("output", "actions to the goal", call.shape)
    if isinstance(call.actions, np.ndarray):
        np.copyto(copy.numpy(), call.actions, casting="same_kind")
    else:
        copy.copy_(call.actions.detach())
    position, index = call.goal.rows[0], call.goal.index
    rows = torch.from_numpy(position.copy()) if isinstance(position, np.ndarray) else position.detach().cpu()
    copy[:, call.kernel.goal_place] = rows if index is None else rows[torch.from_numpy(index)]
    return call._replace(actions=copy, goal=NO_ENDS)


def replaces_action(call: Call) -> bool:
    """Whether the goal of a call takes the place of an action."""
    return call.goal.count is not None and call.kernel.goal_place != 0


def gradient_to_goal(action: Tensor, goal: Tensor, index: np.ndarray | None, place: int) -> None:
    """Move the gradient of the replaced actions to the goal rows."""
    replaced = action[:, place]
    if index is not None:
        total = torch.zeros(goal.shape, dtype=torch.float64)
        goal.copy_(total.index_add_(0, torch.from_numpy(index), replaced.double()))
    elif goal.shape[0] == replaced.shape[0]:
        goal.copy_(replaced)
    else:
        goal.copy_(replaced.double().sum(0, keepdim=True))
    replaced.zero_()

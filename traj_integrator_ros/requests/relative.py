"""Relative actions: increments become the absolute positions that they mean. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .rejection import require_finite
from .sequences import ActionRequest

Observe = Callable[[np.ndarray], np.ndarray]
"""Returns the observation, rad, `[dof]`, given the joints that need it, bool `[dof]`; raises Rejected."""


def absolute(request: ActionRequest, relative: np.ndarray, observe: Observe) -> ActionRequest:
    """Return a request whose positions, or control points, are absolute; other requests stay as they are.

    Start and goal are absolute in every request. The result has the precision of a message, so that it is the request
    of a sender that had added the observation itself.

    Args:
        request: a checked sequence.
        relative: joints whose actions are relative to the observation, and to the step before, bool `[2, dof]`. The
            first step of the latter is relative to the observation.
        observe: see `Observe`; called only for a request with relative joints.

    Raises:
        Rejected: as `observe` does; not_finite, where a sum of increments is too large for a message.

    """
    actions = request.actions
    if actions is None or not np.count_nonzero(relative) or not request.has_positions:
        return request
    joints = relative.any(axis=0)
    rows = actions.astype(np.float64)
    rows[..., relative[1]] = rows[..., relative[1]].cumsum(axis=1)
    rows[..., joints] += observe(joints)[joints]
    with np.errstate(over="ignore"):
        narrowed = rows.astype(actions.dtype)
    require_finite("data", narrowed)
    return request._replace(actions=narrowed)

"""How close to its limits a plan may come: what the node commands of rows of plans that use theirs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from soak.streams.plans import Way
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.handling.rejection import Rejected
from traj_integrator_ros.kernels import ControlSpace

from ..executed.motions import actions_of, bounds, rows_of
from ..executed.senders import Node
from .executed import executed_points
from .paths import Limits

STEPS_S = (0.01, 0.02, 0.05, 0.1)
_NOW_NS, _DOF = 1_000_000_000_000, 7


def jerk_limited(seed: int, dt: float) -> np.ndarray:
    """Rows `[3, H + 1, 7]` of the fastest motion between two rests, and some at rest: otherwise a brake is added."""
    begin, end = np.random.default_rng(seed).uniform(-1, 1, (2, _DOF))
    return rows_of(Way(0.0, np.stack([begin, *np.zeros((2, _DOF))]), end, bounds(_DOF)), dt, 4)


def commanded(states: np.ndarray, space: ControlSpace, dt: float, **parameters: object) -> np.ndarray:
    """Greatest velocity, acceleration and jerk that is executed before a plan ends, relative to its limits."""
    node = Node(_DOF, **parameters)
    start = State(*states[:, 0])
    node.measure(start, _NOW_NS)
    times, *points = node.send(actions_of(states, space, dt), dt=dt, now_ns=_NOW_NS, space=space).points
    limits: Limits = bounds(_DOF)._asdict()
    limits["deceleration"] = limits["acceleration"]
    return executed_points(times * 1e-9, [part for part in points if part is not None], limits, settled=-2)


def margins(count: int, seed: int) -> Iterator[tuple[ControlSpace, float, np.ndarray]]:
    """The worst of `count` plans for each control space and step, without a brake."""
    spaces = (ControlSpace.POSITION, ControlSpace.VELOCITY, ControlSpace.ACCELERATION, ControlSpace.JERK)
    for space, dt in product(spaces, STEPS_S):
        plans = (jerk_limited(seed + k, dt) for k in range(count))
        yield space, dt, np.max([commanded(plan, space, dt, publish__end="as_planned") for plan in plans], axis=0)


def accepted(action: str, count: int, seed: int, dt: float = 0.02) -> tuple[int, float]:
    """How many plans a node with the plans' own limits accepts, and the greatest ratio that is executed of them."""
    given = {f"limits__{name}": limit.tolist() for name, limit in bounds(_DOF)._asdict().items()}
    kept, worst = 0, 0.0
    for k in range(count):
        try:
            found = commanded(jerk_limited(seed + k, dt), ControlSpace.POSITION, dt, limits__action=action, **given)
        except Rejected:
            continue
        kept, worst = kept + 1, max(worst, float(found.max()))
    return kept, worst

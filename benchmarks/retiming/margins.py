"""How close to its limits a plan may come: what the node commands of rows of plans that use theirs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.handling.rejection import Rejected
from traj_integrator_ros.kernels import ControlSpace

from ..executed.motions import actions_of
from ..executed.senders import Node
from .executed import executed_points
from .paths import Limits

STEPS_S = (0.01, 0.02, 0.05, 0.1)
SPACES = (ControlSpace.POSITION, ControlSpace.VELOCITY, ControlSpace.ACCELERATION, ControlSpace.JERK)
VELOCITY, ACCELERATION, JERK = 2.0, 5.0, 50.0
_NOW_NS, _DOF = 1_000_000_000_000, 7


def jerk_limited(seed: int, dt: float) -> np.ndarray:
    """Rows `[3, H + 1, 7]` of the fastest motion between two rests, and some at rest."""
    import ruckig

    rng = np.random.default_rng(seed)
    inputs = ruckig.InputParameter(_DOF)
    inputs.current_position, inputs.target_position = rng.uniform(-1, 1, (2, _DOF)).tolist()
    inputs.max_velocity, inputs.max_acceleration, inputs.max_jerk = ([x] * _DOF for x in (VELOCITY, ACCELERATION, JERK))
    found = ruckig.Trajectory(_DOF)
    ruckig.Ruckig(_DOF).calculate(inputs, found)
    times = np.arange(int(np.ceil(found.duration / dt)) + 4) * dt  # rows at rest: otherwise a brake is added
    return np.array([found.at_time(min(t, found.duration)) for t in times.tolist()])[:, :3].transpose(1, 0, 2)


def commanded(states: np.ndarray, space: ControlSpace, dt: float, **parameters: object) -> np.ndarray:
    """Greatest velocity, acceleration and jerk that is executed before a plan ends, relative to its limits."""
    node = Node(_DOF, **parameters)
    start = State(*states[:, 0])
    node.measure(start, _NOW_NS)
    times, *points = node.send(actions_of(states, space, dt), dt=dt, now_ns=_NOW_NS, space=space).points
    each = np.ones(_DOF)
    limits: Limits = {"velocity": VELOCITY * each, "jerk": JERK * each}
    limits |= {"acceleration": ACCELERATION * each, "deceleration": ACCELERATION * each}
    return executed_points(times * 1e-9, [part for part in points if part is not None], limits, settled=-2)


def margins(count: int, seed: int) -> Iterator[tuple[ControlSpace, float, np.ndarray]]:
    """The worst of `count` plans for each control space and step, without a brake."""
    for space, dt in product(SPACES, STEPS_S):
        yield (
            space,
            dt,
            np.max(
                [commanded(jerk_limited(seed + k, dt), space, dt, publish__end="as_planned") for k in range(count)],
                axis=0,
            ),
        )


def accepted(action: str, count: int, seed: int, dt: float = 0.02) -> tuple[int, float]:
    """How many plans a node with the plans' own limits accepts, and the greatest ratio that is executed of them."""
    limits = {"velocity": [VELOCITY] * _DOF, "acceleration": [ACCELERATION] * _DOF, "jerk": [JERK] * _DOF}
    given = {f"limits__{name}": values for name, values in limits.items()}
    kept, worst = 0, 0.0
    for k in range(count):
        try:
            found = commanded(jerk_limited(seed + k, dt), ControlSpace.POSITION, dt, limits__action=action, **given)
        except Rejected:
            continue
        kept, worst = kept + 1, max(worst, float(found.max()))
    return kept, worst

"""Motions of random paths, and plans at their limits through the node, played by a model of the controller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import torch

from soak.streams.core import Message
from soak.streams.plans import Way
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.kernels.retime import Retimed, retime
from traj_integrator_ros.requests.inputs import Actions

from ..executed.motions import actions_of, bounds, rows_of
from ..executed.playing import CYCLE_NS, CYCLE_S, Controller, Node
from .paths import Limits, as_limits, random_limits, random_path, ratios, states_of

MOST = 1.001
"""Largest ratio to the limits that may be executed."""
STEPS_S = (0.01, 0.02, 0.05, 0.1)
_NOW_NS, _DOF = 1_000_000_000_000, 7
_SETTLED = 3


def random_motion(rng: np.random.Generator) -> tuple[Retimed, Limits]:
    """A path of 2 to 30 rows of 1 to 7 joints with limits, and its fastest motion."""
    dof = int(rng.integers(1, 8))
    limits = random_limits(rng, dof)
    way = random_path(rng, int(rng.integers(2, 31)), dof, size=float(rng.uniform(0.05, 0.8)))
    return retime(torch.tensor(way)[None], as_limits(limits)), limits


def executed_ratios(motion: Retimed, limits: Limits, *, blending: bool = False) -> np.ndarray:
    """`executed_points` of one trajectory."""
    return executed_points(*states_of(motion, 0), limits, blending=blending)


def executed_points(
    times: np.ndarray,
    states: Sequence[np.ndarray],
    limits: Limits,
    *,
    blending: bool = False,
    settled: int = _SETTLED,
) -> np.ndarray:
    """Greatest ratios `[3]` of commands at 1 kHz: differences of velocities, and of positions.

    Args:
        times: of the points, s.
        states: their positions, velocities and perhaps accelerations.
        limits: of the joints.
        blending: whether the controller blends trajectories.
        settled: cycles after the last point that count, too; fewer than 0: the last ones do not.

    """
    time_ns = np.rint(times * 1e9).astype(np.int64)
    three = [*states, *[None] * (3 - len(states))]
    start = State(*(np.zeros_like(states[0][0]) if state is None else state[0] for state in three))
    controller = Controller(start, _NOW_NS, blending=blending)
    controller.receive(Message(0, Points(time_ns, *three)), _NOW_NS)
    controller.run(_NOW_NS + (int(time_ns[-1]) // CYCLE_NS + settled) * CYCLE_NS)
    of_position, of_velocity = (
        [np.diff(states, n, axis=0) / CYCLE_S**n for n in range(4)] for states in controller.commanded().states[:2]
    )
    return np.maximum(ratios(*of_velocity[:3], limits), ratios(*of_position[1:], limits))


# Distance to the limits: the node's commands for rows of plans that use them


def jerk_limited(seed: int, dt: float) -> np.ndarray:
    """Rows `[3, H + 1, 7]` of the fastest motion between two rests, and a few at rest, since a brake would be added."""
    begin, end = np.random.default_rng(seed).uniform(-1, 1, (2, _DOF))
    return rows_of(Way(0.0, np.stack([begin, *np.zeros((2, _DOF))]), end, bounds(_DOF)), dt, 4)


def commanded(states: np.ndarray, space: ControlSpace, dt: float, **parameters: object) -> np.ndarray:
    """Greatest velocity, acceleration and jerk that is executed before a plan ends, relative to its limits.

    They are the node's, too.
    """
    given = {f"limits__{name}": limit.tolist() for name, limit in bounds(_DOF)._asdict().items()}
    node = Node(_DOF, **given, **parameters)
    node.measure(State(*states[:, 0]), _NOW_NS)
    fields = Actions(0, space.value, dt, actions_of(states, space, dt))
    times, *points = node.answer(fields, _NOW_NS).points
    limits: Limits = bounds(_DOF)._asdict()
    limits["deceleration"] = limits["acceleration"]
    return executed_points(times * 1e-9, [part for part in points if part is not None], limits, settled=-2)


def margins(count: int, seed: int) -> Iterator[tuple[ControlSpace, float, np.ndarray]]:
    """The worst of `count` plans for each control space and step, without a brake; the node only warns of excess."""
    spaces = (ControlSpace.POSITION, ControlSpace.VELOCITY, ControlSpace.ACCELERATION, ControlSpace.JERK)
    for space, dt in product(spaces, STEPS_S):
        plans = (jerk_limited(seed + k, dt) for k in range(count))
        options = {"publish__end": "as_planned", "limits__action": "warn"}
        yield space, dt, np.max([commanded(plan, space, dt, **options) for plan in plans], axis=0)

"""Motions of random paths, and plans at their limits through the node, played by a model of the controller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import torch

from kit.arm import Robot
from rig.player import Player
from soak.streams.core import NodeCore
from soak.streams.plans import Bounds, Way
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.kernels.retime import Retimed, retime
from traj_integrator_ros.requests.inputs import Actions

from ..chunks import CYCLE_S
from .paths import Limits, as_limits, random_limits, random_path, ratios, states_of

MOST = 1.001
"""Largest ratio to the limits that may be executed."""
STEPS_S = (0.01, 0.02, 0.05, 0.1)
_NOW_NS, _DOF = 1_000_000_000_000, 7
_SETTLED = 3
_CYCLE_NS = 1_000_000
_BOUNDS = Bounds(*(np.full(_DOF, limit) for limit in (2.0, 5.0, 50.0)))
"""Limits of the plans: rad/s, rad/s^2, rad/s^3."""


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

    Points have times, s, and positions, velocities and perhaps accelerations; so many `settled` cycles after the last
    one count, too, or if fewer than 0, the last ones do not. The controller may be `blending` trajectories.
    """
    time_ns = np.rint(times * 1e9).astype(np.int64)
    three = [*states, *[None] * (3 - len(states))]
    names = [f"joint{i}" for i in range(states[0].shape[1])]
    robot = Robot(names, allow_nonzero_velocity_at_trajectory_end=True, hard_replacement=not blending)
    start = [np.zeros_like(states[0][0]) if part is None else part[0] for part in three]
    robot.set_state(*start)
    if not robot.receive(names, time_ns, *three, now_ns=_NOW_NS):
        raise RuntimeError(robot.refusal)
    player = Player(robot, _NOW_NS)
    player.go((int(time_ns[-1]) // _CYCLE_NS + settled) * CYCLE_S)
    commanded = np.array([start, *(row.command for row in player.rows)])
    of_position, of_velocity = ([np.diff(commanded[:, k], n, axis=0) / CYCLE_S**n for n in range(4)] for k in (0, 1))
    return np.maximum(ratios(*of_velocity[:3], limits), ratios(*of_position[1:], limits))


# Distance to the limits: the node's commands for rows of plans that use them


def jerk_limited(seed: int, dt: float) -> np.ndarray:
    """Rows `[3, H + 1, 7]` of the fastest motion between two rests, and a few at rest, since a brake would be added."""
    begin, end = np.random.default_rng(seed).uniform(-1, 1, (2, _DOF))
    way = Way(0.0, np.stack([begin, *np.zeros((2, _DOF))]), end, _BOUNDS)
    return way.states(np.minimum(np.arange(int(np.ceil(way.duration / dt)) + 4) * dt, way.duration))


def actions_of(states: np.ndarray, space: ControlSpace, dt: float) -> np.ndarray:
    """Actions that lead from row to row: positions, or mean velocities, accelerations and jerks of the steps."""
    if space is ControlSpace.POSITION:
        return states[0, 1:]
    order = {ControlSpace.VELOCITY: 0, ControlSpace.ACCELERATION: 1, ControlSpace.JERK: 2}[space]
    return np.diff(states[order], axis=0) / dt


def commanded(states: np.ndarray, space: ControlSpace, dt: float, **parameters: object) -> np.ndarray:
    """Greatest velocity, acceleration and jerk that is executed before a plan ends, relative to its limits.

    They are the node's, too.
    """
    limits: Limits = _BOUNDS._asdict()
    given = {f"limits__{name}": limit.tolist() for name, limit in limits.items()}
    node = NodeCore([f"joint{i}" for i in range(_DOF)], **given, **parameters)
    node.joint_state(*states[:2, 0], _NOW_NS)
    times, *points = node.execute(Actions(0, space.value, dt, actions_of(states, space, dt)), _NOW_NS).points
    limits["deceleration"] = limits["acceleration"]
    return executed_points(times * 1e-9, [part for part in points if part is not None], limits, settled=-2)


def margins(count: int, seed: int) -> Iterator[tuple[ControlSpace, float, np.ndarray]]:
    """The worst of `count` plans for each control space and step, without a brake; the node only warns of excess."""
    spaces = (ControlSpace.POSITION, ControlSpace.VELOCITY, ControlSpace.ACCELERATION, ControlSpace.JERK)
    for space, dt in product(spaces, STEPS_S):
        plans = (jerk_limited(seed + k, dt) for k in range(count))
        options = {"publish__end": "as_planned", "limits__action": "warn"}
        yield space, dt, np.max([commanded(plan, space, dt, **options) for plan in plans], axis=0)

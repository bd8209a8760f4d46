"""Motions of random paths, played cycle by cycle by a model of joint_trajectory_controller."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
import torch

from soak.streams.core import Message
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.kernels.retime import Retimed, retime

from ..executed.controller import CYCLE_NS, CYCLE_S, Controller
from .paths import Limits, as_limits, random_limits, random_path, ratios, states_of

MOST = 1.001
"""Ratio to the limits that may be executed."""
_BEGIN_NS = 1_000_000_000
_SETTLED = 3


def random_motion(rng: np.random.Generator) -> tuple[Retimed, Limits]:
    """A path of 2 to 30 rows of 1 to 7 joints with limits, and its fastest motion."""
    dof = int(rng.integers(1, 8))
    limits = random_limits(rng, dof)
    way = random_path(rng, int(rng.integers(2, 31)), dof, size=float(rng.uniform(0.05, 0.8)))
    return retime(torch.tensor(way)[None], as_limits(limits)), limits


def executed_ratios(motion: Retimed, limits: Limits, model: ModuleType | None = None) -> np.ndarray:
    """`executed_points` of one trajectory."""
    return executed_points(*states_of(motion, 0), limits, model)


def executed_points(
    times: np.ndarray,
    states: Sequence[np.ndarray],
    limits: Limits,
    model: ModuleType | None = None,
    *,
    settled: int = _SETTLED,
) -> np.ndarray:
    """Greatest ratios `[3]` of what is commanded at 1 kHz: the states, and differences of positions and velocities.

    Args:
        times: of the points, s.
        states: their positions, velocities and perhaps accelerations.
        limits: of the joints.
        model: a module that models the controller; default: the model of `benchmarks.executed`.
        settled: cycles after the last point that count, too; fewer than 0: the last ones do not.

    """
    time_ns = np.rint(times * 1e9).astype(np.int64)
    cycles = int(time_ns[-1]) // CYCLE_NS + settled
    three = [*states, *[None] * (3 - len(states))]
    zeros = np.zeros_like(states[0][0])
    start = [zeros if state is None else state[0] for state in three]
    if model is None:
        controller = Controller(State(*start), _BEGIN_NS)
        controller.receive(Message(0, Points(time_ns, *three)), _BEGIN_NS)
        controller.run(_BEGIN_NS + cycles * CYCLE_NS)
        p, v = controller.commanded()[:2]
        a = np.diff(v, axis=0) / CYCLE_S
    else:
        joints = [f"joint{i}" for i in range(states[0].shape[1])]
        other = model.Controller(joints, 1e9 / CYCLE_NS, allow_nonzero_velocity_at_trajectory_end=True)
        other.set_state(*start)
        if not other.receive(joints, time_ns, *three):
            raise RuntimeError(other.refusal)
        _, p, v, a = other.run(0.0, cycles * CYCLE_S)
    by_states = ratios(v, a, np.diff(a, axis=0) / CYCLE_S, limits)
    return np.maximum(by_states, ratios(*(np.diff(p, n, axis=0) / CYCLE_S**n for n in (1, 2, 3)), limits))

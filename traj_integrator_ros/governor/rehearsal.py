"""A rehearsal of all that a sequence passes, without which the first one would be ten times slower. Knows no ROS."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from ..engine.integrator import TrajectoryIntegrator
from ..execution.motion import State
from ..kernels import ControlSpace
from ..parameters.parameters import NodeParameters
from ..parameters.table import ACTION_RETIME, START_FROM_PREVIOUS
from ..requests.inputs import Actions, Positions
from ..requests.rejection import Rejected
from .controller_reports import ControllerReport
from .executable import ExecutableTrajectory
from .executor import Executor

_BEGIN_NS = 1_000_000_000_000
"""Time at which the rehearsal begins, ns, by a clock of its own."""
_EVERY_NS = 100_000_000
"""Time between two sequences, ns: a policy at 10 Hz."""
_ROWS = 16
"""Number of rows of a sequence, as policies send it."""
_DT_S = 0.05
"""Time step of a sequence, s, as policies send it."""
_SHARE = 0.2
"""Share of their largest velocity and of their range that joints use."""


def rehearse(parameters: NodeParameters, engine: TrajectoryIntegrator | None = None) -> list[ExecutableTrajectory]:
    """Execute motions of every kind without a robot: blended, noisy, too fast, stopped.

    Returns:
        The trajectories, which are not published and leave no trace.

    """
    assumed = parameters.limits_assumed_velocity or 1.0
    usual = {"limits_action": ACTION_RETIME, "start_from": START_FROM_PREVIOUS, "relative_to": ()}
    rehearsed = replace(parameters, limits_assumed_velocity=assumed, **usual)
    executor = Executor(rehearsed, engine)
    made: list[ExecutableTrajectory] = []
    now_ns, (place, way) = _BEGIN_NS, _place_and_way(executor)
    rows = min(_ROWS, rehearsed.max_horizon)
    share = np.linspace(0.0, 1.0, rows + 1)[1:, None]
    along, noise = share**2 * (3 - 2 * share), 2e-3 * (-1.0) ** np.arange(rows)[:, None]
    leap = 0.5 + 0.5 * np.tanh(40 * (share - 0.5))
    position, velocity = ControlSpace.POSITION.value, ControlSpace.VELOCITY.value
    shapes = along, along + 0.02, along + noise, leap
    plans: list[Actions | Positions | None] = [
        *(Actions(0, position, _DT_S, place + way * shape) for shape in shapes),
        Actions(0, velocity, _DT_S, np.tile(way, (rows, 1))),
        Positions(0, _DT_S * np.arange(1, rows + 1), place + way * along),
        None,
    ]
    for plan in plans:
        now_ns += _EVERY_NS
        with suppress(Rejected), np.errstate(all="ignore"):
            _tell(executor, place, now_ns)
            executor.tick(now_ns)
            if isinstance(plan, Actions):
                plan = plan._replace(stamp_ns=now_ns)
            if (trajectory := executor.stop(now_ns) if plan is None else executor.execute(plan, now_ns)) is not None:
                made.append(trajectory)
    return made


def _place_and_way(executor: Executor) -> tuple[np.ndarray, np.ndarray]:
    """Return positions in the middle of the joints' ranges, and how far the joints move from there, rad, `[dof]`."""
    bounds = executor.assumed.bounds
    low, high = bounds.position_min, bounds.position_max
    bounded = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):
        place = np.clip(np.where(bounded, (low + high) / 2, 0.0), low, high)
    size = np.where(bounded, high - low, np.inf)
    return place, _SHARE * np.minimum(size, bounds.velocity * _ROWS * _DT_S)


def _tell(executor: Executor, place: np.ndarray, now_ns: int) -> None:
    """Give the executor a joint state and a report of a robot that follows exactly."""
    state = executor.published.commanded(now_ns) or State(place, np.zeros_like(place))
    executor.joint_state(state.position, state.velocity, now_ns)
    executor.report(ControllerReport(now_ns, State(state.position, state.velocity).known), now_ns)

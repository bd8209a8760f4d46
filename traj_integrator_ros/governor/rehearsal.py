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
    executor = Executor(replace(parameters, limits_assumed_velocity=assumed, **usual), engine)
    bounds, now_ns = executor.assumed.bounds, _BEGIN_NS
    low, high = bounds.position_min, bounds.position_max
    with np.errstate(invalid="ignore"):
        place = np.where(np.isfinite(high - low), (low + high) / 2, np.clip(0.0, low, high))
    way = _SHARE * np.minimum(high - low, bounds.velocity * _ROWS * _DT_S)
    share = np.linspace(0.0, 1.0, min(_ROWS, parameters.max_horizon) + 1)[1:, None]
    along, noise = share**2 * (3 - 2 * share), 2e-3 * (-1.0) ** np.arange(len(share))[:, None]
    shapes = along, along + 0.02, along + noise, 0.5 + 0.5 * np.tanh(40 * (share - 0.5))
    spaces = [(ControlSpace.POSITION, place + way * shape) for shape in shapes]
    spaces.append((ControlSpace.VELOCITY, np.tile(way, (len(share), 1))))
    times = _DT_S * np.arange(1, len(share) + 1)
    plans = [*(Actions(0, space.value, _DT_S, rows) for space, rows in spaces), Positions(0, times, spaces[0][1]), None]
    made: list[ExecutableTrajectory | None] = []
    for plan in plans:
        now_ns += _EVERY_NS
        with suppress(Rejected), np.errstate(all="ignore"):
            # The robot and its controller follow exactly.
            state = executor.published.commanded(now_ns) or State(place, np.zeros_like(place))
            executor.joint_state(state.position, state.velocity, now_ns)
            executor.report(ControllerReport(now_ns, State(*state[:2]).known), now_ns)
            executor.tick(now_ns)
            if isinstance(plan, Actions):
                plan = plan._replace(stamp_ns=now_ns)
            made.append(executor.stop(now_ns) if plan is None else executor.execute(plan, now_ns))
    return [one for one in made if one is not None]

"""From actions to the points of a message: motion, points and limits, what they add to each published trajectory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from traj_integrator_ros.execution.brake import brake
from traj_integrator_ros.execution.fade import join
from traj_integrator_ros.execution.limits import Limits, first_violation
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.points import points_of
from traj_integrator_ros.execution.rows import Hold, motion_of_actions
from traj_integrator_ros.execution.spline import cubic_spline

from ..checks import is_close_to
from ..registry import Case, Contender, suite

DT = 0.02
MOST_US = 20.0
"""Most that the spline may take for 32 x 7."""


@suite("execution")
def execution(quick: bool) -> Iterator[Case]:
    for horizon in (32,) if quick else (16, 32, 128):
        yield from steps_to_the_message(horizon)


def steps_to_the_message(horizon: int, dof: int = 7) -> Iterator[Case]:
    """The parts of what happens to one trajectory, each with a solution of the whole system as peer of the spline."""
    times = np.arange(horizon + 1) * DT
    rows = np.sin(times[:, None] * np.arange(1, dof + 1) / 4)
    steps, begin = np.full(horizon, DT), State(rows[0], np.arange(1, dof + 1) / 4.0, np.zeros(dof))
    high = np.full(dof, 100.0)
    limits = Limits(-high, high, high, high, high)
    spline = cubic_spline(steps, rows, begin.velocity)
    moved = State(rows[0] + 0.01, begin.velocity + 0.1, np.ones(dof))

    def solved() -> np.ndarray:
        system = np.diag(np.full(horizon + 1, 4.0)) + np.eye(horizon + 1, k=1) + np.eye(horizon + 1, k=-1)
        right = np.empty_like(rows)
        right[1:-1] = 3 * (rows[2:] - rows[:-2]) / DT
        system[0, :2], right[0] = (1.0, 0.0), begin.velocity
        system[-1, -2:], right[-1] = (0.5, 0.5), (rows[-1] - rows[-2]) / DT
        return np.linalg.solve(system, right)

    def case(name: str, run, *peers: Contender, most_us: float | None = None) -> Case:
        expected = torch.from_numpy(np.asarray(run()))
        ours = Contender("ours", run, is_close_to(expected))
        return Case(name, 1, horizon, dof, ours, peers, dtype="float64", most_us=most_us)

    knots = torch.from_numpy(solved()[:-1])
    peer = Contender("np.linalg.solve of the system", lambda: solved()[:-1], is_close_to(knots))
    yield case(
        "spline",
        lambda: cubic_spline(steps, rows, begin.velocity).coefficients[:, 1],
        peer,
        most_us=MOST_US if horizon == 32 else None,
    )
    yield case("spline, points, limits", lambda: _published(cubic_spline(steps, rows, begin.velocity), limits))
    yield case("replacement: fade of p, v, a", lambda: join(spline, moved, 0.2).coefficients[:, 0])
    yield case(
        "position actions to points",
        lambda: _published(motion_of_actions(Hold.POSITION, steps, rows[1:], begin), limits),
    )
    yield case("brake", lambda: brake(spline.end, DT, acceleration=high / 10, jerk=high).coefficients[:, 0])


def _published(motion, limits: Limits) -> np.ndarray:
    if first_violation(motion, limits) is not None:
        raise AssertionError("limits are far away")
    return points_of(motion).position

"""From plans to trajectories: the parts compared with scipy and a solver, and the time added to the node's path."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from soak.streams.core import pipeline_of
from traj_integrator_ros.execution.join import Bounds, Joining, join
from traj_integrator_ros.execution.limits import Limits, worst_violation
from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.execution.points import points_of
from traj_integrator_ros.execution.profiles import fastest_stop
from traj_integrator_ros.execution.rows import Hold, cubic_spline, motion_of_actions
from traj_integrator_ros.handling.courses import Course
from traj_integrator_ros.handling.parameters import NodeParameters, default_values
from traj_integrator_ros.handling.pipeline import Pipeline
from traj_integrator_ros.handling.published import PublishedMotion
from traj_integrator_ros.handling.requests import SequenceFields
from traj_integrator_ros.kernels import ControlSpace

from ..checks import is_close_to
from ..registry import Case, Contender, suite

DT = 0.02
MOST_US = 20.0
"""Most that the spline may take for 32 x 7, with its values at all points."""
ADDED_US = {"at rest": 100.0, "with a brake": 200.0}
"""Most that the trajectory may add to a sequence of 32 x 7 that is integrated, by its end."""
NOW_NS = 10**12


@suite("execution")
def execution(quick: bool) -> Iterator[Case]:
    for horizon in (32,) if quick else (16, 32, 128):
        yield from steps_to_the_message(horizon)
        yield from sequence_to_trajectory(horizon)


def steps_to_the_message(horizon: int, dof: int = 7) -> Iterator[Case]:
    """The parts of what happens to one trajectory, each with a solution of the whole system as peer of the spline."""
    times = np.arange(horizon + 1) * DT
    rows = np.sin(times[:, None] * np.arange(1, dof + 1) / 4)
    steps, begin = np.full(horizon, DT), State(rows[0], np.arange(1, dof + 1) / 4.0, np.zeros(dof))
    high = np.full(dof, 100.0)
    limits = Limits(-high, high, high, high, high)
    spline = cubic_spline(steps, rows, begin.velocity)
    moved = State(rows[0] + 0.01, begin.velocity + 0.1, np.ones(dof))
    bounds, joining = Bounds(-high, high, high, high, 10 * high), Joining((0.2, 0.1, 0.05), 1.5)

    def solved() -> np.ndarray:
        system = np.diag(np.full(horizon + 1, 4.0)) + np.eye(horizon + 1, k=1) + np.eye(horizon + 1, k=-1)
        right = np.empty_like(rows)
        right[1:-1] = 3 * (rows[2:] - rows[:-2]) / DT
        system[0, :2], right[0] = (1.0, 0.0), begin.velocity
        system[-1, -2:], right[-1] = (0.5, 0.5), (rows[-1] - rows[-2]) / DT
        return np.linalg.solve(system, right)

    def case(name: str, run, *peers: Contender, most_us: float | None = None) -> Case:
        result = run()
        parts = result if isinstance(result, tuple) else (result,)
        ours = Contender("ours", run, is_close_to(*map(torch.from_numpy, parts)))
        return Case(name, 1, horizon, dof, ours, peers, dtype="float64", most_us=most_us)

    knots = torch.from_numpy(solved()[:-1])
    peer = Contender("np.linalg.solve of the system", lambda: solved()[:-1], is_close_to(knots))
    yield case(
        "spline",
        lambda: cubic_spline(steps, rows, begin.velocity).coefficients[:, 1],
        peer,
        most_us=MOST_US if horizon == 32 else None,
    )
    at_rest = {"ends_at_rest": True}
    yield case(
        "spline and p, v, a at the points",
        lambda: points_of(cubic_spline(steps, rows, begin.velocity, **at_rest))[1:],
        *_scipys(times, rows, begin.velocity),
        most_us=MOST_US if horizon == 32 else None,
    )
    yield case("spline, points, limits", lambda: _published(cubic_spline(steps, rows, begin.velocity), limits))
    yield case("replacement: fade of p, v, a", lambda: join(moved, spline, bounds, joining)[0].coefficients[:, 0])
    yield case(
        "position actions to points",
        lambda: _published(motion_of_actions(Hold.POSITION, steps, rows[1:], begin), limits),
    )
    yield case("brake", lambda: fastest_stop(spline.end, high / 10, high).coefficients[:, 0])


def sequence_to_trajectory(horizon: int, dof: int = 7) -> Iterator[Case]:
    """What the pipeline makes of a sequence, compared with integrating it alone: the rest is what execution adds."""
    times = np.arange(1, horizon + 1)[:, None] * DT
    rates = np.arange(1, dof + 1) / 4
    moving = np.sin(times * rates)
    share = np.minimum(times / times[-4], 1)
    stopping = np.sin(times[-4] * (share - share**3 + share**4 / 2) * rates)
    kinds = (
        ("at rest", stopping, False),
        ("with a brake", moving, False),
        ("with a brake, joined", moving + 1e-3, True),
    )
    for name, rows, joined in kinds:
        pipeline = _pipeline(dof, "previous" if joined else "measured")
        pipeline.take_joint_state(pipeline.parameters.joint_names, np.zeros(dof), rates, NOW_NS, NOW_NS)
        # In execution since a second: a motion that is in the plan's start when the plan is taken up.
        since = 1.0 + pipeline.parameters.publish_lead_time
        motion = Motion(np.array([0.0, 2.0]), np.stack([-rates * since, rates])[None])
        pipeline.published.present.published(Course(NOW_NS - 10**9, motion), NOW_NS - 10**9, NOW_NS - 10**9)
        fields = _sequence(rows)

        def integrated(pipeline=pipeline, fields=fields) -> np.ndarray:
            return pipeline.integrate(fields, NOW_NS).trajectories

        def ours(pipeline=pipeline, fields=fields) -> np.ndarray:
            return pipeline.trajectory(pipeline.integrate(fields, NOW_NS), 0, NOW_NS).points.position

        alone = Contender("integrate alone", integrated, is_close_to(torch.from_numpy(integrated().copy())))
        yield Case(
            f"sequence to trajectory, {name}",
            1,
            horizon,
            dof,
            Contender("ours", ours, is_close_to(torch.from_numpy(ours()))),
            (alone,),
            added_targets_us={alone.name: ADDED_US[name]} if horizon == 32 and name in ADDED_US else {},
        )


def _pipeline(dof: int, start_from: str) -> Pipeline:
    high = {"velocity": 5.0, "acceleration": 20.0, "jerk": 2e4, "position_max": 10.0, "position_min": -10.0}
    values = default_values() | {f"limits.{name}": [value] * dof for name, value in high.items()}
    values |= {"joint_names": [f"joint_{i}" for i in range(dof)], "device": "cpu", "start_from": start_from}
    return pipeline_of(NodeParameters.from_values(values), PublishedMotion())


def _sequence(rows: np.ndarray) -> SequenceFields:
    empty, data = np.zeros(0, np.float32), rows.astype(np.float32).ravel()
    dt, index = np.array([DT], np.float32), np.zeros(0, np.uint32)
    return SequenceFields((), ControlSpace.POSITION.value, 1, len(rows), dt, empty, empty, empty, index, data)


def _scipys(times: np.ndarray, rows: np.ndarray, velocity: np.ndarray) -> tuple[Contender, ...]:
    """The spline of scipy, constructed and evaluated at its knots."""
    try:
        from scipy.interpolate import CubicSpline
    except ImportError:  # for tests alone, where the node runs
        return ()
    ends = ((1, velocity), (1, np.zeros_like(velocity)))

    def run() -> tuple[np.ndarray, ...]:
        spline = CubicSpline(times, rows, bc_type=ends)
        return spline(times), spline(times, 1), spline(times, 2)

    return (Contender("scipy's CubicSpline", run, is_close_to(*map(torch.from_numpy, run()))),)


def _published(motion, limits: Limits) -> np.ndarray:
    if worst_violation(motion, limits) is not None:
        raise AssertionError("limits are far away")
    return points_of(motion).position

"""From plans to trajectories: the spline compared with scipy's, and the time added to the node's path."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from soak.streams.core import ActionFields, NodeCore
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import cubic_spline, points_of
from traj_integrator_ros.governor.pipeline import Pipeline
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.sequences import SequenceFields

from ..problems import DOF, DT, is_close_to
from ..registry import Case, Contender, sizes, suite

MOST_US = 20.0
"""Most that the spline may take for 32 x 7, with its values at all points."""
ADDED_US = {"at rest": 100.0, "with a brake": 200.0}
"""Most that the trajectory may add to a sequence of 32 x 7 that is integrated, by its end."""
NOW_NS = 10**12
RATES = np.arange(1, DOF + 1) / 4
LIMITS = {"velocity": 5.0, "acceleration": 20.0, "jerk": 2e4, "position_max": 10.0, "position_min": -10.0}


@suite("execution")
def execution(quick: bool, only: int | None = None) -> Iterator[Case]:
    for horizon in sizes(quick, only, (32,), (16, 32, 128)):
        yield spline(horizon)
        yield from sequence_to_trajectory(horizon)


def spline(horizon: int) -> Case:
    """Position, velocity and acceleration at the knots of a spline, constructed anew."""
    from scipy.interpolate import CubicSpline  # of the tests; not needed where the node runs

    times, steps = np.arange(horizon + 1) * DT, np.full(horizon, DT)
    rows = np.sin(times[:, None] * RATES)

    def scipys() -> tuple[np.ndarray, ...]:
        made = CubicSpline(times, rows, bc_type=((1, RATES), (1, np.zeros(DOF))))
        return made(times), made(times, 1), made(times, 2)

    def ours() -> tuple[np.ndarray, ...]:
        return points_of(cubic_spline(steps, rows, RATES, ends_at_rest=True))[1:]

    check = is_close_to(*map(torch.from_numpy, scipys()))
    mine, peer = Contender("ours", ours, check), Contender("scipy's CubicSpline", scipys, check)
    most_us = MOST_US if horizon == 32 else None
    return Case("spline", 1, horizon, DOF, mine, (peer,), dtype="float64", most_us=most_us)


def sequence_to_trajectory(horizon: int) -> Iterator[Case]:
    """What the pipeline makes of a sequence, compared with integrating it alone: the rest is what execution adds."""
    times = np.arange(1, horizon + 1)[:, None] * DT
    moving = np.sin(times * RATES)
    share = np.minimum(times / times[-4], 1)
    stopping = np.sin(times[-4] * (share - share**3 + share**4 / 2) * RATES)
    limits = {f"limits__{name}": [value] * DOF for name, value in LIMITS.items()}
    for name, rows, start_from in (
        ("at rest", stopping, "measured"),
        ("with a brake", moving, "measured"),
        ("with a brake, joined", moving + 1e-3, "previous"),
    ):
        node = NodeCore([f"joint_{i}" for i in range(DOF)], **limits, start_from=start_from)
        # When the plan is taken up, the motion in execution is where the plan starts.
        node.begin(State(-RATES * node.parameters.publish_lead_time, RATES, np.zeros(DOF)), NOW_NS)
        arguments = node.pipeline, ActionFields(0, ControlSpace.POSITION.value, DT, rows).sequence
        mine, alone = (
            Contender(label, partial(work, *arguments), is_close_to(torch.tensor(work(*arguments))))
            for label, work in (("ours", trajectory), ("integrate alone", integrated))
        )
        added = {alone.name: ADDED_US[name]} if horizon == 32 and name in ADDED_US else {}
        case = f"sequence to trajectory, {name}"
        yield Case(case, 1, horizon, DOF, mine, (alone,), added_targets_us=added)


def integrated(pipeline: Pipeline, fields: SequenceFields) -> np.ndarray:
    request = pipeline.batches.checked(fields)
    return pipeline.batches.integrate(request, pipeline.batches.started(request, lambda: NOW_NS)).trajectories


def trajectory(pipeline: Pipeline, fields: SequenceFields) -> np.ndarray:
    return pipeline.trajectory(pipeline.batches.checked(fields), 0, NOW_NS).points.position

"""All that sequences pass, once before the first of them comes, which would take ten times as long. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from ..engine.integrator import TrajectoryIntegrator
from ..execution.tolerances import whole_ns
from ..kernels import ControlSpace
from ..parameters.parameters import NodeParameters
from ..parameters.table import ACTION_RETIME, START_FROM_PREVIOUS
from ..requests.position_trajectory import PositionFields
from ..requests.rejection import Rejected
from ..requests.sequences import SequenceFields
from .controller_reports import ControllerReport
from .executable import ExecutableTrajectory
from .pipeline import Pipeline
from .published import PublishedMotion

_NONE = np.zeros(0, np.float32)
_BEGIN_NS, _EVERY_NS = 1_000_000_000_000, 100_000_000
"""When the rehearsal begins, by a clock of its own, and from one sequence to the next."""
_ROWS, _DT_S = 16, 0.05
"""A sequence as policies send it."""
_SHARE = 0.2
"""Of the largest velocity, and of the range: how fast and how far joints go."""


def rehearse(parameters: NodeParameters, engine: TrajectoryIntegrator) -> list[ExecutableTrajectory]:
    """Execute motions of every kind with a robot that is not there: joined, noisy, too fast, stopped.

    Returns:
        What would be published. Nothing of it is known to anybody afterwards.

    """
    assumed = parameters.limits_assumed_velocity or 1.0
    usual = {"limits_action": ACTION_RETIME, "start_from": START_FROM_PREVIOUS, "publish_row": 0}
    told = replace(parameters, limits_assumed_velocity=assumed, **usual)
    published = PublishedMotion()
    pipeline = Pipeline(told, engine, published, lambda finding: None)
    made: list[ExecutableTrajectory] = []
    now_ns, (place, way) = _BEGIN_NS, _place_and_way(pipeline)
    rows = min(_ROWS, told.max_horizon)
    share = np.linspace(0.0, 1.0, rows + 1)[1:, None]
    along, noise, jump = share**2 * (3 - 2 * share), 2e-3 * (-1.0) ** np.arange(rows)[:, None], np.tanh(20 * share)
    deeds: list[Callable[[int], ExecutableTrajectory | None]] = [
        *(partial(_sequence, pipeline, place + way * shape) for shape in (along, along + 0.02, along + noise, jump)),
        partial(_sequence, pipeline, np.tile(way, (rows, 1)), space=ControlSpace.VELOCITY),
        partial(_plan, pipeline, place + way * along),
        pipeline.commands.stop,
    ]
    for deed in deeds:
        now_ns += _EVERY_NS
        _tell(pipeline, published, place, now_ns)
        with suppress(Rejected), np.errstate(all="ignore"):
            pipeline.commands.tick(now_ns)
            if (trajectory := deed(now_ns)) is not None:
                published.record(trajectory, now_ns)
                made.append(trajectory)
    return made


def _place_and_way(pipeline: Pipeline) -> tuple[np.ndarray, np.ndarray]:
    """Where joints begin, in the middle of their ranges, and how far they go, rad, `[dof]`."""
    bounds = pipeline.assumed.bounds
    low, high = bounds.position_min, bounds.position_max
    bounded = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):
        place = np.clip(np.where(bounded, (low + high) / 2, 0.0), low, high)
    size = np.where(bounded, high - low, np.inf)
    return place, _SHARE * np.minimum(size, bounds.velocity * _ROWS * _DT_S)


def _tell(pipeline: Pipeline, published: PublishedMotion, place: np.ndarray, now_ns: int) -> None:
    """Let the robot follow exactly, and its controller report that."""
    names, state = pipeline.parameters.joint_names, published.present.commanded(now_ns)
    position, velocity = (place, np.zeros_like(place)) if state is None else state[:2]
    pipeline.take_joint_state(names, position, velocity, now_ns, now_ns)
    none = np.zeros(0)
    report = pipeline.controller_reports.report(names, position, velocity, none, now_ns, 1.0)
    pipeline.take_controller_state(ControllerReport(now_ns, report.reference, 1.0, True), now_ns)


def _sequence(
    pipeline: Pipeline, rows: np.ndarray, now_ns: int, *, space: ControlSpace = ControlSpace.POSITION
) -> ExecutableTrajectory | None:
    steps, data = np.array([_DT_S], np.float32), np.asarray(rows, np.float32).ravel()
    fields = SequenceFields((), space.value, 1, len(rows), steps, *[_NONE] * 3, np.zeros(0, np.uint32), data)
    return pipeline.trajectory(pipeline.batches.checked(fields), now_ns, now_ns)


def _plan(pipeline: Pipeline, rows: np.ndarray, now_ns: int) -> ExecutableTrajectory | None:
    times_ns = [whole_ns((row + 1) * _DT_S) for row in range(len(rows))]
    names = list(pipeline.parameters.joint_names)
    return pipeline.position_trajectory(PositionFields(names, 0, len(rows), times_ns, [*rows], [], []), now_ns)

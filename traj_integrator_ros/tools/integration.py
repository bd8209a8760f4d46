"""What the node makes of sequences: checked requests, their rows, and the motions that a controller would be sent."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from ..engine.call import time_from_start
from ..engine.integrator import TrajectoryIntegrator
from ..execution.bounds import Bounds
from ..execution.limits import find_motion_violation, worst_violations
from ..execution.motion import Motion
from ..governor.ending import stopped_at_end
from ..governor.planned_motions import Reading, planned_motions_of
from ..kernels import (
    AccelerationIntegrator,
    BsplineLayout,
    ControlSpace,
    FiniteDifference,
    SplineForm,
    differentiate_positions,
    fit_bspline,
)
from ..limits.joint_limits import JointLimits, assumed_limits
from ..motions.samples import QUANTITIES, Nature, RecordingError, Samples
from ..motions.units import JointUnits
from ..parameters.parameters import default_values
from ..requests.plan import plan_of_sequence
from ..requests.rejection import Rejected
from ..requests.sequences import ActionRequest, RequestRules, SequenceFields, check_sequence
from ..requests.turning import unwrapped_request
from .drawing import violations
from .integration_input import BSPLINE, ENDS, STATE, Sequence, derivatives_at, fields_of, number_of, sequence_of_states
from .integration_output import from_start
from .robot import Robot

_REST_TOLERANCE, _FADE_TIME, _BRAKE_TIME = (
    float(default_values()[f"publish.{name}"]) for name in ("rest_tolerance", "fade_time", "brake_time")
)
"""rad/s, s and s, as a node has them that is told nothing else."""
DRAWN_PER_PIECE = 8
_ANY_SIZE = 1 << 62
_ARRAYS = ("dt", "data", *ENDS, "start_index", "goal_index")


class Integrated(NamedTuple):
    """What became of a sequence."""

    sequence: Sequence
    trajectories: list[Samples]
    motions: list[Motion]
    """Of the trajectories; none with --rows."""
    exceeded: list[str]
    """Limits that they exceed."""


def integrated(sequence: Sequence, robot: Robot, options: argparse.Namespace) -> Integrated:
    """Integrate a sequence as the options say, and find what exceeds a limit. Raises ValueError."""
    request = request_of(sequence, options.finite_difference, options.acceleration_integrator)
    limits = (robot.limits or JointLimits()).of_joints(sequence.joint_names)
    turning = np.isin(sequence.joint_names, robot.continuous)
    request = unwrapped_request(request, request.start, turning)
    with np.errstate(all="ignore"):  # numbers that are not finite are reported
        plans = motions = [] if options.rows else _motions_of(sequence, request)
        if all(np.isfinite(motion.coefficients).all() for motion in motions) and options.end == "stop":
            motions = [_stopped(motion, limits) for motion in motions]
        found = _points_of(motions) if motions else _rows_of(sequence, request, options)
        trajectories = _samples(sequence, *found, str(options.file))
    if motions:
        return Integrated(sequence, trajectories, motions, list(_exceeded(plans, motions, limits, robot.units)))
    exceeded = [line for row in trajectories for line in violations(from_start(row), robot)]
    return Integrated(sequence, trajectories, [], exceeded)


def request_of(
    sequence: Sequence, finite_difference: str = "backward", acceleration_integrator: str = "zoh"
) -> ActionRequest:
    """A sequence as the node checks it. Raises ValueError for what does not fit together."""
    fields = dict(sequence.fields)
    rules = RequestRules(
        sequence.joint_names,
        ControlSpace.POSITION,
        FiniteDifference(finite_difference),
        AccelerationIntegrator(acceleration_integrator),
        *(_ANY_SIZE, _ANY_SIZE),
        SplineForm(layout=fields.pop("layout", "tight")),
        _ANY_SIZE,
    )
    arrays = {name: np.ravel(fields.get(name, ())) for name in _ARRAYS}
    try:
        return check_sequence(SequenceFields((), **{**fields, **arrays}), rules)
    except Rejected as refusal:
        raise ValueError(re.sub(r"\b(start|goal)\.", r"\1_", re.sub("^data:", "actions:", refusal.message))) from None


@lru_cache(maxsize=4)
def engine_on(device: str, dtype: str) -> TrajectoryIntegrator:
    """The engine on a device, made once. Raises ValueError for one that does not exist."""
    return TrajectoryIntegrator(device, dtype)


def between_points(samples: Samples, motion: Motion) -> Samples:
    """The motion of these points, several times in each piece, for a figure."""
    share = np.arange(DRAWN_PER_PIECE) / DRAWN_PER_PIECE
    time = np.append((motion.knots[:-1, None] + motion.steps[:, None] * share).ravel(), motion.knots[-1])
    return replace(samples, time=time, **dict(zip(QUANTITIES, _states_at(motion, time), strict=True)))


def _rows_of(sequence: Sequence, request: ActionRequest, options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Times `[H]` or `[B, H]` and rows `[4, B, H, D]` of all trajectories, as of ~/integrate."""
    if sequence.has_uneven_positions and request.control_map.name == "clique":
        recorded, start = sequence.recorded, (sequence.fields[name][0] for name in ENDS[1:3])
        arrays = [torch.from_numpy(np.array(values)) for values in (recorded.position, recorded.time, *start)]
        return recorded.time, np.stack(differentiate_positions(*arrays))[:, None]
    call = request.call(request.start)
    states = engine_on(options.device, options.dtype).integrate(call)
    return time_from_start(call.kernel, call.dt, request.horizon), states.astype(np.float64)


def _motions_of(sequence: Sequence, request: ActionRequest) -> list[Motion]:
    """The motion of each trajectory as the node reads it, as long as its actions; a recorded one ends with its samples.

    It passes all positions, also where that asks for more than limits allow; `request` is the sequence's.
    """
    free = np.full(request.actions.shape[2], np.inf)
    reading = Reading(_REST_TOLERANCE, _FADE_TIME, Bounds(-free, free, free, free, free))
    recorded, dt = None if request.spline is not None else sequence.recorded, 0.0
    if isinstance(request.dt, float) and sequence.fields["dt"].dtype != np.float32:
        request, dt = request._replace(dt=None), request.dt  # as precise as it is
    if recorded is not None and recorded.acceleration is None:
        request = request._replace(start=request.start._replace(rows=(*request.start.rows[:2], None)))
    motions = []
    for row in range(request.batch):
        plan = plan_of_sequence(request, row, dt, 0)
        if recorded is not None:
            plan = replace(plan, steps=plan.steps[:-1], actions=plan.actions[:-1])
        motions.append(next(planned_motions_of(plan, 0, 0, lambda _: None, reading)).motion)
    return motions


def _stopped(motion: Motion, limits: JointLimits) -> Motion:
    """The motion brought to rest as by the node, with a brake within limits if one is needed.

    Raises ValueError if the limits allow no brake of reasonable length.
    """
    bounds = assumed_limits(limits, _BRAKE_TIME, assumed_velocity=1.0).bounds
    try:
        most = bounds.raised_to(motion)
        return stopped_at_end(motion, most, _REST_TOLERANCE, limits.joint_names)
    except Rejected as refusal:
        raise ValueError(str(refusal)) from None


def _points_of(motions: list[Motion]) -> tuple[np.ndarray, np.ndarray]:
    """The motions at their points, as `_rows_of`; one that ends before the others rests."""
    count = max(len(motion.knots) for motion in motions)
    times, states = [], []
    for motion in motions:
        more = np.arange(1, count - len(motion.knots) + 1)
        times.append(np.append(motion.knots, motion.knots[-1] + motion.steps[-1] * more))
        states.append(_states_at(motion, times[-1]))
    return np.stack(times), np.stack(states, axis=1)


def _states_at(motion: Motion, time: np.ndarray) -> np.ndarray:
    """States `[4, N, D]` at times among which is the end, in which a motion that ends in motion has its last state."""
    states = motion.states_at(time)
    if not motion.ends_at_rest:
        last = int(np.searchsorted(time, motion.knots[-1]))
        states[:3, last], states[3, last] = motion.end, states[3, last - 1]
    return states


def _samples(sequence: Sequence, time: np.ndarray, states: np.ndarray, source: str) -> list[Samples]:
    """The trajectories `[4, B, H, D]` at times `[H]` or `[B, H]`. Raises ValueError where they are not finite."""
    for name, values in zip(QUANTITIES, states, strict=True):
        if not np.isfinite(values).all():
            raise ValueError(f"expected a finite trajectory, got a {name} that is not")
    times = np.broadcast_to(time, states.shape[1:3])
    return [
        Samples(sequence.joint_names, *arrays, source, "integrated", Nature.EXACT)
        for arrays in zip(times, *states, strict=True)
    ]


def _exceeded(plans: list[Motion], motions: list[Motion], limits: JointLimits, units: JointUnits) -> Iterator[str]:
    """A line for each quantity of each joint and trajectory that exceeds a limit: its worst, also between points.

    Then one for each plan of held accelerations whose steps exceed the jerk limit: the node rejects it.
    """
    for number, motion in enumerate(motions):
        which = f" of trajectory {number}" if len(motions) > 1 else ""
        for found in worst_violations(motion, limits):
            joint = limits.joint_names[found.joint]
            yield found.told(joint, f"at {found.time:.4g} s{which}", units.of(joint)[found.order])
    steps_only = JointLimits(jerk=limits.jerk, joint_names=limits.joint_names)
    for number, plan in enumerate(plans):
        told = "" if plan.with_accelerations else find_motion_violation(plan, steps_only)
        if told:
            yield told + (f", trajectory {number}" if len(plans) > 1 else "")


# Control points for a recorded motion


def fit(samples: Samples, points: int, said: Mapping[str, int | str]) -> Sequence:
    """The control points that come closest to a motion, from its first state to its last; `said`: of their form.

    The motion is interpolated between its samples (by the C2 cubic spline through them), at no fewer rows than it has
    samples. In the layout "curobo" the goal is the state a segment before the end, where such splines reach it.

    Raises RecordingError for a motion that is too short.
    """
    count = len(samples.time)
    if not 1 <= points <= count:
        raise RecordingError(f"--fit: expected 1 to {count} (the samples) control points, got {points}")
    recorded = sequence_of_states(samples, "position")
    (motion,) = _motions_of(recorded, request_of(recorded))
    form = SplineForm(**said)
    segments = form.segments(points)
    length = samples.duration / segments
    fine = max(form.steps, -(-(count - 1) // segments))
    wanted = motion.states_at(np.linspace(0.0, samples.duration, segments * fine + 1))[0]
    wanted[-1] = samples.position[-1]
    start = {name: recorded.fields[name] for name in ENDS[:3]}
    ends = start | dict(zip(ENDS[3:], _passed(samples, motion, length, form), strict=True))
    rows = {name: torch.from_numpy(np.array(values, np.float64)) for name, values in ends.items()}
    scheme = {"degree": form.degree, "steps": fine, "layout": form.layout}
    control_points = fit_bspline(torch.from_numpy(wanted)[None], **rows, dt=length / fine, **scheme)
    fields = {
        "control_space": number_of(BSPLINE),
        **fields_of(control_points.numpy()),
        "dt": np.array([length / form.steps]),
        "degree": form.degree,
        "steps": form.steps,
        "layout": form.layout.value,
        **ends,
    }
    return Sequence(samples.joint_names, fields, samples)


def _passed(samples: Samples, motion: Motion, length: float, form: SplineForm) -> tuple[np.ndarray, ...]:
    """Position, velocity and acceleration [1, D] of the spline's goal: at the end, or a segment before it."""
    if form.layout is not BsplineLayout.CUROBO:
        return samples.position[-1:], *derivatives_at(samples, -1)
    time = np.array([samples.duration - length])
    found = list(motion.states_at(time)[:3])
    for order, name in enumerate(STATE[1:], start=1):
        if (recorded := getattr(samples, name)) is not None:  # between two samples
            found[order] = np.stack([np.interp(time, samples.time, column) for column in recorded.T], axis=1)
    return tuple(found)


def told_residual(fitted: Sequence, units: JointUnits) -> str:
    """How far the spline is from the samples: RMS over all of them, and the maximum with its place."""
    (motion,), samples = _motions_of(fitted, request_of(fitted)), fitted.recorded
    states = motion.states_at(samples.time)
    states[:3, -1] = motion.end
    away = np.abs(states[0] - samples.position)
    row, joint = np.unravel_index(away.argmax(), away.shape)
    names = samples.joint_names
    told = [f"position {units.rms(away, 0, names)}"]
    if samples.velocity is not None:
        told.append(f"velocity {units.rms(states[1] - samples.velocity, 1, names)}")
    return (
        f"{fitted.fields['horizon']} control points of degree {fitted.fields['degree']} for {len(samples.time)} "
        f"samples: RMS difference {', '.join(told)}; at most {away[row, joint]:.3g} {units.of(names[joint])[0]}, "
        f"{names[joint]} at {samples.time[row]:.3f} s"
    )

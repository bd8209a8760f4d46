"""Sequences treated as in the node: checked requests, and the motions for a controller."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..execution.bounds import Bounds
from ..execution.limits import find_motion_violation, worst_violations
from ..execution.motion import Motion
from ..governor.reference import reference
from ..governor.stop import stopped_at_end
from ..limits.joint_limits import JointLimits, assumed_limits
from ..motions.samples import QUANTITIES, Nature, RecordingError, Samples
from ..motions.sequences import CONTROL_SPACES, ENDS, Sequence
from ..motions.units import JointUnits
from ..parameters.parameters import NodeParameters, default_values
from ..requests.plan import plan_of_sequence
from ..requests.rejection import Rejected
from ..requests.sequences import ActionRequest, RequestRules, SequenceFields, check_sequence
from ..requests.turning import unwrapped_request
from .robot import Robot

DEFAULTS = NodeParameters.from_values({**default_values(), "joint_names": ["any"]})
"""The node's parameters if no file gives others; the joints do not matter."""
DRAWN_PER_PIECE = 8
_ANY_SIZE = 1 << 62
_ARRAYS = ("dt", "data", *ENDS, "start_index", "goal_index")


class Integrated(NamedTuple):
    """Result of integrating a sequence."""

    sequence: Sequence
    trajectories: list[Samples]
    motions: list[Motion]
    """Motion of each trajectory."""
    exceeded: list[str]
    """A line for each limit that the motions exceed."""


def completed(
    sequence: Sequence, given: Mapping[str, object], parameters: NodeParameters | None
) -> tuple[Sequence, str]:
    """Complete a sequence by the options; steps that they give replace its own.

    Values that neither gives are the node's defaults, and the second result names them. Raises RecordingError for
    options that do not fit.
    """
    dof, node = len(sequence.joint_names), parameters or DEFAULTS
    fields = {**given, **sequence.fields, **{name: given[name] for name in ("dt",) if name in given}}
    if sequence.place and "start_position" not in fields:
        if not sequence.measured:
            lacking = "it has no start, and no joint state of its joints was recorded before it"
            raise RecordingError(f"{sequence.place}: {lacking}; give --start-position")
        fields = {**sequence.measured, **fields}
    space = node.control_space.value
    assumed = {
        "control_space": (space, f"actions are of control space {CONTROL_SPACES[space - 1]} (--control-space)"),
        "dt": (np.array([node.dt]), f"steps are {node.dt:g} s (--dt)"),
        "start_position": (np.zeros(dof), "the start is at position 0 (--start-position)"),
    }
    description = ", ".join(text for name, (_, text) in assumed.items() if name not in fields)
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if name in ENDS[3:] and sequence.recorded is not None:
            raise RecordingError(f"{option}: expected actions, got a motion")
        if name in ENDS and len(value) != dof:
            raise RecordingError(f"{option}: expected {dof} numbers (the joints), got {len(value)}")
    return replace(sequence, fields={name: value for name, (value, _) in assumed.items()} | fields), description


def integrated(sequence: Sequence, robot: Robot, source: str) -> Integrated:
    """Return the motions of a sequence, and the limits that they exceed. Raises ValueError."""
    node = robot.parameters or DEFAULTS
    request = _request_of(sequence, node)
    limits = (robot.limits or JointLimits()).of_joints(sequence.joint_names)
    turning = np.isin(sequence.joint_names, robot.continuous)
    request = unwrapped_request(request, request.start, turning)
    with np.errstate(all="ignore"):  # Numbers that are not finite are reported below.
        plans = motions = _motions_of(sequence, request, node)
        if all(np.isfinite(motion.coefficients).all() for motion in motions):
            motions = [_stopped(motion, limits, node) for motion in motions]
        trajectories = _samples(sequence, *_points_of(motions), source)
    return Integrated(sequence, trajectories, motions, list(_exceeded(plans, motions, limits, robot.units)))


def _request_of(sequence: Sequence, node: NodeParameters) -> ActionRequest:
    """Check a sequence as the node does. Raises ValueError for fields that do not fit together."""
    fields = sequence.fields
    rules = RequestRules(sequence.joint_names, node.control_space, _ANY_SIZE, _ANY_SIZE, most_bytes=_ANY_SIZE)
    arrays = {name: np.ravel(fields.get(name, ())) for name in _ARRAYS}
    try:
        return check_sequence(SequenceFields((), **{**fields, **arrays}), rules)
    except Rejected as refusal:
        raise ValueError(re.sub(r"\b(start|goal)\.", r"\1_", re.sub("^data:", "actions:", refusal.message))) from None


def between_points(samples: Samples, motion: Motion) -> Samples:
    """Sample the motion between points several times in each segment, for a figure."""
    share = np.arange(DRAWN_PER_PIECE) / DRAWN_PER_PIECE
    time = np.append((motion.knots[:-1, None] + motion.steps[:, None] * share).ravel(), motion.knots[-1])
    return replace(samples, time=time, **dict(zip(QUANTITIES, _states_at(motion, time), strict=True)))


def _motions_of(sequence: Sequence, request: ActionRequest, node: NodeParameters) -> list[Motion]:
    """Return the interpolant of each trajectory, as long as its actions; a recorded motion ends with its samples.

    It passes all positions, even where that exceeds limits. `request` is the checked sequence.
    """
    free = np.full(request.actions.shape[2], np.inf)
    bounds = Bounds(-free, free, free, free, free)
    recorded, dt = None if request.spline is not None else sequence.recorded, 0.0
    if isinstance(request.dt, float) and sequence.fields["dt"].dtype != np.float32:
        request, dt = request._replace(dt=None), request.dt  # The float32 of a request would round it.
    if recorded is not None and recorded.acceleration is None:
        request = request._replace(start=request.start._replace(rows=(*request.start.rows[:2], None)))
    motions = []
    for row in range(request.batch):
        plan = plan_of_sequence(request, row, dt, 0)
        if recorded is not None:
            plan = replace(plan, steps=plan.steps[:-1], actions=plan.actions[:-1])
        motions.append(reference(plan, 0, 0, None, None, node, bounds).motion)
    return motions


def _stopped(motion: Motion, limits: JointLimits, node: NodeParameters) -> Motion:
    """Bring a motion to rest as the node does, with a brake within limits if necessary.

    Raises ValueError if the limits allow no brake of reasonable length.
    """
    bounds = assumed_limits(limits, node.publish_brake_time, assumed_velocity=node.limits_assumed_velocity).bounds
    try:
        most = bounds.raised_to(motion)
        return stopped_at_end(motion, most, node.publish_rest_tolerance, limits.joint_names)
    except Rejected as refusal:
        raise ValueError(str(refusal)) from None


def _points_of(motions: list[Motion]) -> tuple[np.ndarray, np.ndarray]:
    """Return the times `[B, H]` and states `[4, B, H, D]` of motions at their points; one that ends early rests."""
    count = max(len(motion.knots) for motion in motions)
    times, states = [], []
    for motion in motions:
        more = np.arange(1, count - len(motion.knots) + 1)
        times.append(np.append(motion.knots, motion.knots[-1] + motion.steps[-1] * more))
        states.append(_states_at(motion, times[-1]))
    return np.stack(times), np.stack(states, axis=1)


def _states_at(motion: Motion, time: np.ndarray) -> np.ndarray:
    """Return states `[4, N, D]` at times; at the end, those of a motion that ends in motion are its last ones."""
    states = motion.states_at(time)
    if not motion.ends_at_rest:
        last = int(np.searchsorted(time, motion.knots[-1]))
        states[:3, last], states[3, last] = motion.end, states[3, last - 1]
    return states


def _samples(sequence: Sequence, time: np.ndarray, states: np.ndarray, source: str) -> list[Samples]:
    """Return trajectories `[4, B, H, D]` at times `[H]` or `[B, H]`. Raises ValueError if they are not finite."""
    for name, values in zip(QUANTITIES, states, strict=True):
        if not np.isfinite(values).all():
            raise ValueError(f"expected a finite trajectory, got a {name} that is not")
    times = np.broadcast_to(time, states.shape[1:3])
    return [
        Samples(sequence.joint_names, *arrays, source, "integrated", Nature.EXACT)
        for arrays in zip(times, *states, strict=True)
    ]


def _exceeded(plans: list[Motion], motions: list[Motion], limits: JointLimits, units: JointUnits) -> Iterator[str]:
    """Yield a line with the worst value of each joint, quantity and trajectory beyond its limit, between points as
    well.

    Then a line for each plan of held accelerations whose steps exceed the jerk limit: the node rejects it.
    """
    for number, motion in enumerate(motions):
        which = f" of trajectory {number}" if len(motions) > 1 else ""
        for found in worst_violations(motion, limits):
            joint = limits.joint_names[found.joint]
            yield found.describe(joint, f"at {found.time:.4g} s{which}", units.of(joint)[found.order])
    steps_only = JointLimits(jerk=limits.jerk, joint_names=limits.joint_names)
    for number, plan in enumerate(plans):
        message = "" if plan.with_accelerations else find_motion_violation(plan, steps_only)
        if message:
            yield message + (f", trajectory {number}" if len(plans) > 1 else "")

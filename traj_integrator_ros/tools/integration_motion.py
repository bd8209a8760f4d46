"""The motion that a controller would be sent for a sequence: every action executed, then at rest. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..execution.limits import Limits, worst_violations
from ..execution.motion import Motion, State
from ..execution.rows import Hold, action_steps, motion_of_actions
from ..handling.assumed import assumed_limits
from ..handling.ending import stopped_at_end
from ..handling.limits import JointLimits, find_motion_violation
from ..handling.rejection import Rejected
from ..motions.samples import QUANTITIES, Samples
from .integration_input import Sequence
from .integration_output import Integrated
from .robot import Robot

REST_TOLERANCE = 0.01
"""rad/s; a plan with an end velocity up to this counts as at rest: default of the node's publish.rest_tolerance."""
BRAKE_TIME_S = 0.25
"""Duration of a brake without jerk limits, s: default of the node's publish.brake_time."""
DRAWN_PER_PIECE = 8
_LIMITS = ("position_min", "position_max", "velocity", "acceleration", "jerk")


def motions_of(sequence: Sequence, control_space: str, integrator: str, dt: float | None) -> list[Motion]:
    """The motion of each trajectory, as long as its actions; `dt`, s, overrides that of the sequence.

    A recorded motion ends with its last sample. Raises ValueError for what does not fit together.
    """
    batch, horizon, _ = sequence.actions.shape
    hold = Hold.ACCELERATION_SEMI_IMPLICIT if integrator == "semi_implicit_euler" else Hold.ACCELERATION
    hold = hold if control_space == "acceleration" else Hold(control_space)
    given = np.array([dt]) if dt is not None or sequence.dt is None else np.asarray(sequence.dt, np.float64)
    if given.size not in (1, horizon, batch * horizon):
        raise ValueError(
            f"dt: expected a number, [horizon = {horizon}] or [batch = {batch}, {horizon}], got {list(given.shape)}"
        )
    rows = given.reshape(batch, horizon) if given.size == batch * horizon else [given] * batch
    steps = 1 if sequence.recorded is not None else 0
    return [
        motion_of_actions(
            hold,
            action_steps(rows[b], horizon)[: horizon - steps],
            sequence.actions[b, : horizon - steps],
            start,
            rest_tolerance=REST_TOLERANCE,
        )
        for b, start in enumerate(_starts(sequence, batch))
    ]


def stopped(motion: Motion, limits: Limits, joint_names: tuple[str, ...]) -> Motion:
    """The motion brought to rest as by the node, with a brake within limits if one is needed.

    Raises ValueError if the limits allow no brake of reasonable length.
    """
    named = JointLimits(joint_names, *(getattr(limits, name) for name in _LIMITS), deceleration=limits.deceleration)
    bounds = assumed_limits(named, BRAKE_TIME_S, assumed_velocity=1.0).bounds
    try:
        most = bounds.raised_to(motion).with_positions_of(bounds)
        return stopped_at_end(motion, most, REST_TOLERANCE, joint_names)
    except Rejected as refusal:
        raise ValueError(str(refusal)) from None


def integrated(sequence: Sequence, motions: list[Motion]) -> Integrated:
    """The motions at their points; one that ends before the others rests."""
    points = max(len(motion.knots) for motion in motions)
    times, states = [], []
    for motion in motions:
        step = motion.knots[-1] - motion.knots[-2]
        time = np.append(motion.knots, motion.knots[-1] + step * np.arange(1, points - len(motion.knots) + 1))
        state = motion.states_at(time)
        if not motion.ends_at_rest:
            last = len(motion.knots) - 1
            state[:3, last], state[3, last] = motion.end, state[3, last - 1]
        times.append(time)
        states.append(state)
    time = np.stack(times)
    common = time[0] if np.all(time == time[0]) else time
    with_accelerations = motions[0].with_accelerations
    return Integrated(sequence.joint_names, common, *np.stack(states, axis=1), with_accelerations=with_accelerations)


def drawn(result: Integrated, row: int, source: str) -> Samples:
    """One trajectory for a figure: its points, or the motion between them, if that is known."""
    samples = result.samples(row, source)
    if not result.curves:
        return samples
    motion = result.curves[row]
    share = np.arange(DRAWN_PER_PIECE) / DRAWN_PER_PIECE
    time = np.append((motion.knots[:-1, None] + motion.steps[:, None] * share).ravel(), motion.knots[-1])
    states = motion.states_at(time)
    states[:3, -1], states[3, -1] = motion.end, states[3, -2]
    return replace(samples, time=time, **dict(zip(QUANTITIES, states, strict=True)))


def told_steps(plans: list[Motion], limits: Limits, joint_names: tuple[str, ...]) -> Iterator[str]:
    """A line for each trajectory of held accelerations whose steps exceed the jerk limit: the node rejects it."""
    steps_only = JointLimits(joint_names, jerk=limits.jerk)
    for number, plan in enumerate(plans):
        told = "" if plan.with_accelerations else find_motion_violation(plan, steps_only)
        if told:
            yield told + (f", trajectory {number}" if len(plans) > 1 else "")


def told_violations(motions: list[Motion], robot: Robot, joint_names: tuple[str, ...]) -> Iterator[str]:
    """A line for each quantity of each joint and trajectory that exceeds a limit: its worst, also between points."""
    for number, motion in enumerate(motions if robot.limits is not None else ()):
        which = f" of trajectory {number}" if len(motions) > 1 else ""
        for found in worst_violations(motion, robot.limits.of_joints(joint_names)):
            joint = joint_names[found.joint]
            unit = robot.units.of(joint)[found.order]
            yield found.told(joint, f"at {found.time:.4g} s{which}", unit)


def _starts(sequence: Sequence, batch: int) -> Iterator[State]:
    rows = len(sequence.start_position)
    index = sequence.start_index
    if index is None and rows not in (1, batch):
        raise ValueError(f"start_position: expected 1 row or {batch} (batch) without start_index, got {rows}")
    if index is not None and (np.shape(index) != (batch,) or np.min(index) < 0 or np.max(index) >= rows):
        raise ValueError(f"start_index: expected {batch} rows of the {rows} starts, got {np.asarray(index).tolist()}")
    known = sequence.recorded is None or sequence.recorded.acceleration is not None
    given = (sequence.start_position, sequence.start_velocity, sequence.start_acceleration if known else None)
    for name, values in zip(("position", "velocity", "acceleration"), given, strict=True):
        if values is not None and np.shape(values) != (rows, sequence.actions.shape[2]):
            raise ValueError(
                f"start_{name}: expected {[rows, sequence.actions.shape[2]]} numbers, got {list(np.shape(values))}"
            )
    for b in range(batch):
        row = int(index[b]) if index is not None else b if rows == batch else 0
        position, velocity, acceleration = (None if values is None else values[row] for values in given)
        yield State(position, np.zeros_like(position) if velocity is None else velocity, acceleration)

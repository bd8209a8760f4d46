"""What the node makes of sequences: checked requests, and the motion that a controller would be sent for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..execution.limits import worst_violations
from ..execution.motion import Motion
from ..execution.rows import DEFAULT_FADE_TIME
from ..handling.assumed import assumed_limits
from ..handling.courses import Reading, courses_of
from ..handling.ending import stopped_at_end
from ..handling.limits import JointLimits, find_motion_violation
from ..handling.plan import plan_of_sequence
from ..handling.rejection import Rejected
from ..handling.requests import ActionRequest, RequestRules, SequenceFields, check_sequence
from ..kernels import AccelerationIntegrator, ControlSpace, FiniteDifference, SplineForm
from ..motions.samples import QUANTITIES, Samples
from ..motions.units import JointUnits
from .integration_input import STATE, Sequence
from .integration_output import Integrated
from .robot import Robot

REST_TOLERANCE = 0.01
"""rad/s; a plan with an end velocity up to this counts as at rest: default of the node's publish.rest_tolerance."""
BRAKE_TIME_S = 0.25
"""Duration of a brake without jerk limits, s: default of the node's publish.brake_time."""
DRAWN_PER_PIECE = 8
_ANY_SIZE = 1 << 62


def request_of(
    sequence: Sequence, dt: float, *, finite_difference: str = "backward", acceleration_integrator: str = "zoh"
) -> ActionRequest:
    """A sequence as the node checks it, in float64; `dt`, s, is for one that brings none.

    Raises ValueError for what does not fit together.
    """
    batch, horizon, dof = sequence.actions.shape
    steps = np.asarray(dt if sequence.dt is None else sequence.dt)
    steps = np.repeat(steps, horizon, axis=1) if steps.shape == (batch, 1) else steps
    ends = {"start": {"position": np.zeros((1, dof)), **sequence.start}, "goal": sequence.goal}
    numbers = {
        **{f"{end}_{name}": rows.get(name) for end, rows in ends.items() for name in (*STATE, "index")},
        "dt": steps,
        "data": sequence.actions,
    }
    given = {name: np.zeros(0) if values is None else np.ravel(values) for name, values in numbers.items()}
    for name in ("start_index", "goal_index"):
        if given[name].size and (given[name].dtype.kind not in "iu" or given[name].min() < 0):
            raise ValueError(f"{name}: expected whole numbers, 0 or more, got {given[name].tolist()}")
    space = ControlSpace[sequence.control_space.upper()]
    form = {name: value for name in ("degree", "steps", "layout") if (value := getattr(sequence, name))}
    rules = RequestRules(
        sequence.joint_names,
        space,
        FiniteDifference(finite_difference),
        AccelerationIntegrator(acceleration_integrator),
        *(_ANY_SIZE, _ANY_SIZE),
        SplineForm(**form),
        _ANY_SIZE,
    )
    try:
        return check_sequence(SequenceFields((), space.value, batch, horizon, **given), rules)
    except Rejected as refusal:
        raise ValueError(re.sub(r"^(start|goal)\.", r"\1_", re.sub("^data:", "actions:", refusal.message))) from None


def motions_of(sequence: Sequence, request: ActionRequest) -> list[Motion]:
    """The motion of each trajectory as the node reads it, as long as its actions; a recorded one ends with its samples.

    It passes all positions, also where that asks for more than limits allow; `request` is that of the sequence.
    """
    reading = Reading(REST_TOLERANCE, DEFAULT_FADE_TIME, np.full(request.actions.shape[2], np.inf))
    recorded, dt = None if request.spline is not None else sequence.recorded, 0.0
    if isinstance(request.dt, float) and (sequence.dt is None or np.asarray(sequence.dt).dtype != np.float32):
        request, dt = request._replace(dt=None), request.dt  # as precise as it is
    if recorded is not None and recorded.acceleration is None:
        request = request._replace(start=replace(request.start, acceleration=None))
    motions = []
    for row in range(request.batch):
        plan = plan_of_sequence(request, row, dt, 0)
        if recorded is not None:
            plan = replace(plan, steps=plan.steps[:-1], actions=plan.actions[:-1])
        motions.append(next(courses_of(plan, 0, 0, lambda _: None, reading)).motion)
    return motions


def limits_of(robot: Robot, joint_names: tuple[str, ...]) -> JointLimits:
    """The robot's limits of the joints of a sequence, in their order; none where it has none."""
    return (robot.limits or JointLimits()).of_joints(joint_names)


def stopped(motion: Motion, limits: JointLimits) -> Motion:
    """The motion brought to rest as by the node, with a brake within limits if one is needed.

    Raises ValueError if the limits allow no brake of reasonable length.
    """
    bounds = assumed_limits(limits, BRAKE_TIME_S, assumed_velocity=1.0).bounds
    try:
        most = bounds.raised_to(motion).with_positions_of(bounds)
        return stopped_at_end(motion, most, REST_TOLERANCE, limits.joint_names)
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


def told_steps(plans: list[Motion], limits: JointLimits) -> Iterator[str]:
    """A line for each trajectory of held accelerations whose steps exceed the jerk limit: the node rejects it."""
    steps_only = JointLimits(jerk=limits.jerk, joint_names=limits.joint_names)
    for number, plan in enumerate(plans):
        told = "" if plan.with_accelerations else find_motion_violation(plan, steps_only)
        if told:
            yield told + (f", trajectory {number}" if len(plans) > 1 else "")


def told_violations(motions: list[Motion], limits: JointLimits, units: JointUnits) -> Iterator[str]:
    """A line for each quantity of each joint and trajectory that exceeds a limit: its worst, also between points."""
    for number, motion in enumerate(motions):
        which = f" of trajectory {number}" if len(motions) > 1 else ""
        for found in worst_violations(motion, limits):
            joint = limits.joint_names[found.joint]
            yield found.told(joint, f"at {found.time:.4g} s{which}", units.of(joint)[found.order])

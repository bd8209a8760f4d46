"""From a plan, and the robot's state when it takes over, to one motion. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..execution.extremes import bernstein
from ..execution.fade import join
from ..execution.motion import Motion, State, resting
from ..execution.native import all_finite
from ..execution.rest import brought_to_rest
from ..execution.rows import Hold, motion_of_actions
from ..execution.spline import cubic_spline, rests_at_end
from .plan import Plan
from .spline_motion import earlier, spline_motion

_LONGER = 1.5
"""Factor by which a fade is prolonged as long as it would make a joint reverse."""
_MOST_PIECES_AT_REST = 16


@dataclass(frozen=True)
class Fading:
    """How the difference between robot and plan fades."""

    time: float
    """s; 0: there is no fade."""
    rest_tolerance: float
    """rad/s."""


def started_motion(plan: Plan, robot: State, fading: Fading) -> Motion:
    """Return the motion of a plan from its start, or from the robot's state if the plan has no start.

    Args:
        plan: a plan with at least one step.
        robot: state at the plan's origin.
        fading: of the difference between the start's acceleration and the plan's.

    """
    start = robot if plan.start is None else _filled(plan.start, robot)
    if plan.spline is not None:
        return spline_motion(plan, start)
    actions = plan.actions
    if not all_finite(actions):
        actions = np.where(np.isnan(actions), start.position, actions)
    return motion_of_actions(
        plan.hold,
        plan.steps,
        actions,
        start,
        rest_tolerance=fading.rest_tolerance,
        fade_time=fading.time or plan.duration,
    )


def replacing_motion(plan: Plan, into: float, robot: State, fading: Fading) -> tuple[Motion, State]:
    """Return the motion of a plan that takes over from a moving robot.

    A plan without a start is attached to the robot: velocities, accelerations and jerks continue from its state;
    positions are absolute, and their motion is extrapolated backwards from the first of them.

    Args:
        plan: a plan with steps that are not over at `into`.
        into: s of the plan that are over.
        robot: state at that time.
        fading: of the difference between the robot and the plan.

    Returns:
        The motion, begun from the robot's state, and the difference between that state and the plan's.

    """
    if plan.start is None:
        motion = _laid_to(plan, into, robot, fading)
    else:
        motion = started_motion(plan, robot, fading)
        motion = motion.from_time(into) if into else motion
    return joined(motion, robot, fading)


def joined(motion: Motion, robot: State, fading: Fading) -> tuple[Motion, State]:
    """Begin a motion from the robot's state; also return the difference between that state and the motion's.

    A fade that would reverse a joint that the motion itself does not reverse is prolonged, up to the motion's duration.
    A fade that takes longer than the motion continues while the joints rest, or is cut off if they would not rest.
    """
    lack = _lack(motion, robot)
    if fading.time <= 0 or not any(part.any() for part in lack):
        return motion, lack
    time = fading.time
    begun = _faded(motion, robot, time, fading.rest_tolerance)
    while _turns_back(begun, motion, robot) and time < motion.duration:
        time *= _LONGER
        begun = _faded(motion, robot, time, fading.rest_tolerance)
    return begun, lack


def _lack(motion: Motion, robot: State) -> State:
    """Difference of a state from a motion's start; 0 for an unknown acceleration, and for one that jumps anyway."""
    begin = motion.begin
    acceleration = np.zeros(motion.dof)
    if robot.acceleration is not None and motion.with_accelerations:
        acceleration = robot.acceleration - begin.acceleration
    return State(robot.position - begin.position, robot.velocity - begin.velocity, acceleration)


def _laid_to(plan: Plan, into: float, robot: State, fading: Fading) -> Motion:
    """The remaining motion of a plan without a start of its own."""
    if plan.spline is not None:
        motion = spline_motion(plan, earlier(robot, into))
        return motion.from_time(into) if into else motion
    if plan.hold is Hold.POSITION and len(plan.steps) > 1:
        # Joints that are left out stop, if they can do so without reversing.
        still = robot.position + robot.velocity * (fading.time / 2)
        rows = np.where(np.isnan(plan.actions), still, plan.actions)
        rest = rests_at_end(rows, float(plan.steps[-1]), fading.rest_tolerance)
        spline = cubic_spline(plan.steps[1:], rows, ends_at_rest=rest)
        later = into - plan.steps[0]
        return spline.from_time(later) if later >= 0 else spline.begun_earlier(-later)
    if plan.hold is Hold.VELOCITY:
        rows = np.vstack([np.zeros(len(robot.position)), (plan.actions * plan.steps[:, None]).cumsum(axis=0)])
        rest = rests_at_end(rows, float(plan.steps[-1]), fading.rest_tolerance)
        motion = cubic_spline(plan.steps, rows, ends_at_rest=rest)
        motion = motion.from_time(into) if into else motion
        return motion.moved(robot.position - motion.coefficients[0, 0])
    first = int(np.searchsorted(plan.ends, into, side="right"))
    steps, actions = plan.steps[first:].copy(), plan.actions[first:]
    steps[0] = plan.ends[first] - into
    return started_motion(Plan(plan.hold, steps, actions, None, 0), robot, fading)


def _filled(start: State, robot: State) -> State:
    """The start state, with NaN replaced by the robot's state."""
    if all(part is None or all_finite(part) for part in start):
        return start
    position = np.where(np.isnan(start.position), robot.position, start.position)
    velocity = np.where(np.isnan(start.velocity), robot.velocity, start.velocity)
    acceleration = start.acceleration
    if acceleration is not None and np.isnan(acceleration).any():
        acceleration = robot.acceleration
    return State(position, velocity, acceleration)


def _faded(motion: Motion, robot: State, time: float, rest_tolerance: float) -> Motion:
    missing = time - motion.duration
    if missing <= 0:
        return join(motion, robot, time)
    end = motion.end
    last_step = float(motion.knots[-1] - motion.knots[-2])
    if np.abs(end.velocity).max() <= rest_tolerance:
        motion = motion if motion.ends_at_rest else brought_to_rest(motion, time)
        step = max(last_step, time / _MOST_PIECES_AT_REST)
        pieces = int(np.ceil(missing / step))
        return join(motion.then(resting(end.position, pieces * step, pieces)), robot, time)
    ongoing = Motion(np.array([0.0, missing]), np.stack([end.position, end.velocity])[None])
    return join(motion.then(ongoing), robot, time).until(motion.duration)


def _turns_back(begun: Motion, motion: Motion, robot: State) -> bool:
    """Whether a joint changes its direction although neither the robot nor the motion that it joins does."""
    slack = 1e-9 + 1e-6 * np.abs(robot.velocity)
    velocities = bernstein(begun.coefficients, begun.steps, 1)
    forward = (robot.velocity > 0) & (velocities.min(axis=(0, 1)) < -slack)
    backward = (robot.velocity < 0) & (velocities.max(axis=(0, 1)) > slack)
    if not (forward.any() or backward.any()):
        return False
    planned = bernstein(motion.coefficients, motion.steps, 1)
    turned = (forward & (planned.min(axis=(0, 1)) >= 0)) | (backward & (planned.max(axis=(0, 1)) <= 0))
    return bool(turned.any())

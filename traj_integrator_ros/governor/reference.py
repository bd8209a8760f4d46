"""What a plan means: its own motion, from its origin on. Knows no ROS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..execution.bounds import Bounds
from ..execution.interpolant import fit
from ..execution.motion import Motion, State, resting
from ..execution.polynomials import between, powers_of
from ..execution.rows import Reference, knots_of, rests_at_end
from ..execution.steps import Steps
from ..execution.stopping import fastest_to
from ..execution.tolerances import MOMENT_S, NANOSECOND_S, ROUNDING, whole_ns
from ..kernels import BsplineLayout
from ..parameters.parameters import NodeParameters
from ..parameters.table import ACTION_RETIME, GRIPPER
from ..requests.plan import Plan
from ..requests.rejection import Rejected, RejectionReason
from .complete_plan import complete_motion

_CUBIC = 3
_OF_SPEED = 0.8
"""Share of the limit of velocity with which a gripper goes to rows that jump: splines through such rows are faster."""


def reference(
    plan: Plan,
    origin_ns: int,
    at_ns: int,
    before: State | None,
    begin: State | None,
    parameters: NodeParameters,
    assumed: Bounds,
) -> Reference:
    """Return what a plan means.

    `interpolant` gives the motion of rows of positions or velocities; held accelerations, held jerks and control points
    are polynomials already. One position, or the same one in all rows, is a goal: joints go there as fast as limits
    allow, or in a complete plan as fast as it says. Raises Rejected: limits_violated, if a goal cannot be reached.

    Args:
        plan: with all positions finite.
        origin_ns: when its first step begins, ns.
        at_ns: when it begins to be executed, ns.
        before: the commanded state when its first step begins; None if the plan has a start.
        begin: the commanded state when it begins to be executed; None likewise.
        parameters: the node's configuration.
        assumed: limits, with assumed values where none is given.

    """
    if _is_goal(plan) and np.isfinite(assumed.velocity).all():
        if not plan.is_complete or begin.velocity.any():
            goal = _goal(plan, origin_ns, at_ns, begin, assumed)
            in_time = goal.motion.duration <= goal.passes[-1] + ROUNDING
            if not plan.is_complete or in_time or parameters.limits_action == ACTION_RETIME:
                return goal
    if plan.is_complete:
        found = complete_motion(plan, before, parameters, assumed)
        return found._replace(motion=found.motion._replace(start_ns=origin_ns))
    motion = _chunk(plan, plan.start or before, parameters, assumed.velocity)
    passes = plan.ends - motion.start_ns * NANOSECOND_S
    return Reference(motion._replace(start_ns=origin_ns + motion.start_ns), passes)


def _is_goal(plan: Plan) -> bool:
    """Return whether all positions of a plan are the same, and nothing but rest is said about how to get there."""
    if not plan.is_positions or plan.spline is not None or np.count_nonzero(plan.actions != plan.actions[0]):
        return False
    return plan.velocities is None or (len(plan.steps) == 1 and bool(np.isnan(plan.velocities[0]).all()))


def _goal(plan: Plan, origin_ns: int, at_ns: int, begin: State, assumed: Bounds) -> Reference:
    """Return the fastest motion to the only position of a plan. Raises Rejected: limits_violated."""
    passes = (origin_ns - at_ns) * NANOSECOND_S + plan.ends
    try:
        motion = fastest_to(plan.actions[0], begin, assumed, max(float(passes[0]), 0.0))
    except ValueError as error:
        raise Rejected(RejectionReason.LIMITS, f"motion: {error}") from None
    missing = passes[-1] - motion.duration if plan.is_complete else 0.0
    if missing > MOMENT_S:
        motion = motion.then(resting(motion.end.position, missing))
    return Reference(motion._replace(start_ns=at_ns), passes)


def _chunk(plan: Plan, begin: State, parameters: NodeParameters, fastest: np.ndarray) -> Motion:
    """Return the interpolant of a chunk that begins in a state; its start counts from the first step."""
    if plan.is_positions and plan.spline is None and GRIPPER in parameters.kinds:
        plan = _paced(plan, begin.position, fastest, parameters.of_kind(GRIPPER))
    if plan.spline is not None or not (plan.is_positions or plan.is_velocities):
        return exact_motion(plan, begin)
    steps, rows, tolerance = plan.steps, plan.actions, parameters.publish_rest_tolerance
    if plan.is_velocities:
        rests = bool((np.abs(rows[-1]) <= tolerance).all())
        return fit(steps, rows, rests, start=begin.position)[0]
    first_s = 0.0
    if plan.start is not None:
        rows = np.concatenate([begin.position[None], rows])
    else:  # It begins with its own first row.
        first_s, steps = float(steps[0]), steps[1:]
    motion, _ = fit(steps, rows, rests_at_end(rows, float(plan.steps[-1]), tolerance))
    return motion._replace(start_ns=whole_ns(first_s))


def exact_motion(plan: Plan, start: State) -> Motion:
    """Return the motion of held accelerations, held jerks or control points, which are polynomials already.

    The kernel of the control map (docs/kernels.md) computes the states between steps, in float64 on the CPU, so that no
    robot waits for a device. It gets the last action twice, because the last action of a map with as many rows as
    actions affects no row. An unknown acceleration at the start counts as 0.
    """
    actions, steps, every, goals = plan.actions, plan.steps, 1, {}
    if plan.spline is not None:
        dt, every = float(steps[0]) / plan.spline.steps, plan.spline.steps
        goals = {f"goal_{name}": _row(values) for name, values in (plan.goal or State(None, None))._asdict().items()}
    else:  # The map takes a first step that also leads to the start.
        actions, dt = (np.concatenate(part) for part in ((actions, actions[-1:]), (steps[:1], steps)))
        dt = _row(dt)
    rows = plan.map.step(_row(actions), *map(_row, start), dt=dt, **goals)
    first = plan.map.start_row
    states = torch.cat(rows)[:, first : first + every * len(steps) + 1 : every].numpy()
    knots, (position, velocity, acceleration, jerk) = knots_of(steps), states[:, :-1]
    if plan.holds_accelerations:
        return Motion(knots, powers_of([position, velocity, plan.actions / 2]), with_accelerations=False)
    if plan.spline is None:
        return Motion(knots, powers_of([position, velocity, acceleration / 2, plan.actions / 6]))
    if plan.spline.degree == _CUBIC:
        pieces = powers_of([position, velocity, acceleration / 2, jerk / 6])
    else:
        pieces = between(steps, states[:3])
    # In cuRobo's layout, the spline ends one segment after the goal.
    orders = 3 if plan.spline.layout is BsplineLayout.CUROBO else 2
    moves = any(part is not None and part.any() for part in (plan.goal or ())[1:orders])
    return Motion(knots, pieces, ends_at_rest=not moves)


def _row(values: np.ndarray | None) -> Tensor | None:
    return None if values is None else torch.from_numpy(values)[None]


def _paced(plan: Plan, begin: np.ndarray, fastest: np.ndarray, chosen: np.ndarray) -> Plan:
    """Return the plan whose chosen joints, bool `[dof]`, go to their rows no faster than they can, rad/s."""
    steps, actions = _OF_SPEED * plan.steps[:, None] * fastest, plan.actions
    moves = np.abs(np.diff(actions, axis=0, prepend=begin[None]))
    if not (chosen & (moves > steps)).any():
        return plan
    rows, place = actions.copy(), begin
    for row, step in zip(rows, steps, strict=True):
        row[chosen] = place[chosen] + np.clip(row - place, -step, step)[chosen]
        place = row
    return replace(plan, actions=rows)


def steps_of_rows(plan: Plan, joints: np.ndarray, passes: np.ndarray) -> Steps:
    """Return the rows of switched joints as steps, each at a time at which its row is passed, s `[N]`.

    Control points of splines are spread evenly over its segments.
    """
    rows = plan.actions[:, joints]
    if len(rows) != len(passes):
        rows = rows[np.rint(np.linspace(0, len(rows) - 1, len(passes))).astype(int)]
    return Steps(joints, passes, rows)


def with_standing(plan: Plan, joints: np.ndarray, position: np.ndarray) -> Plan:
    """Return a plan in which some joints stand at a position, rad, `[k]`."""
    states = {"start": plan.start, "goal": plan.goal}
    changes = {name: state.held(joints, position) for name, state in states.items() if state is not None}
    stands = position if plan.is_positions or plan.spline is not None else 0.0
    for name, value in (("actions", stands), ("velocities", 0.0), ("accelerations", 0.0)):
        if (values := getattr(plan, name)) is not None and len(values):
            changes[name] = values = values.copy()
            values[:, joints] = np.where(np.isnan(values[:, joints]), np.nan, value)
    return replace(plan, **changes)


def stops_of(plan: Plan) -> np.ndarray:
    """Return which joints stop as fast as they may, bool `[dof]`: all their velocities are 0, or they are left out."""
    if plan.left_out is not None:
        return plan.left_out
    return ~plan.actions.any(axis=0) if plan.is_velocities else np.zeros(plan.actions.shape[1], bool)

"""What is commanded, and what was measured, at times that a policy gives: `~/committed`, observations. Knows no ROS."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..execution.committed import Committed
from ..execution.motion import resting
from ..execution.tolerances import MOMENT_S, NANOSECOND_S, SECOND_NS, whole_ns
from ..parameters.parameters import NodeParameters
from ..parameters.table import LONGEST_WAIT_S
from ..requests.plan import turned
from ..requests.rejection import Rejected, RejectionReason, require_steps
from .command import Command
from .executable import ExecutableTrajectory
from .measured import JointStates, MeasuredState

_LONGEST_GAP_NS = 200_000_000
"""Longest interval between two joint states, ns, over which measured positions are interpolated."""
_OLDEST_NS = 10 * SECOND_NS
"""Age, ns, from which on no observation is used: no policy computes for so long. At 400 Hz, as many states are kept."""


class CommittedFields(NamedTuple):
    """The request."""

    stamp_ns: int
    """Time of row 0; 0: now."""
    dt: float
    """Time step, s; 0: the parameter's."""
    rows: int
    rows_before: int


def committed_rows(fields: CommittedFields, parameters: NodeParameters, command: Command, now_ns: int) -> Committed:
    """Return the rows of the motion in execution at the times of a chunk.

    Raises Rejected: not_finite, invalid_dt, size_out_of_range or future_sequence; where nothing is known about the
    command, no_joint_state, state_too_old or clock_jumped_back; controller_unavailable.
    """
    dt, most, count = fields.dt or parameters.dt, parameters.max_horizon, fields.rows_before
    require_steps(np.array([dt]))
    for name, asked, most_rows in (("rows", fields.rows, most + 1), ("rows_before", count, most)):
        if asked > most_rows:
            raise Rejected(
                RejectionReason.SIZE_OUT_OF_RANGE, f"{name}: expected at most {most_rows} (max_horizon), got {asked}"
            )
    origin_ns = command.clock.of_node(fields.stamp_ns) or now_ns
    if (ahead := (origin_ns - now_ns) * NANOSECOND_S) > LONGEST_WAIT_S:
        raise Rejected(
            RejectionReason.FUTURE_SEQUENCE,
            f"stamp: expected at most {LONGEST_WAIT_S:g} s ahead of the node's clock, got {ahead:.3f} s",
        )
    times_ns = origin_ns + np.rint(np.arange(-count, fields.rows) * dt * SECOND_NS).astype(np.int64)
    dof, turning, at = len(parameters.joint_names), parameters.continuous, command.motion_clock.at
    if (present := command.at(now_ns, waits=False)) is None:  # Nothing is in execution, and the robot is held.
        held = command.joint_states.latest(now_ns, parameters.state_timeout).position
        present = ExecutableTrajectory(resting(held, MOMENT_S, at(now_ns)), follows=False)
    follows = present.follows and command.is_moving(now_ns)
    commanded = np.full((2, len(times_ns), dof), np.nan)
    for row, time_ns in enumerate(times_ns.tolist()):
        state = command.commanded(time_ns) if row < count or time_ns < now_ns else None
        if state is not None or row >= count:
            commanded[:, row] = (state or present.motion.at(at(time_ns)))[:2]
    # The node knows of what is commanded when most reports have arrived.
    lead = parameters.publish_lead_time + command.heard.way_s()
    fixed = int(np.searchsorted(times_ns[count:], now_ns + whole_ns(lead), side="right"))
    before = commanded[:, :count]
    place, speed = measured_at(command.joint_states.recent, times_ns[:count], dof, turning)
    place = turned(place, np.where(np.isnan(before[0]), place, before[0]), turning)
    told = command.clock.to_node(now_ns), lead, fixed, follows
    return Committed(parameters.joint_names, *told, *commanded[:, count:], *before, place, speed)


def observed(
    joint_states: JointStates, joints: np.ndarray, stamp_ns: int, now_ns: int, parameters: NodeParameters
) -> np.ndarray:
    """Return the measured positions at a time, to which actions are relative, rad, `[dof]`.

    Args:
        joint_states: the states that are kept.
        joints: joints that are needed, bool `[dof]`; others may be NaN.
        stamp_ns: the time, by the clock of the joint states, ns; 0: that of the latest joint state.
        now_ns: the present time.
        parameters: the node's configuration.

    Raises:
        Rejected: no_observation, where the states of a joint end before the stamp, begin after it, or have a gap there;
            no_joint_state, state_too_old, clock_jumped_back or contradictory_state.

    """
    latest = joint_states.latest(now_ns, 0.0 if stamp_ns else parameters.state_timeout)
    if not stamp_ns:
        return latest.position
    first_ns, states = now_ns - _OLDEST_NS, joint_states.recent
    position = measured_at(states, np.array([stamp_ns]), len(joints), parameters.continuous)[0][0]
    unknown = joints & (np.isnan(position) | (stamp_ns < first_ns))
    if unknown.any():
        joint = int(unknown.argmax())
        times_ns = max(first_ns, int(states[0].stamps_ns[joint])), int(latest.stamps_ns[joint]), stamp_ns
        oldest_s, newest_s, given_s = ((now_ns - time_ns) * NANOSECOND_S for time_ns in times_ns)
        raise Rejected(
            RejectionReason.NO_OBSERVATION,
            "header.stamp: actions are relative to the joint state of that time (parameter relative_to): expected two "
            f"states of {parameters.joint_names[joint]} around it without a gap, kept from {oldest_s:.3f} to "
            f"{newest_s:.3f} s ago, got {given_s:.3f} s ago",
        )
    return position


def measured_at(
    states: Sequence[MeasuredState], times_ns: np.ndarray, dof: int, turning: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return measured positions and velocities `[N, dof]` at times `[N]`, interpolated linearly; NaN where unknown.

    Positions of `turning` joints, bool `[dof]`, take the short way between two joint states.
    """
    position, velocity = np.full((2, len(times_ns), dof), np.nan)
    if not len(times_ns):
        return position, velocity
    newest = [state.stamp_ns for state in states]
    begin = bisect_left(newest, int(times_ns.min()) - 2 * _LONGEST_GAP_NS)
    near = [states[k] for k in range(begin, bisect_left(newest, int(times_ns.max()) + 2 * _LONGEST_GAP_NS))]
    for joint in range(dof if near else 0):
        stamps_ns, first = np.unique([state.stamps_ns[joint] for state in near], return_index=True)
        rows = np.array([(near[k].position[joint], near[k].velocity[joint]) for k in first])
        if turning[joint]:
            rows[:, 0] = np.unwrap(rows[:, 0])
        gap = np.diff(stamps_ns, prepend=stamps_ns[0])
        after = stamps_ns.searchsorted(times_ns)
        known = (after < len(stamps_ns)) & (times_ns >= stamps_ns[0])
        known[known] &= (gap[after[known]] <= _LONGEST_GAP_NS) | (stamps_ns[after[known]] == times_ns[known])
        for values, column in zip((position, velocity), rows.T, strict=True):
            values[known, joint] = np.interp(times_ns[known] - stamps_ns[0], stamps_ns - stamps_ns[0], column)
    return position, velocity

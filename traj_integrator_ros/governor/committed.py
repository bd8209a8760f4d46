"""The motion in execution at the times of a chunk that is being planned (`~/committed`). Knows no ROS."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..execution.committed import Committed
from ..execution.tolerances import NANOSECOND_S, SECOND_NS, whole_ns
from ..parameters.parameters import NodeParameters
from ..parameters.table import LONGEST_WAIT_S
from ..requests.plan import turned
from ..requests.rejection import Rejected, RejectionReason, require_steps
from .command import Command
from .measured import JointStates, MeasuredState

_TRANSPORT_PERCENT = 95
_LONGEST_GAP_NS = 200_000_000
"""Longest interval between two joint states, ns, over which measured positions are interpolated."""


class CommittedFields(NamedTuple):
    """The request."""

    stamp_ns: int
    """Time of row 0; 0: now."""
    dt: float
    """Time step, s; 0: the parameter's."""
    rows: int
    rows_before: int


def committed_rows(
    fields: CommittedFields, parameters: NodeParameters, command: Command, joint_states: JointStates, now_ns: int
) -> Committed:
    """Return the rows of the motion in execution at the times of a chunk.

    Raises Rejected: not_finite, invalid_dt, size_out_of_range or future_sequence; where nothing is known about the
    command, no_joint_state, state_too_old or clock_jumped_back; controller_unavailable.
    """
    dt, most = fields.dt or parameters.dt, parameters.max_horizon
    require_steps(np.array([dt]))
    for name, count, most_rows in (("rows", fields.rows, most + 1), ("rows_before", fields.rows_before, most)):
        if count > most_rows:
            raise Rejected(
                RejectionReason.SIZE_OUT_OF_RANGE, f"{name}: expected at most {most_rows} (max_horizon), got {count}"
            )
    origin_ns = fields.stamp_ns or now_ns
    if (ahead := (origin_ns - now_ns) * NANOSECOND_S) > LONGEST_WAIT_S:
        raise Rejected(
            RejectionReason.FUTURE_SEQUENCE,
            f"stamp: expected at most {LONGEST_WAIT_S:g} s ahead of the node's clock, got {ahead:.3f} s",
        )
    rows_ns = origin_ns + np.rint(np.arange(-fields.rows_before, fields.rows) * dt * SECOND_NS).astype(np.int64)
    before_ns, times_ns = rows_ns[: fields.rows_before], rows_ns[fields.rows_before :]
    dof, turning = len(parameters.joint_names), parameters.continuous
    commanded = _commanded_at(command, times_ns, dof)
    unknown = (times_ns >= now_ns) | np.isnan(commanded[0]).any(axis=1)
    if (now := command.at(now_ns, waits=False)) is None:  # Nothing is in execution, and the robot is held.
        commanded[0], commanded[1] = joint_states.latest(now_ns, parameters.state_timeout).position, 0.0
    else:
        for row in np.flatnonzero(unknown).tolist():
            state = now.planned.state_at(command.motion_clock.at(int(times_ns[row])))
            commanded[:, row] = state[:2]
    # The node knows of what is commanded when most reports have arrived.
    lead = parameters.publish_lead_time + float(np.percentile([0.0, *command.transport], _TRANSPORT_PERCENT))
    fixed = int(np.searchsorted(times_ns, now_ns + whole_ns(lead), side="right"))
    follows = now is not None and now.follows and command.is_moving(now_ns)
    before = _commanded_at(command, before_ns, dof)
    place, speed = measured_at(joint_states.recent, before_ns, dof, turning)
    place = turned(place, np.where(np.isnan(before[0]), place, before[0]), turning)
    return Committed(parameters.joint_names, now_ns, lead, fixed, follows, *commanded, *before, place, speed)


def _commanded_at(command: Command, times_ns: np.ndarray, dof: int) -> np.ndarray:
    """Return commanded positions and velocities at times `[N]`, ns, `[2, N, dof]`; NaN where they are unknown."""
    found = np.full((2, len(times_ns), dof), np.nan)
    for row, time_ns in enumerate(times_ns.tolist()):
        if (state := command.commanded(time_ns)) is not None:
            found[:, row] = state[:2]
    return found


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

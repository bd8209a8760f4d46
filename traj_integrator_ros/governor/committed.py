"""The motion in execution at the times of a chunk that is being planned (`~/committed`). Knows no ROS."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..execution.committed import Committed
from ..execution.tolerances import NANOSECOND_S, SECOND_NS, whole_ns
from ..parameters.parameters import NodeParameters
from ..parameters.table import LONGEST_WAIT_S
from ..requests.plan import turned
from ..requests.rejection import Rejected, RejectionReason, require_steps
from .measured import JointStates, MeasuredState
from .present import PresentCommand
from .sent import SentMotion, in_execution

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
    fields: CommittedFields,
    parameters: NodeParameters,
    present: PresentCommand,
    joint_states: JointStates,
    now_ns: int,
) -> Committed:
    """Return the rows of the motion in execution at the times of a chunk.

    Raises:
        Rejected: not_finite, invalid_dt, size_out_of_range or future_sequence; where nothing is known about the
            command, no_joint_state, state_too_old or clock_jumped_back; controller_unavailable.

    """
    dt = fields.dt if fields.dt != 0 else parameters.dt
    require_steps(np.array([dt]))
    for name, count, most in (
        ("rows", fields.rows, parameters.max_horizon + 1), ("rows_before", fields.rows_before, parameters.max_horizon)
    ):  # fmt: skip
        if count > most:
            raise Rejected(
                RejectionReason.SIZE_OUT_OF_RANGE, f"{name}: expected at most {most} (max_horizon), got {count}"
            )
    origin_ns, step_ns = fields.stamp_ns or now_ns, dt * SECOND_NS
    if (origin_ns - now_ns) * NANOSECOND_S > LONGEST_WAIT_S:
        raise Rejected(
            RejectionReason.FUTURE_SEQUENCE,
            f"stamp: expected at most {LONGEST_WAIT_S:g} s ahead of the node's clock, got "
            f"{(origin_ns - now_ns) * NANOSECOND_S:.3f} s",
        )
    dof = len(parameters.joint_names)
    times_ns = origin_ns + np.rint(np.arange(fields.rows) * step_ns).astype(np.int64)
    before_ns = origin_ns - np.rint(np.arange(fields.rows_before, 0, -1) * step_ns).astype(np.int64)
    at = present.motion_clock.at_times
    position, velocity = commanded_at(present.sent, at(times_ns), dof)
    follows = _fill_ahead(position, velocity, times_ns, parameters, present, joint_states, now_ns)
    lead = parameters.publish_lead_time + transport_s(present)
    fixed = int(np.searchsorted(times_ns, now_ns + whole_ns(lead), side="right"))
    commanded = commanded_at(present.sent, at(before_ns), dof)
    measured = measured_at(joint_states.recent, before_ns, dof, parameters.continuous)
    near = np.where(np.isnan(commanded[0]), measured[0], commanded[0])
    measured = turned(measured[0], near, parameters.continuous), measured[1]
    return Committed(parameters.joint_names, now_ns, lead, fixed, follows, position, velocity, *commanded, *measured)


def transport_s(present: PresentCommand) -> float:
    """Return the 95th percentile of the time from the controller to the node, s; 0 if it does not report."""
    return float(np.percentile(present.transport, _TRANSPORT_PERCENT)) if present.transport else 0.0


def _fill_ahead(
    position: np.ndarray,
    velocity: np.ndarray,
    times_ns: np.ndarray,
    parameters: NodeParameters,
    present: PresentCommand,
    joint_states: JointStates,
    now_ns: int,
) -> bool:
    """Fill in the commands from now on, and earlier rows that are unknown; returns whether a motion is in execution."""
    now = present.at(now_ns, waits=False)
    if now is None:
        state = joint_states.latest(now_ns, parameters.state_timeout)
        position[:], velocity[:] = state.position, 0.0
        return False
    at = present.motion_clock.at
    for row in np.flatnonzero((times_ns >= now_ns) | np.isnan(position).any(axis=1)):
        state = now.planned.state_at(at(int(times_ns[row])))
        position[row], velocity[row] = state.position, state.velocity
    ends_ns = now.planned.start_ns + whole_ns(now.planned.motion.duration)
    return now.follows and at(now_ns) < ends_ns


def commanded_at(sent: Iterable[SentMotion], times_ns: np.ndarray, dof: int) -> tuple[np.ndarray, np.ndarray]:
    """Return commanded positions and velocities `[N, dof]` at times `[N]`, ns; NaN where they are unknown."""
    position, velocity = np.full((2, len(times_ns), dof), np.nan)
    at = in_execution(sent)
    for row, time_ns in enumerate(times_ns.tolist()):
        if (planned := at(time_ns)) is not None:
            state = planned.state_at(time_ns)
            position[row], velocity[row] = state.position, state.velocity
    return position, velocity


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

"""The status that the node publishes on /diagnostics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus

from ..governor.controller_reports import ControllerStatus
from ..governor.executed import ExecutionReport
from ..governor.robot_clock import RobotClock
from ..governor.supervision import Guard
from ..limits.joint_limits import AssumedLimits
from ..parameters.parameters import NodeParameters
from ..parameters.table import START_FROM_PREVIOUS
from ..requests.goals import Ended
from ..requests.rejection import RejectionReason
from ..wire.readers import Stamp
from ..wire.writers import serialize_status
from .accounts import Accounts, Output

CONSPICUOUS = {
    ControllerStatus.LATE: "it still executed a motion that had been replaced; raise publish.lead_time",
    ControllerStatus.RESTARTED: "it was restarted, aborted the motion, or refused it, and holds its position",
    ControllerStatus.OTHER: "it executes a motion that this node has not published",
    ControllerStatus.FASTER: "it executes motions faster than planned; sequences are rejected",
    ControllerStatus.SILENT: "it reported, and does not any more; sequences are rejected",
}
"""What diagnostics say about states of the controller to which an operator should react."""
_FAULTS = (RejectionReason.INTERNAL_ERROR, RejectionReason.OUT_OF_DEVICE_MEMORY)
"""Reasons that concern the node and not the sender: their level is ERROR."""
_LET_THROUGH = (RejectionReason.LIMITS, RejectionReason.START_MISMATCH)
"""Reasons that reject nothing with limits.action = warn; their counts are published even if they are 0."""
_CLOCK_OFFSET_S = 0.02
"""Smallest offset between the clocks of robot and node, s, that is reported: a synchronized clock has less."""
_UNTIMELY = ("late", "starved", "out_of_order")
_PERCENTS = 50, 99
_COUNTS_OF_EXECUTION = ("dropped_steps", *_UNTIMELY, "slowed", "brakes")
_REJECTED, _WARNED = (
    {reason: f"{what}.{reason.value}" for reason in RejectionReason} for what in ("rejected", "warned")
)
"""Keys of the counts of each reason."""


@dataclass(frozen=True)
class NodeStatus:
    """The state of a node, from which its status is made."""

    lifecycle_state: str
    failure: str
    """Why the last configure failed; empty if it did not."""
    accounts: Accounts
    execution: ExecutionReport
    guard: Guard
    controller: ControllerStatus
    clock: RobotClock
    scaling: float = 1.0
    """Share of the planned speed at which motions are executed."""
    robot: str = ""
    """Name of the robot, for people."""

    # Fields that are known while the node is configured

    device: str = "none"
    backend: str = "none"
    parameters: NodeParameters | None = None
    limits: str = "none"
    """Source of the limit of each quantity."""
    assumed: AssumedLimits | None = None
    state_age_s: float | None = None
    state_oldest_joint: str = ""
    controller_was: frozenset[ControllerStatus] = frozenset()
    """Events of the controller since the previous status."""
    controller_state: str = "none"
    """Topic of the controller's reports."""
    goal: str = "none"
    """State of the action goal, as diagnostics show it."""


class Diagnostics:
    """Turns successive statuses into messages; levels cover what happened since the previous message.

    OK: the node is active and rejected nothing. WARN: input was rejected or exceeded a limit, the node is not active,
        the controller does not execute what was sent, or limits are missing. STALE: the node is active, and the joint
        state is older than state_timeout. ERROR: the robot is braked and sequences are rejected, configure failed,
        device memory ran out, or a callback failed unexpectedly.

    Args:
        name: of the status.

    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._counted: list[Counter[RejectionReason]] = [Counter(), Counter()]
        """Counts in the previous message: rejections, and violations that were executed nevertheless."""
        self._execution = ExecutionReport()
        self._clock_steps = 0

    def message(self, status: NodeStatus, stamp: Stamp) -> bytes:
        """Return the serialized DiagnosticArray for a status."""
        counted = [status.accounts.rejected.copy(), status.accounts.warned.copy()]
        rejected, warned = (now - before for now, before in zip(counted, self._counted, strict=True))
        before, now = self._execution, status.execution
        untimely = {name: getattr(now, name) - getattr(before, name) for name in _UNTIMELY}
        untimely["clock set"] = status.clock.steps - self._clock_steps
        self._clock_steps = status.clock.steps
        self._counted, self._execution = counted, now
        if status.parameters is None or status.parameters.start_from != START_FROM_PREVIOUS:
            # A trajectory that does not continue the previous one comes during its brake, or after it.
            untimely["starved"] = 0
        level, summary = _judge(status, rejected, warned, untimely)
        return serialize_status(stamp, level, self._name, summary, status.robot, _values(status))


def _judge(
    status: NodeStatus,
    rejected: Counter[RejectionReason],
    warned: Counter[RejectionReason],
    untimely: dict[str, int],
) -> tuple[bytes, str]:
    if status.failure:
        return DiagnosticStatus.ERROR, f"{status.lifecycle_state}: {status.failure}"
    faults = {reason: count for reason, count in rejected.items() if reason in _FAULTS}
    if faults:
        return DiagnosticStatus.ERROR, _listed(faults)
    if status.lifecycle_state != "active":
        return DiagnosticStatus.WARN, f"{status.lifecycle_state}: input is not accepted"
    if status.guard.reason:
        return DiagnosticStatus.ERROR, f"braked: {status.guard.reason}; sequences are rejected until the robot rests"
    if status.guard.held:
        return DiagnosticStatus.ERROR, "stopped: sequences are rejected until ~/stop is called with hold: false"
    age_s, timeout_s = status.state_age_s, status.parameters.state_timeout
    if age_s is not None and 0 < timeout_s < age_s:
        return DiagnosticStatus.STALE, f"joint state is {age_s:.2f} s old (state_timeout {timeout_s:g} s)"
    conspicuous = [one for one in CONSPICUOUS if one is status.controller or one in status.controller_was]
    if conspicuous:
        return DiagnosticStatus.WARN, f"controller {conspicuous[-1].value}: {CONSPICUOUS[conspicuous[-1]]}"
    if status.scaling == 0 and status.controller is not ControllerStatus.SILENT:
        return DiagnosticStatus.WARN, "paused: the controller's speed scaling is 0; motions wait"
    if status.assumed.lacking:
        return (
            DiagnosticStatus.WARN,
            f"no limit of velocity for {', '.join(status.assumed.lacking)}: nothing is published for a controller "
            "(give limits.velocity, a URDF or limits.assumed_velocity)",
        )
    if rejected:
        return DiagnosticStatus.WARN, f"rejected {_listed(rejected)}"
    if warned:
        return DiagnosticStatus.WARN, f"published in spite of {_listed(warned)}"
    if any(untimely.values()):
        return DiagnosticStatus.WARN, ", ".join(f"{count} x {what}" for what, count in untimely.items() if count > 0)
    if dead := [grip.told(status.parameters.joint_names) for grip in status.guard.grips.held if not grip.moves]:
        return DiagnosticStatus.WARN, f"the gripper does not move: {', '.join(dead)}"
    offset_s = (status.clock.offset_ns or 0) * 1e-9
    if abs(offset_s) > _CLOCK_OFFSET_S:
        how = "ahead of this node's" if offset_s > 0 else "behind this node's, unless its stamps take so long"
        return DiagnosticStatus.WARN, f"the robot's clock is {abs(offset_s):.3f} s {how}"
    return DiagnosticStatus.OK, "active" if age_s is not None else "active, no joint state yet"


def _values(status: NodeStatus) -> dict[str, str]:
    accounts, guard, execution = status.accounts, status.guard, status.execution
    values: dict[str, object] = {
        "lifecycle_state": status.lifecycle_state,
        "device": status.device,
        "backend": status.backend,
        "limits": status.limits,
        "assumed_limits": (status.assumed and status.assumed.description) or None,
        "state_age_s": _shown(status.state_age_s),
        "state_oldest_joint": status.state_oldest_joint,
        "sequences": accounts.sequences,
        "published": accounts.published,
        **{
            f"{outputs}_{what}": counts[output] + counts[Output.BOTH]
            for outputs, output in (("batches", Output.BATCH), ("trajectories", Output.ROW))
            for what, counts in (("published", accounts.answered), ("rejected", accounts.refused_for))
        },
        "service_calls": accounts.service_calls,
        "rejected": accounts.rejected.total(),
        **{
            f"{what}_latency_p{percent}_ms": _shown(value)
            for what, ring in (("sequence", accounts.sequence_latency), ("service", accounts.service_latency))
            for percent, value in zip(_PERCENTS, ring.percentiles_ms(*_PERCENTS), strict=True)
        },
        "controller": status.controller.value + f" ({status.scaling:.0%})".replace("%", " %") * (status.scaling != 1),
        "speed_scaling": _shown(status.scaling),
        "controller_state": status.controller_state,
        "clock_offset_ms": None if status.clock.offset_ns is None else f"{status.clock.offset_ns * 1e-6:.3f}",
        "clock_steps": status.clock.steps,
        "deviation_rad": _shown(max(abs(guard.monitor.error), default=None), ".6f"),
        "tracking_error": _row(guard.monitor.error),
        "threshold": _row(guard.monitor.threshold),
        "grasped": _grasped(status),
        "lag_ms": _shown(guard.monitor.lag_s, ".1f", 1e3),
        "follow_joint_trajectory": status.goal,
        **{f"goals_{ended.value}": accounts.goals[ended] for ended in Ended},
        "supervision_brakes": guard.brakes,
        "braked": guard.reason or "no",
        "held": "yes" if guard.held else "no",
        "seam_offset_position": _shown(execution.seam_offset[0], ".6g"),
        "seam_offset_velocity": _shown(execution.seam_offset[1], ".6g"),
        "seam_offset_acceleration": _shown(execution.seam_offset[2], ".6g"),
        "lead_margin_least_ms": _shown(execution.lead_margin_least_s, scale=1e3),
        "lead_margin_median_ms": _shown(execution.lead_margin_median_s, scale=1e3),
        **{name: getattr(execution, name) for name in _COUNTS_OF_EXECUTION},
        "slowed_by_s": _shown(execution.slowed_by_s),
        **{key: accounts.rejected[reason] for reason, key in _REJECTED.items()},
        **{_WARNED[reason]: accounts.warned[reason] for reason in (*_LET_THROUGH, *accounts.warned)},
    }
    return {key: "none" if value is None else str(value) for key, value in values.items()}


def _shown(value: float | None, form: str = ".3f", scale: float = 1.0) -> str | None:
    return None if value is None else format(scale * value, form)


def _row(values: np.ndarray) -> str | None:
    """Format one value for each joint; None before the first comparison."""
    return " ".join(f"{value:.4f}" for value in values) or None


def _grasped(status: NodeStatus) -> str | None:
    """Name the grippers that objects hold back, and where."""
    held = [grip for grip in status.guard.grips.held if grip.moves and status.parameters is not None]
    return ", ".join(grip.told(status.parameters.joint_names) for grip in held) or None


def _listed(counts: dict[RejectionReason, int]) -> str:
    return ", ".join(f"{count} x {reason.value}" for reason, count in counts.items())

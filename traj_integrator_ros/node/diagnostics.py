"""What the node reports about itself on /diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from std_msgs.msg import Header

from ..handling.controller_reports import ControllerStatus
from ..handling.published import ExecutionReport
from ..handling.rejection import RejectionReason
from .accounts import LatencyRing

CONSPICUOUS = {
    ControllerStatus.LATE: "it still executed a motion that had been replaced; raise publish.lead_time",
    ControllerStatus.RESTARTED: "it was restarted, aborted the motion, or refused it, and holds its position",
    ControllerStatus.OTHER: "it executes a motion that this node has not published",
    ControllerStatus.SCALED: "it executes at another speed than planned; sequences are rejected",
    ControllerStatus.SILENT: "it reported, and does not any more; sequences are rejected",
}
"""States of the controller that an operator should look at, in words."""
_FAULTS = (RejectionReason.INTERNAL_ERROR, RejectionReason.OUT_OF_DEVICE_MEMORY)
"""Reasons that concern the node rather than the sender: level ERROR."""
_LET_THROUGH = (RejectionReason.LIMITS, RejectionReason.START_MISMATCH)
"""Reasons that limits.action = warn lets through: these have a count even if it is 0."""
_UNTIMELY = ("late", "starved", "out_of_order")
_COUNTS_OF_EXECUTION = ("dropped_steps", *_UNTIMELY, "slowed", "brakes", "chunks_averaged", "chunks_forgotten")


@dataclass(frozen=True)
class NodeStatus:
    """All values of a status; counts are since the start of the process."""

    lifecycle_state: str
    failure: str
    """Why the last configure failed; empty if it did not."""
    sequences: int
    """Action sequences and position trajectories received."""
    published: int
    """The number of those that were answered by a trajectory."""
    service_calls: int
    namesakes: int
    """Number of other nodes with the same name."""
    rejected: dict[RejectionReason, int]
    """Rejections by reason, for topics and services together."""
    warned: dict[RejectionReason, int]
    """Violations that were let through."""
    execution: ExecutionReport
    sequence_latency: LatencyRing
    service_latency: LatencyRing

    # What is known while the node is configured

    device: str = "none"
    backend: str = "none"
    dtype: str = "none"
    limits: str = "none"
    """The source of the limit of each quantity."""
    assumed: str = ""
    """Limits that nobody gave, and the assumed ones."""
    lacking: tuple[str, ...] = ()
    """Joints without a limit of velocity, for which nothing is published."""
    on_schedule: bool = False
    """Whether trajectories continue each other (start_from = previous), so that one that comes late matters."""
    state_age_s: float | None = None
    state_timeout_s: float = 0.0
    controller: ControllerStatus = ControllerStatus.UNKNOWN
    controller_was: frozenset[ControllerStatus] = frozenset()
    """What it did since the previous message."""
    deviation: float | None = None
    """Largest distance of a joint from its command, rad; None: not known."""
    lag_s: float | None = None
    supervision_brakes: int = 0
    """Number of brakes because the robot, its states or its controller were not as they should be."""
    braked: str = ""
    """Why the robot is braked, and sequences are rejected; empty if it is not."""
    held: bool = False
    """Whether a stop holds until it is released."""


class Diagnostics:
    """Turns successive statuses into messages; levels cover what happened since the previous message.

    OK: active, nothing rejected. WARN: something was rejected or exceeded a limit, the node is not active, another
    one has its name, the controller does something else than it is told, or limits are missing.
    STALE: active, and the joint state is older than state_timeout. ERROR: the robot is braked and sequences are
    rejected, configure failed, device memory ran out, or a callback failed unexpectedly.

    Args:
        name: of the status.

    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._rejected: dict[RejectionReason, int] = {}
        self._warned: dict[RejectionReason, int] = {}
        self._execution = ExecutionReport()

    def message(self, status: NodeStatus, stamp: Time) -> DiagnosticArray:
        """Build the message for a status."""
        rejected = _increase(status.rejected, self._rejected)
        warned = _increase(status.warned, self._warned)
        self._rejected, self._warned = dict(status.rejected), dict(status.warned)
        before, now = self._execution, status.execution
        untimely = {name: getattr(now, name) - getattr(before, name) for name in _UNTIMELY}
        self._execution = status.execution
        if not status.on_schedule:  # a trajectory of its own comes after the brake of the one before it, or during it
            untimely["starved"] = 0
        level, summary = _judge(status, rejected, warned, untimely)
        values = [KeyValue(key=key, value=value) for key, value in _values(status).items()]
        told = DiagnosticStatus(level=level, name=self._name, message=summary, hardware_id=status.device, values=values)
        return DiagnosticArray(header=Header(stamp=stamp), status=[told])


def _judge(
    status: NodeStatus,
    rejected: dict[RejectionReason, int],
    warned: dict[RejectionReason, int],
    untimely: dict[str, int],
) -> tuple[bytes, str]:
    if status.failure:
        return DiagnosticStatus.ERROR, f"{status.lifecycle_state}: {status.failure}"
    faults = {reason: count for reason, count in rejected.items() if reason in _FAULTS}
    if faults:
        return DiagnosticStatus.ERROR, _listed(faults)
    if status.lifecycle_state != "active":
        return DiagnosticStatus.WARN, f"{status.lifecycle_state}: input is not accepted"
    if status.namesakes:
        return DiagnosticStatus.WARN, f"{status.namesakes + 1} nodes of this name: each answers every sequence"
    if status.braked:
        return DiagnosticStatus.ERROR, f"braked: {status.braked}; sequences are rejected until the robot rests"
    if status.held:
        return DiagnosticStatus.ERROR, "stopped: sequences are rejected until ~/stop is called with hold: false"
    if status.state_age_s is not None and 0 < status.state_timeout_s < status.state_age_s:
        return (
            DiagnosticStatus.STALE,
            f"joint state is {status.state_age_s:.2f} s old (state_timeout {status.state_timeout_s:g} s)",
        )
    conspicuous = [one for one in CONSPICUOUS if one is status.controller or one in status.controller_was]
    if conspicuous:
        return DiagnosticStatus.WARN, f"controller {conspicuous[-1].value}: {CONSPICUOUS[conspicuous[-1]]}"
    if status.lacking:
        return (
            DiagnosticStatus.WARN,
            f"no limit of velocity for {', '.join(status.lacking)}: nothing is published for a controller (give "
            "limits.velocity, a URDF or limits.assumed_velocity)",
        )
    if rejected:
        return DiagnosticStatus.WARN, f"rejected {_listed(rejected)}"
    if warned:
        return DiagnosticStatus.WARN, f"published in spite of {_listed(warned)}"
    if any(untimely.values()):
        return DiagnosticStatus.WARN, ", ".join(f"{count} x {what}" for what, count in untimely.items() if count > 0)
    return DiagnosticStatus.OK, "active" if status.state_age_s is not None else "active, no joint state yet"


def _values(status: NodeStatus) -> dict[str, str]:
    execution = status.execution
    values: dict[str, object] = {
        "lifecycle_state": status.lifecycle_state,
        "device": status.device,
        "backend": status.backend,
        "dtype": status.dtype,
        "limits": status.limits,
        "assumed_limits": status.assumed or None,
        "state_age_s": _shown(status.state_age_s),
        "sequences": status.sequences,
        "published": status.published,
        "service_calls": status.service_calls,
        "namesakes": status.namesakes,
        "rejected": sum(status.rejected.values()),
        "sequence_latency_p50_ms": _shown(status.sequence_latency.percentile_ms(50)),
        "sequence_latency_p99_ms": _shown(status.sequence_latency.percentile_ms(99)),
        "service_latency_p50_ms": _shown(status.service_latency.percentile_ms(50)),
        "service_latency_p99_ms": _shown(status.service_latency.percentile_ms(99)),
        "controller": status.controller.value,
        "deviation_rad": _shown(status.deviation, ".6f"),
        "lag_ms": _shown(status.lag_s, ".1f", 1e3),
        "supervision_brakes": status.supervision_brakes,
        "braked": status.braked or "no",
        "held": "yes" if status.held else "no",
        "seam_offset_position": _shown(execution.seam_offset[0], ".6g"),
        "seam_offset_velocity": _shown(execution.seam_offset[1], ".6g"),
        "seam_offset_acceleration": _shown(execution.seam_offset[2], ".6g"),
        "lead_margin_least_ms": _shown(execution.lead_margin_least_s, scale=1e3),
        "lead_margin_median_ms": _shown(execution.lead_margin_median_s, scale=1e3),
        **{name: getattr(execution, name) for name in _COUNTS_OF_EXECUTION},
        **{f"rejected.{reason.value}": count for reason, count in status.rejected.items()},
        **{f"warned.{reason.value}": 0 for reason in _LET_THROUGH},
        **{f"warned.{reason.value}": count for reason, count in status.warned.items() if count},
    }
    return {key: "none" if value is None else str(value) for key, value in values.items()}


def _shown(value: float | None, form: str = ".3f", scale: float = 1.0) -> str | None:
    return None if value is None else format(scale * value, form)


def _increase(now: dict[RejectionReason, int], before: dict[RejectionReason, int]) -> dict[RejectionReason, int]:
    increase = {reason: count - before.get(reason, 0) for reason, count in now.items()}
    return {reason: count for reason, count in increase.items() if count > 0}


def _listed(counts: dict[RejectionReason, int]) -> str:
    return ", ".join(f"{count} x {reason.value}" for reason, count in counts.items())

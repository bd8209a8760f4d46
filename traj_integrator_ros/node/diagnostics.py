"""What the node reports about itself on /diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from ..handling.controller_reports import ControllerStatus
from ..handling.published import ExecutionReport
from ..handling.rejection import RejectionReason
from .accounts import LatencyRing
from .supervisor import CONSPICUOUS

_FAULTS = (RejectionReason.INTERNAL_ERROR, RejectionReason.OUT_OF_DEVICE_MEMORY)
"""Reasons that concern the node rather than the sender: level ERROR."""
_LET_THROUGH = (RejectionReason.LIMITS, RejectionReason.START_MISMATCH)
"""Reasons that limits.action = warn lets through: these have a count even if it is 0."""


@dataclass(frozen=True)
class NodeStatus:
    """All values of a status; counts are since the start of the process."""

    lifecycle_state: str
    failure: str
    """Why the last configure failed; empty if it did not."""
    device: str
    backend: str
    dtype: str
    limits: str
    """The source of the limit of each quantity."""
    state_age_s: float | None
    state_timeout_s: float
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
    on_schedule: bool
    """Whether trajectories continue each other (start_from = previous), so that one that comes late matters."""
    execution: ExecutionReport
    sequence_latency: LatencyRing
    service_latency: LatencyRing

    # What the node knows of the robot and its controller

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
    assumed: str = ""
    """Limits that nobody gave, and what is assumed."""
    lacking: tuple[str, ...] = ()
    """Joints without a limit of velocity, for which nothing is published."""


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
        untimely = {
            name: getattr(status.execution, name) - getattr(self._execution, name)
            for name in ("late", "starved", "out_of_order")
        }
        self._execution = status.execution
        if not status.on_schedule:  # a trajectory of its own comes after the brake of the one before it, or during it
            untimely["starved"] = 0
        level, summary = _judge(status, rejected, warned, untimely)
        array = DiagnosticArray()
        array.header.stamp = stamp
        array.status = [
            DiagnosticStatus(
                level=level,
                name=self._name,
                message=summary,
                hardware_id=status.device,
                values=[KeyValue(key=key, value=value) for key, value in _values(status).items()],
            )
        ]
        return array


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
    values = {
        "lifecycle_state": status.lifecycle_state,
        "device": status.device,
        "backend": status.backend,
        "dtype": status.dtype,
        "limits": status.limits,
        "assumed_limits": status.assumed or "none",
        "state_age_s": "none" if status.state_age_s is None else f"{status.state_age_s:.3f}",
        "sequences": str(status.sequences),
        "published": str(status.published),
        "service_calls": str(status.service_calls),
        "namesakes": str(status.namesakes),
        "rejected": str(sum(status.rejected.values())),
    }
    for kind, ring in (("sequence", status.sequence_latency), ("service", status.service_latency)):
        for percent in (50, 99):
            latency = ring.percentile_ms(percent)
            values[f"{kind}_latency_p{percent}_ms"] = "none" if latency is None else f"{latency:.3f}"
    values.update(
        controller=status.controller.value,
        deviation_rad="none" if status.deviation is None else f"{status.deviation:.6f}",
        lag_ms="none" if status.lag_s is None else f"{1e3 * status.lag_s:.1f}",
        supervision_brakes=str(status.supervision_brakes),
        braked=status.braked or "no",
        held="yes" if status.held else "no",
    )
    values.update(_of_execution(status.execution))
    values.update({f"rejected.{reason.value}": str(count) for reason, count in status.rejected.items()})
    warned = {**dict.fromkeys(_LET_THROUGH, 0), **{reason: count for reason, count in status.warned.items() if count}}
    values.update({f"warned.{reason.value}": str(count) for reason, count in warned.items()})
    return values


def _of_execution(execution: ExecutionReport) -> dict[str, str]:
    offsets = zip(("position", "velocity", "acceleration"), execution.seam_offset, strict=True)
    margins = {"least": execution.lead_margin_least_s, "median": execution.lead_margin_median_s}
    return {
        **{f"seam_offset_{quantity}": f"{offset:.6g}" for quantity, offset in offsets},
        **{
            f"lead_margin_{which}_ms": "none" if margin is None else f"{1e3 * margin:.3f}"
            for which, margin in margins.items()
        },
        "dropped_steps": str(execution.dropped_steps),
        "late": str(execution.late),
        "starved": str(execution.starved),
        "out_of_order": str(execution.out_of_order),
        "slowed": str(execution.slowed),
        "brakes": str(execution.brakes),
        "chunks_averaged": str(execution.chunks_averaged),
        "chunks_forgotten": str(execution.chunks_forgotten),
    }


def _increase(now: dict[RejectionReason, int], before: dict[RejectionReason, int]) -> dict[RejectionReason, int]:
    increase = {reason: count - before.get(reason, 0) for reason, count in now.items()}
    return {reason: count for reason, count in increase.items() if count > 0}


def _listed(counts: dict[RejectionReason, int]) -> str:
    return ", ".join(f"{count} x {reason.value}" for reason, count in counts.items())

"""The demo's verdict and its report: everything measured, the bounds, what failed; as JSON and as a short table."""

from __future__ import annotations

import json
import platform
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

import numpy as np

from ..kernels.types import FiniteDifference
from ..motions.samples import Nature
from ..traffic.ledger import Balance, violations
from .goal_problem import Steering
from .metrics import BOUND_OVER_CONSISTENCY, Kept, Measured, VelocityBound, inconsistency, rms, velocity_bounds
from .motion import Motion
from .optimizer import OptimizerResult
from .planned import limits_of
from .windows import Prepared

LATENCY = (
    "sending a sequence to having its TrajectoryBatch, here; without those sent while the node has the robot come to "
    "its first trajectory (publish.bridge_time)"
)
OPTIMIZER_GAP = 1e-3
GOAL_BOUND = 1e-9
"""Rad, rad/s and rad/s²: a goal that is part of the sequence is met exactly."""
START_UP_RATIO_EXACT = 1.05
START_UP_RATIO_RECORDED = 1.5
"""Largest |acceleration| at the first points of a trajectory over the largest of the motion, for planned and recorded
motions.
"""
ROBOTS = {
    "panda": "Franka Panda",
    "fer": "Franka Emika Panda (FER)",
    "fr3": "Franka Research 3",
    "wrist_3_joint": "Universal Robots e-Series arm",
    "torso_lift_joint": "Fetch",
}
"""By how the name of the first joint begins, or a joint that they have."""
PACKAGES = ("numpy", "torch", "rclpy", "ros-rclpy", "ruckig", "rosbags", "matplotlib")


@dataclass(frozen=True)
class Outcome:
    """All measurements of the demo, before they are judged."""

    prepared: Prepared
    balance: Balance
    by_reason: dict[str, int]
    refused_on_purpose: int
    unknown_answers: int
    latencies: list[float]
    measured: Measured
    faults: dict[str, int]
    joint_states: int
    joint_trajectories: int
    restarts: int
    node: dict[str, str]
    optimized: dict[Steering, OptimizerResult]
    kept: list[Kept]

    @cached_property
    def velocity(self) -> dict[FiniteDifference, VelocityBound]:
        """Errors of position windows by scheme, and their bounds."""
        return velocity_bounds(self.measured, self.prepared.recording)

    @property
    def start_up(self) -> dict[str, tuple[float, float]]:
        """Largest |acceleration| at h = 1..3 over the largest of the motion, and its bound, by kind of window.

        The bound is that of the kind of source, or BOUND_OVER_CONSISTENCY times what the sequences sent have
        themselves, where that is more: coarse samples, or velocities that disagree with positions, have more than the
        motion.
        """
        recording, largest = self.prepared.recording, self.prepared.largest_acceleration
        least = START_UP_RATIO_EXACT if recording.nature is Nature.EXACT else START_UP_RATIO_RECORDED
        own = self.measured.own_start_up
        return {
            name: (value / largest, max(least, BOUND_OVER_CONSISTENCY * own.get(name, 0.0) / largest))
            for name, value in sorted(self.measured.start_up.items())
        }

    @property
    def closest_start_up(self) -> str:
        """The kind of window whose start-up acceleration comes closest to its bound; empty for none."""
        start_up = self.start_up
        return max(start_up, key=lambda name: start_up[name][0] / start_up[name][1], default="")

    @property
    def superseded(self) -> int:
        """Sequences that were answered, but whose trajectory was not published, since a newer one came meanwhile."""
        return self.by_reason.get("superseded", 0)

    @property
    def rejected_by_reason(self) -> dict[str, int]:
        """The sequences without any answer."""
        return {reason: count for reason, count in self.by_reason.items() if reason != "superseded"}

    @property
    def limits_used(self) -> dict[str, float]:
        """Largest share of the robot's limits that was commanded, by quantity; empty where they are not known."""
        return self.measured.commanded.shares(limits_of(self.prepared.recording.joint_names))

    @property
    def brakes(self) -> int:
        """Trajectories that answer no sequence: the node had to stop the robot."""
        return int(self.node.get("supervision_brakes", 0))

    @property
    def latency_ms(self) -> dict[str, float | None]:
        """Median and 99th percentile, by p50 and p99; None where nothing came back."""
        found = np.percentile(np.array(self.latencies) * 1e3, (50, 99)).tolist() if self.latencies else (None, None)
        return dict(zip(("p50", "p99"), found, strict=True))


def failures(outcome: Outcome) -> list[str]:
    """The reasons for which the run fails, one sentence each; empty if it passes."""
    found = violations(outcome.balance, outcome.unknown_answers, trajectories=_trajectories(outcome))
    unexpected = outcome.balance.rejected - outcome.refused_on_purpose
    if unexpected > 0:
        found.append(f"{unexpected} sequences rejected that are valid: {_listed(outcome.rejected_by_reason)}")
    if unexpected < 0 and not outcome.restarts:
        found.append("the sequence with a NaN was not counted as rejected")
    for scheme, (error, limit, _) in outcome.velocity.items():
        if error is None:
            found.append(f"no trajectory by {scheme.value} differences came back")
        elif not error <= limit:
            found.append(f"velocity error by {scheme.value} differences {error:.4f} rad/s, bound {limit:.4f}")
    if contradiction := inconsistency(outcome.prepared.cleaned):
        found.append(contradiction)
    for name, (ratio, limit) in outcome.start_up.items():
        if not ratio <= limit:
            found.append(f"start-up acceleration of {name} {ratio:.2f} x the motion's largest, bound {limit:.2f}")
    for steering in (Steering.JERKS, Steering.SPLINE):  # positions are shown for comparison: they need not converge
        gap = outcome.optimized[steering].gap
        if not abs(gap) <= OPTIMIZER_GAP:
            found.append(
                f"optimizer over {steering.value}: cost {gap:.2e} from its optimum (relative), bound {OPTIMIZER_GAP}"
            )
    missed = outcome.optimized[Steering.SPLINE].missed
    if missed > GOAL_BOUND:
        found.append(f"the spline's last row misses the goal state by {missed:.2e}, bound {GOAL_BOUND}")
    if outcome.measured.not_finite:
        found.append(f"{outcome.measured.not_finite} trajectory batches with NaN or Inf")
    found += [f"{fault} ({count} times)" for fault, count in sorted(outcome.faults.items())]
    return found


def _trajectories(outcome: Outcome) -> int | None:
    """The joint trajectories that answer sequences, and those that would if no newer sequence had come meanwhile."""
    if outcome.restarts:
        return None
    return outcome.joint_trajectories - outcome.brakes + outcome.superseded


def as_json(outcome: Outcome, node_exit_code: int, seconds: float) -> dict[str, object]:
    """The report; `seconds` is how long the demo took, `node_exit_code` how its node ended (0 for an external one).
    Units are in the names: _s, _ms, _rad_s (rad/s), _rad_s2 (rad/s²).
    """
    wrong = failures(outcome)
    if node_exit_code:
        wrong.append(f"the node ended with exit code {node_exit_code} when interrupted")
    balance, recording, measured = outcome.balance, outcome.prepared.recording, outcome.measured
    start_up = {name: {"ratio": ratio, "bound": limit} for name, (ratio, limit) in outcome.start_up.items()}
    return {
        "passed": not wrong,
        "failures": wrong,
        "source": recording.source,
        "source_kind": recording.kind,
        "notes": list(outcome.prepared.planned.notes),
        "robot": robot_name(recording),
        "joint_names": list(recording.joint_names),
        "motion_s": recording.duration,
        "samples": recording.samples,
        "repeated_frames": int(recording.repeated.sum()),
        "joint_states_published": outcome.joint_states,
        "sequences_sent": balance.sent,
        "candidates_per_sequence": measured.candidates,
        "trajectories_received": balance.answered,
        "lost": balance.lost,
        "rejected": balance.rejected,
        "rejected_by_reason": outcome.rejected_by_reason,
        "rejected_on_purpose": outcome.refused_on_purpose,
        "sent_while_node_was_down": balance.node_down,
        "node_restarts": outcome.restarts,
        "joint_trajectories_received": outcome.joint_trajectories,
        "superseded": outcome.superseded,
        "brakes": outcome.brakes,
        "commanded": measured.commanded.as_json() | {"share_of_limits": outcome.limits_used},
        "trajectory_faults": dict(outcome.faults),
        "received_by_kind": dict(sorted(measured.batches.items())),
        "latency_ms": outcome.latency_ms | {"of": LATENCY},
        "velocity_error_rad_s": {
            scheme.value: {"rms": error, "bound": limit, "bound_because": reason}
            for scheme, (error, limit, reason) in outcome.velocity.items()
        },
        "velocity_error_note": (
            "row 0 of every window against the motion's own velocity: central at the same sample (up to where it sees "
            "the held last action), backward at mid-step. By kind, without bounds: jerk sequences that start from "
            "joint_states drift, because a JointState has no acceleration"
        ),
        "velocity_error_by_kind_rad_s": {
            name: {"rms": rms(errors), "largest": max(float(np.abs(part).max()) for part in errors)}
            for name, errors in sorted(measured.velocity.items())
        },
        "start_up_acceleration": {
            "kind": outcome.closest_start_up,
            **start_up.get(outcome.closest_start_up, {"ratio": None, "bound": None}),
            "by_kind": start_up,
            "largest_of_motion_rad_s2": outcome.prepared.largest_acceleration,
            "of": "largest |acceleration| over all rows at h = 1..3 over the largest of the motion; of the kind of "
            "window that comes closest to its bound",
        },
        "optimizer": {steering.value: _optimizer_report(result) for steering, result in outcome.optimized.items()},
        "node": {key: value for key, value in outcome.node.items() if "." not in key},
        "wall_s": seconds,
        "versions": _versions(),
    }


def _optimizer_report(result: OptimizerResult) -> dict[str, object]:
    return {
        "variables": int(np.prod(result.optimum.actions.shape)),
        "cost_at_start": result.iteration_costs[0],
        "cost_at_end": result.iteration_costs[-1],
        "closed_form_optimum": result.optimum.cost,
        "relative_gap": result.gap,
        "bound": None if result.problem.steering is Steering.POSITIONS else OPTIMIZER_GAP,
        "goal_missed_by": result.missed,
        "iterations": result.iterations,
        "service_calls": result.calls,
        "seconds": result.seconds,
    }


def write_report(report: dict[str, object], path: Path) -> None:
    """Write the report, with null for numbers that JSON cannot represent."""
    finite = json.loads(json.dumps(report), parse_constant=lambda name: None)
    path.write_text(json.dumps(finite, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def summary(outcome: Outcome) -> list[tuple[str, str]]:
    """Lines of the summary table at the end of the demo."""
    balance, recording, latency = outcome.balance, outcome.prepared.recording, outcome.latency_ms
    sent = f"{balance.sent} sent, {balance.answered} answered, {balance.rejected} rejected, {balance.lost} lost"
    lines = [
        ("source", f"{Path(recording.source).name} ({recording.kind})"),
        ("motion", f"{recording.duration:.1f} s of {recording.dof} joints ({robot_name(recording)})"),
        ("sequences", sent),
        ("rejected", f"{_listed(outcome.rejected_by_reason)} ({outcome.refused_on_purpose} on purpose)"),
        ("trajectories", _published(outcome)),
        ("latency", "p50 {p50:.1f} ms, p99 {p99:.1f} ms".format(**latency) if latency["p50"] else "nothing came back"),
    ]
    if used := outcome.limits_used:
        listed = ", ".join(f"{name} {share:.0%}" for name, share in used.items())
        lines.append(("commanded", f"{listed} of the robot's limits at most"))
    if recording.repeated.any():
        lines.append(("repeated frames", f"{int(recording.repeated.sum())} of {recording.samples}"))
    if outcome.restarts:
        lines.append(("node restarts", f"{outcome.restarts}, {balance.node_down} sequences sent while it was down"))
    for scheme, (error, limit, _) in outcome.velocity.items():
        value = "none" if error is None else f"{error:.5f}"
        lines.append((f"velocity error, {scheme.value}", f"{value} rad/s RMS (bound {limit:.4f})"))
    if name := outcome.closest_start_up:
        ratio, limit = outcome.start_up[name]
        lines.append(("start-up acceleration", f"{ratio:.3f} x the motion's largest ({name}, bound {limit:.2f})"))
    for steering, result in outcome.optimized.items():
        costs, bound = result.iteration_costs, _optimizer_report(result)["bound"]
        told = f"cost {costs[0]:.4g} to {costs[-1]:.6g} in {result.iterations} iterations, {result.calls} calls, "
        told += f"{result.seconds:.1f} s; {abs(result.gap):.0e} from the optimum"
        lines.append((f"optimizer, {steering.value}", told + (f" (bound {bound:.0e})" if bound else "")))
    return lines


def _published(outcome: Outcome) -> str:
    """Joint trajectories, and answers without one: together as many as were answered."""
    published = outcome.joint_trajectories - outcome.brakes
    told = f"{published} published, {outcome.superseded} superseded by newer sequences"
    return told + (f", {outcome.brakes} more are brakes" if outcome.brakes else "")


def robot_name(motion: Motion) -> str:
    """A name for the robot, from the names of its joints."""
    first, *_ = names = motion.joint_names
    for prefix, name in ROBOTS.items():
        if first.startswith(f"{prefix}_") or prefix in names:
            return name
    return f"Robot with {motion.dof} joints"


def _versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items()) or "none"

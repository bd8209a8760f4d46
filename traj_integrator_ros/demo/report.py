"""The demo's verdict and its report: everything measured, the bounds, what failed; as JSON and as a short table."""

from __future__ import annotations

import json
import platform
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
from .windows import Paths, Prepared

OPTIMIZER_GAP = 1e-3
GOAL_BOUND = 1e-9
"""Rad, rad/s and rad/s²: a goal that is part of the sequence is met exactly."""
START_UP_RATIO_EXACT = 1.05
START_UP_RATIO_RECORDED = 1.5
"""Largest |acceleration| at the first points of a trajectory over the largest of the motion, for planned and recorded
motions.
"""
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

    @property
    def recording(self) -> Motion:
        """The motion as it was recorded."""
        return self.prepared.recording

    @property
    def paths(self) -> Paths:
        """The motion as it was planned on."""
        return self.prepared.paths

    @cached_property
    def bounds(self) -> dict[FiniteDifference, VelocityBound]:
        """Of the velocity errors of position windows."""
        return velocity_bounds(self.measured, self.recording)

    def start_up_limit(self, name: str) -> float:
        """Bound of the start-up acceleration ratio of a kind of window.

        That of the kind of source, or BOUND_OVER_CONSISTENCY times what the sequences sent have themselves, where
        that is more: coarse samples, or velocities that disagree with positions, have more than the motion.
        """
        least = START_UP_RATIO_EXACT if self.recording.nature is Nature.EXACT else START_UP_RATIO_RECORDED
        return max(least, BOUND_OVER_CONSISTENCY * self.measured.own_start_up[name] / self.paths.largest_acceleration)

    @property
    def start_up_ratios(self) -> dict[str, float]:
        """Largest |acceleration| at h = 1..3 over the largest of the motion, by kind of window."""
        largest = self.paths.largest_acceleration
        return {name: value / largest for name, value in sorted(self.measured.start_up.items())}

    @property
    def closest_start_up(self) -> str:
        """The kind of window whose start-up acceleration comes closest to its bound; empty for none."""
        ratios = self.start_up_ratios
        return max(ratios, key=lambda name: ratios[name] / self.start_up_limit(name), default="")

    @property
    def brakes(self) -> int:
        """Trajectories that answer no sequence: the node had to stop the robot."""
        return int(self.node.get("supervision_brakes", 0))

    @property
    def latency_ms(self) -> dict[str, float | None]:
        """Median and 99th percentile, by p50 and p99; None where nothing came back."""
        found = np.percentile(np.array(self.latencies) * 1e3, (50, 99)).tolist() if self.latencies else (None, None)
        return dict(zip(("p50", "p99"), found, strict=True))

    def velocity_rms(self, scheme: FiniteDifference) -> float | None:
        """RMS velocity error of position windows by a scheme [rad/s], None if no such window came back."""
        return rms(self.measured.velocity.get(f"position/{scheme.value}", []))


def failures(outcome: Outcome) -> list[str]:
    """The reasons for which the run fails, one sentence each; empty if it passes."""
    found = violations(outcome.balance, outcome.unknown_answers, trajectories=_trajectories(outcome))
    unexpected = outcome.balance.rejected - outcome.refused_on_purpose
    if unexpected > 0:
        found.append(f"{unexpected} sequences rejected that are valid: {_listed(outcome.by_reason)}")
    if unexpected < 0 and not outcome.restarts:
        found.append("the sequence with a NaN was not counted as rejected")
    for scheme, bound in outcome.bounds.items():
        rms = outcome.velocity_rms(scheme)
        if rms is None:
            found.append(f"no trajectory by {scheme.value} differences came back")
        elif not rms <= bound.limit:
            found.append(f"velocity error by {scheme.value} differences {rms:.4f} rad/s, bound {bound.limit:.4f}")
    if contradiction := inconsistency(outcome.prepared.cleaned):
        found.append(contradiction)
    for name, ratio in outcome.start_up_ratios.items():
        limit = outcome.start_up_limit(name)
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
    return outcome.joint_trajectories - outcome.brakes + outcome.by_reason.get("superseded", 0)


def as_json(outcome: Outcome, node_exit_code: int, seconds: float) -> dict[str, object]:
    """The report; `seconds` is how long the demo took, `node_exit_code` how its node ended (0 for an external one).
    Units are in the names: _s, _ms, _rad_s (rad/s), _rad_s2 (rad/s²).
    """
    wrong = failures(outcome)
    if node_exit_code:
        wrong.append(f"the node ended with exit code {node_exit_code} when interrupted")
    balance, recording, measured = outcome.balance, outcome.recording, outcome.measured
    start_up = {
        name: {"ratio": ratio, "bound": outcome.start_up_limit(name)} for name, ratio in outcome.start_up_ratios.items()
    }
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
        "rejected_by_reason": outcome.by_reason,
        "rejected_on_purpose": outcome.refused_on_purpose,
        "sent_while_node_was_down": balance.node_down,
        "node_restarts": outcome.restarts,
        "joint_trajectories_received": outcome.joint_trajectories,
        "brakes": outcome.brakes,
        "commanded": measured.commanded.as_json(),
        "trajectory_faults": dict(outcome.faults),
        "received_by_kind": dict(sorted(measured.batches.items())),
        "latency_ms": outcome.latency_ms | {"of": "sending a sequence to having its TrajectoryBatch, here"},
        "velocity_error_rad_s": {
            scheme.value: {"rms": outcome.velocity_rms(scheme), "bound": bound.limit, "bound_because": bound.reason}
            for scheme, bound in outcome.bounds.items()
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
            "largest_of_motion_rad_s2": outcome.paths.largest_acceleration,
            "of": "largest |acceleration| over all rows at h = 1..3 over the largest of the motion; of the kind of "
            "window that comes closest to its bound",
        },
        "optimizer": {steering.value: _optimizer_report(result) for steering, result in outcome.optimized.items()},
        "node": {key: value for key, value in outcome.node.items() if "." not in key},
        "wall_s": seconds,
        "versions": versions(),
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
    """Write the report, indented and with a newline at its end."""
    path.write_text(json.dumps(_without_nan(report), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def summary(outcome: Outcome) -> list[tuple[str, str]]:
    """Lines of the summary table at the end of the demo."""
    balance, recording, latency = outcome.balance, outcome.recording, outcome.latency_ms
    sent = f"{balance.sent} sent, {balance.answered} answered, {balance.rejected} rejected, {balance.lost} lost"
    lines = [
        ("source", f"{Path(recording.source).name} ({recording.kind})"),
        ("motion", f"{recording.duration:.1f} s of {recording.dof} joints ({robot_name(recording)})"),
        ("sequences", sent),
        ("rejected", f"{_listed(outcome.by_reason)} ({outcome.refused_on_purpose} on purpose)"),
        (
            "latency",
            "p50 {p50:.1f} ms, p99 {p99:.1f} ms".format(**latency) if outcome.latencies else "nothing came back",
        ),
    ]
    if recording.repeated.any():
        lines.append(("repeated frames", f"{int(recording.repeated.sum())} of {recording.samples}"))
    if outcome.restarts:
        lines.append(("node restarts", f"{outcome.restarts}, {balance.node_down} sequences sent while it was down"))
    for scheme, bound in outcome.bounds.items():
        error = outcome.velocity_rms(scheme)
        value = "none" if error is None else f"{error:.5f}"
        lines.append((f"velocity error, {scheme.value}", f"{value} rad/s RMS (bound {bound.limit:.4f})"))
    if name := outcome.closest_start_up:
        ratio, limit = outcome.start_up_ratios[name], outcome.start_up_limit(name)
        told = f"{ratio:.3f} x the motion's largest ({name}, bound {limit:.2f})"
        lines.append(("start-up acceleration", told))
    for steering, result in outcome.optimized.items():
        costs, bound = result.iteration_costs, _optimizer_report(result)["bound"]
        told = f"cost {costs[0]:.4g} to {costs[-1]:.6g} in {result.iterations} iterations, {result.calls} calls, "
        told += f"{result.seconds:.1f} s; {abs(result.gap):.0e} from the optimum"
        lines.append((f"optimizer, {steering.value}", told + (f" (bound {bound:.0e})" if bound else "")))
    return lines


def robot_name(motion: Motion) -> str:
    """A name for the robot, from the names of its joints."""
    known = {"panda": "Franka Panda", "fer": "Franka Emika Panda (FER)", "fr3": "Franka Research 3"}
    first = motion.joint_names[0]
    for prefix, name in known.items():
        if first.startswith(f"{prefix}_"):
            return name
    if "wrist_3_joint" in motion.joint_names:
        return "Universal Robots e-Series arm"
    if "torso_lift_joint" in motion.joint_names:
        return "Fetch"
    return f"Robot with {motion.dof} joints"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _without_nan(value: object) -> object:
    """The same value with null for numbers that JSON cannot represent."""
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items()) or "none"

"""The demo's report: what was sent, what came back, how much of the limits it takes; as JSON and as a short table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from ..client import SECOND_NS, JointMotion
from ..execution.limits import extremes
from ..execution.motion import Motion as Polynomials
from ..execution.rows import Points, motion_of_points
from .motion import Motion
from .optimizer import Result
from .planned import limits_of
from .session import Traffic

OPTIMIZER_GAP = 1e-3
"""Largest distance of the optimizer's cost from the optimum, relative to it, that counts as found."""
Report = dict[str, object]


def report_of(recording: Motion, batch: int, traffic: Traffic, optimized: list[Result]) -> Report:
    """Everything that was sent and received. Units are in the names: _s, _ms."""
    answered = traffic.answered
    latency = 1e3 * np.array([sent.latency_s for sent in answered] or [np.nan])
    return {
        "source": recording.source,
        "source_kind": recording.kind,
        "motion_s": recording.duration,
        "samples": recording.samples,
        "repeated_frames": int(recording.repeated.sum()),
        "candidates_per_sequence": batch,
        "sequences_sent": len(traffic.sent),
        "trajectories_received": len(answered),
        "received_by_space": Counter(sent.space.name.lower() for sent in answered),
        "rejected": traffic.rejected.total(),
        "rejected_by_reason": traffic.rejected,
        "lost": traffic.lost,
        "joint_trajectories_received": len(traffic.motions),
        "not_commanded_by_reason": traffic.not_commanded,
        "latency_ms": {f"p{share}": float(np.percentile(latency, share)) for share in (50, 99)} if answered else {},
        "share_of_limits": _shares(traffic.motions, limits_of(recording.joint_names)),
        "optimizer": {
            result.problem.name: {
                "cost_at_start": result.costs[0],
                "cost_at_end": result.costs[-1],
                "closed_form_optimum": result.optimum,
                "relative_gap": (result.costs[-1] - result.optimum) / result.optimum,
                "iterations": len(result.costs) - 1,
                "service_calls": result.calls,
                "seconds": result.seconds,
            }
            for result in optimized
        },
    }


def failures(report: Report) -> list[str]:
    """Why the run fails, one sentence each; empty if all went well."""
    found = [] if report["trajectories_received"] else ["no trajectory came back"]
    if report["lost"]:
        found.append(f"{report['lost']} sequences lost: neither answered nor rejected")
    if report["rejected"]:
        found.append(f"sequences rejected: {_listed(report['rejected_by_reason'])}")
    for name, result in report["optimizer"].items():
        if not abs(gap := result["relative_gap"]) <= OPTIMIZER_GAP:
            found.append(f"optimizer over {name}: cost {gap:.0e} from its optimum (relative)")
    return found


def summary(report: Report) -> list[tuple[str, str]]:
    """Lines of the table at the end of the demo."""
    sent = "{sequences_sent} sent, {trajectories_received} answered, {rejected} rejected, {lost} lost"
    for_robot = f"{report['joint_trajectories_received']} for the robot's controller"
    if without := report["not_commanded_by_reason"]:
        for_robot += f"; sequences without one: {_listed(without)}"
    latency = report["latency_ms"]
    lines = [
        ("motion", "{motion_s:.1f} s, {source} ({source_kind})".format(**report)),
        ("sequences", (sent + "; {candidates_per_sequence} candidates each").format(**report)),
        ("trajectories", for_robot),
        ("latency", "p50 {p50:.1f} ms, p99 {p99:.1f} ms".format(**latency) if latency else "nothing came back"),
    ]
    if used := report["share_of_limits"]:
        listed = ", ".join(f"{name} {share:.0%}" for name, share in used.items())
        lines.append(("commanded", f"{listed} of the robot's limits at most"))
    if repeated := report["repeated_frames"]:
        lines.append(("repeated frames", f"{repeated} of {report['samples']}"))
    told = "cost {cost_at_start:.4g} to {cost_at_end:.6g} in {iterations} iterations, {service_calls} calls, "
    told += "{seconds:.1f} s; {relative_gap:.0e} from the optimum"
    return lines + [(f"optimizer, {name}", told.format(**result)) for name, result in report["optimizer"].items()]


def commanded(motion: JointMotion) -> Polynomials | None:
    """The motion that a controller commands between the points of a trajectory; None where it has only one."""
    if len(motion.time_from_start) < 2:
        return None
    times_ns = np.rint(motion.time_from_start * SECOND_NS).astype(np.int64)
    return motion_of_points(Points(times_ns, motion.position, motion.velocity, motion.acceleration))


def _shares(motions: list[JointMotion], limits: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The largest share of each limit that a controller commands between the points; none of unknown limits."""
    peaks = [np.abs(extremes(motion)).max(axis=0) for motion in filter(None, map(commanded, motions)) if limits]
    orders = {"velocity": 1, "acceleration": 2} if peaks else {}
    return {name: float(max((each[order] / limits[name]).max() for each in peaks)) for name, order in orders.items()}


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())

"""The demo's report: what was sent and received, and the share of the limits in use; as JSON and as a short table."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..client import SECOND_NS, JointMotion
from ..execution.limits import extremes
from ..execution.motion import Motion as Polynomials
from ..execution.rows import Points, motion_of_points
from ..tools.command_line import EXIT_FAILED
from .main_job import MainJob
from .optimizer import Result
from .planned import limits_of
from .recording import repeated
from .windows import BATCH

OPTIMIZER_GAP = 1e-3
"""Largest relative distance of the optimizer's cost from the optimum that counts as success."""
REPORT = "report.json"
FIGURES = ("trajectories.png", "optimizer.png", "goal.png")
Report = dict[str, object]


def report_of(job: MainJob, optimized: list[Result], node_code: int, wall_s: float) -> Report:
    """Everything that was sent and received; names end with their units, _s and _ms."""
    recording, latencies = job.recording, [1e3 * answer.latency_s for answer in job.answers.values()]
    return {
        "wall_s": wall_s,
        "node_code": node_code,
        "source": recording.source,
        "source_kind": recording.kind,
        "motion_s": recording.duration,
        "samples": len(recording.time),
        "repeated_frames": int(repeated(recording).sum()),
        "candidates_per_sequence": BATCH,
        "sequences_sent": len(job.sent),
        "trajectories_received": len(latencies),
        "received_by_space": Counter(answer.space.name.lower() for answer in job.answers.values()),
        "rejected": job.rejected.total(),
        "rejected_by_reason": job.rejected,
        "lost": job.lost,
        "joint_trajectories_received": len(job.motions),
        "not_commanded_by_reason": job.not_commanded,
        "latency_ms": {f"p{share}": float(np.percentile(latencies, share)) for share in (50, 99)} if latencies else {},
        "share_of_limits": _shares(job.motions, limits_of(recording.joint_names)),
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
    if code := report["node_code"]:
        found.append(f"the node ended with exit code {code} when interrupted")
    return found


def conclude(report: Report, out: Path, recordings: str) -> int:
    """Write the report, print a summary, and return the exit code."""
    failed = failures(report)
    text = json.dumps({"passed": not failed, "failures": failed, **report}, indent=2, allow_nan=False)
    (out / REPORT).write_text(f"{text}\n", encoding="utf-8")
    lines = {
        "motion": "{motion_s:.1f} s, {samples} samples, {repeated_frames} repeated; {source} ({source_kind})",
        "sequences": "{sequences_sent} sent, {trajectories_received} answered, {rejected} rejected, {lost} lost; "
        "{candidates_per_sequence} candidates each",
        "trajectories": "{joint_trajectories_received} for the robot's controller",
        "latency": "p50 {latency_ms[p50]:.1f} ms, p99 {latency_ms[p99]:.1f} ms" if report["latency_ms"] else "unknown",
        "time": "{wall_s:.0f} s",
    }
    printed = {name: line.format(**report) for name, line in lines.items()}
    if without := report["not_commanded_by_reason"]:
        printed["trajectories"] += f"; sequences without one: {_listed(without)}"
    if used := report["share_of_limits"]:
        printed["commanded"] = (
            f"{', '.join(f'{name} {share:.0%}' for name, share in used.items())} of the robot's limits"
        )
    for name, result in report["optimizer"].items():
        printed[f"optimizer, {name}"] = (
            "cost {cost_at_start:.4g} to {cost_at_end:.6g} in {iterations} iterations, {service_calls} calls, "
            "{seconds:.1f} s; {relative_gap:.0e} from the optimum"
        ).format(**result)
    printed["written"] = f"{', '.join((REPORT, *FIGURES))}; for the tools {recordings} (docs/tools.md); in {out}"
    print("", *(f"  {name:<25}  {value}" for name, value in printed.items()), sep="\n")
    for failure in failed:
        print(f"demo: FAILED: {failure}", file=sys.stderr)
    return EXIT_FAILED if failed else 0


def commanded(motion: JointMotion) -> Polynomials | None:
    """The motion that a controller commands between the points of a trajectory; None if there is only one point."""
    if len(motion.time_from_start) < 2:
        return None
    times_ns = np.rint(motion.time_from_start * SECOND_NS).astype(np.int64)
    return motion_of_points(Points(times_ns, motion.position, motion.velocity, motion.acceleration))


def _shares(motions: list[JointMotion], limits: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The largest share of each limit that a controller commands between the points; unknown limits have none."""
    peaks = [np.abs(extremes(motion)).max(axis=0) for motion in filter(None, map(commanded, motions)) if limits]
    orders = {"velocity": 1, "acceleration": 2} if peaks else {}
    return {name: float(max((each[order] / limits[name]).max() for each in peaks)) for name, order in orders.items()}


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())

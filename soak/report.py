"""The results of a soak: for people as a table, for programs as JSON. Knows no ROS."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import numpy as np

from .records import Record


def table(record: Record) -> str:
    """The figures, a line each, with first and last window side by side."""
    planner, controller, robot = (record.clients[name].counts for name in ("planner", "controller", "robot"))
    optimizer, node = record.clients["optimizer"].counts, record.counts
    reasons = ", ".join(f"{count} x {reason}" for reason, count in sorted(node.by_reason.items())) or "none"
    window = f"{record.window_s:.0f} s"
    first, last = record.resident_mib()
    busy_first, busy_last = record.busy_cores()
    lines = [
        ("joint states", f"{robot.get('sent', 0)} sent, {_rate(record, 'robot')}"),
        (
            "sequences",
            f"{planner.get('sent', 0)} sent, {_rate(record, 'planner')}; {planner.get('answered', 0)} answered, "
            f"{node.sequences - node.published} refused and counted, {planner.get('missed', 0)} answers missed and "
            "counted",
        ),
        (
            "joint trajectories",
            f"{controller.get('received', 0)} checked, {controller.get('unfit', 0)} unfit, "
            f"{controller.get('missed', 0)} missed and counted",
        ),
        (
            "gradient calls",
            f"{optimizer.get('called', 0)} made, {_rate(record, 'optimizer')}; {optimizer.get('answered', 0)} "
            f"answered, {optimizer.get('refused', 0)} refused",
        ),
        ("refused because", reasons),
        *_commanded(record),
        *((f"{what} latency", _latency(record, client)) for what, client in _LATENCIES),
        ("resident memory", f"median of the first {window} {first:.1f} MiB, of the last {last:.1f} MiB"),
        ("CPU of the node", f"{100 * _cpu(record):.0f} % of one core"),
        (
            "CPU of all processes",
            f"{busy_first:.1f} of {os.cpu_count()} cores in the first {window}, {busy_last:.1f} in the last: latency "
            "counts only where that leaves room",
        ),
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in lines)


_ENDS = ("first", "last")
_LATENCIES = (("sequence", "planner"), ("gradient", "optimizer"))


def as_json(record: Record, found: list[str]) -> dict[str, object]:
    """The figures and what was found, with p50 and p99 of each second."""
    first_rss, last_rss = record.resident_mib()
    latency = {}
    for what, client in _LATENCIES:
        first, last = record.p99_ms(client)
        rows = [(at_s, values) for at_s, values in record.clients[client].latency_rows if values.size]
        latency[what] = {
            "p50_ms": _digits(np.percentile(all_ms, 50)) if (all_ms := _counted(record, client)).size else None,
            "p99_ms": _digits(np.percentile(all_ms, 99)) if all_ms.size else None,
            "max_ms": _digits(all_ms.max()) if all_ms.size else None,
            "p99_first_ms": _digits(first),
            "p99_last_ms": _digits(last),
            "seconds": [
                [round(at_s, 1), _digits(np.percentile(values, 50)), _digits(np.percentile(values, 99))]
                for at_s, values in rows
            ],
        }
    return {
        "passed": not found,
        "violations": found,
        "cpu_cores": os.cpu_count(),
        "warmup_s": record.warmup_s,
        "duration_s": record.duration_s,
        "window_s": record.window_s,
        "rates_hz": record.rates_hz,
        "chunks": record.chunks,
        "commanded": {name: _digits(peak) for name, peak in record.clients["robot"].peaks.items()},
        "clients": {name: client.counts for name, client in record.clients.items()},
        "node": {**vars(record.counts), "exit_code": record.exit_code},
        "node_cpu_cores": _digits(_cpu(record)),
        "machine_cpu_cores": {name: _digits(value) for name, value in zip(_ENDS, record.busy_cores(), strict=True)},
        "resident_mib": {"first": _digits(first_rss), "last": _digits(last_rss)},
        "memory_mib": [
            [round(one.at_s, 1), *(_digits(size / 2**20) for size in (one.resident, one.anonymous, one.shared))]
            for one in record.samples
        ],
        "latency": latency,
    }


def write(report: dict[str, object], path: Path) -> None:
    """Write the report; one line for each of its parts."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in report.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _commanded(record: Record) -> list[tuple[str, str]]:
    """The robot's commands between the points; empty if no robot executed trajectories."""
    if not record.chunks:
        return []
    robot = record.clients["robot"]
    peaks, late = defaultdict(float, robot.peaks), robot.counts.get("late", 0)
    jump = f", with jumps of up to {peaks['late_jump']:.3g} rad/s^2" if late else ""
    return [
        (
            "commanded at 1 kHz",
            f"at most {peaks['velocity']:.2f} rad/s, {peaks['acceleration']:.2f} rad/s^2, {peaks['jerk']:.0f} rad/s^3, "
            f"{100 * peaks['of_limit']:.1f} % of a limit of acceleration (brakes go up to it)",
        ),
        (
            "trajectories executed",
            f"{robot.counts.get('executed', 0)}, of which {late} came too late{jump}",
        ),
    ]


def _latency(record: Record, client: str) -> str:
    values = _counted(record, client)
    if not values.size:
        return "none"
    first, last = record.p99_ms(client)
    p50, p99 = np.percentile(values, (50, 99))
    return (
        f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {values.max():.1f} ms; p99 of the first {record.window_s:.0f} s "
        f"{first:.2f} ms, of the last {last:.2f} ms ({last / first:.2f}x)"
    )


def _counted(record: Record, client: str) -> np.ndarray:
    """Latencies after the warm-up."""
    return record.clients[client].latencies_ms(record.warmup_s)


def _rate(record: Record, client: str) -> str:
    return f"{record.clients[client].rate_hz:.1f}/s"


def _cpu(record: Record) -> float:
    """Cores that the node kept busy."""
    if len(record.samples) < 2:
        return float("nan")
    first, last = record.samples[0], record.samples[-1]
    return (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s)


def _digits(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None

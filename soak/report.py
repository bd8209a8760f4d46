"""The results of a soak, as a table for people and as JSON for programs; without ROS."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import numpy as np

from .records import Ends, Record

_LATENCIES = (("sequence", "planner"), ("gradient", "optimizer"))


def table(record: Record) -> str:
    """Return a table of the figures, with first and last window side by side."""
    clients = {name: defaultdict(int, client.counts) for name, client in record.clients.items()}
    planner, controller, robot, optimizer = (clients[name] for name in ("planner", "controller", "robot", "optimizer"))
    rates = {name: f"{client.rate_hz:.1f}/s" for name, client in record.clients.items()}
    node, window = record.counts, f"{record.window_s:.0f} s"
    reasons = ", ".join(f"{count} x {reason}" for reason, count in sorted(node.by_reason.items()))
    first, last = record.resident_mib()
    busy_first, busy_last = record.busy_cores()
    lines = {
        "joint states": f"{robot['sent']} sent, {rates['robot']}",
        "sequences": f"{planner['sent']} sent, {rates['planner']}; {planner['answered']} answered, "
        f"{node.refused} refused and counted, {planner['missed']} answers missed and counted",
        "joint trajectories": f"{controller['received']} checked, {controller['unfit']} unfit, "
        f"{controller['missed']} missed and counted; {_longest(record)} apart at most",
        "gradient calls": f"{optimizer['called']} made, {rates['optimizer']}; {optimizer['answered']} answered, "
        f"{optimizer['refused']} refused",
        "refused because": reasons or "none",
    }
    for what, client in _LATENCIES:
        p50, p99, largest, begun, ended = _latency(record, client)
        lines[f"{what} latency"] = (
            "none"
            if np.isnan(p50)
            else (
                f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {largest:.1f} ms; p99 of the first {window} {begun:.2f} ms, "
                f"of the last {ended:.2f} ms ({ended / begun:.2f}x)"
            )
        )
    lines |= {
        "stops under load": f"median {1e3 * np.median(record.stops_s or [np.nan]):.1f} ms, "
        f"max {1e3 * max(record.stops_s, default=np.nan):.1f} ms",
        "resident memory": f"median of the first {window} {first:.1f} MiB, of the last {last:.1f} MiB",
        "CPU of the node": f"{100 * record.node_cores():.0f} % of one core",
        "CPU of all processes": f"{busy_first:.1f} of {os.cpu_count()} cores in the first {window}, {busy_last:.1f} in "
        "the last: latency counts only where that leaves room",
    }
    width = max(map(len, lines))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in lines.items())


def _longest(record: Record) -> str:
    """Return the longest time between two trajectories."""
    apart_ms = record.latencies_ms("controller")
    return f"{apart_ms.max():.0f} ms" if len(apart_ms) else "?"


def as_json(record: Record, found: list[str]) -> dict[str, object]:
    """Return figures and violations as JSON, with p50 and p99 of each second."""
    names = ("p50_ms", "p99_ms", "max_ms", "p99_first_ms", "p99_last_ms")
    latency = {}
    for what, client in _LATENCIES:
        figures = dict(zip(names, map(_digits, _latency(record, client)), strict=True))
        rows = record.clients[client].latency_rows
        seconds = [[round(at_s, 1), *map(_digits, np.percentile(values, (50, 99)))] for at_s, values in rows]
        latency[what] = {**figures, "seconds": seconds}
    return {
        "passed": not found,
        "violations": found,
        "cpu_cores": os.cpu_count(),
        "warmup_s": record.warmup_s,
        "duration_s": record.duration_s,
        "window_s": record.window_s,
        "rates_hz": record.rates_hz,
        "load": record.load,
        "beside": record.beside,
        "stops_ms": [_digits(1e3 * took_s) for took_s in record.stops_s],
        "clients": {name: client.counts for name, client in record.clients.items()},
        "node": {**vars(record.counts), "exit_code": record.exit_code},
        "node_cpu_cores": _digits(record.node_cores()),
        "machine_cpu_cores": _by_end(record.busy_cores()),
        "resident_mib": _by_end(record.resident_mib()),
        "memory_mib": [[round(one.at_s, 1), _digits(one.resident / 2**20)] for one in record.samples],
        "latency": latency,
    }


def write(report: dict[str, object], path: Path) -> None:
    """Write the report as JSON with a line for each of its parts."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in report.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _latency(record: Record, client: str) -> tuple[float, ...]:
    """Median, p99 and largest latency, and p99 of the first and of the last window, ms; NaN without any."""
    values = record.latencies_ms(client)
    return *(np.percentile(values, (50, 99, 100)) if values.size else [np.nan] * 3), *record.p99_ms(client)


def _by_end(ends: Ends) -> dict[str, float | None]:
    return dict(zip(("first", "last"), map(_digits, ends), strict=True))


def _digits(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None

"""The results of a soak, as lines of JSON for people and programs; without ROS."""

from __future__ import annotations

import json
import os

import numpy as np

from .records import Record

_NAMES = ("p50", "p99", "max", "p99_of_first_window", "p99_of_last_window")


def as_json(record: Record, found: list[str]) -> str:
    """Return figures and violations as JSON, with a line for each of its parts."""
    latencies = {}
    for what, client in (("sequences", "planner"), ("gradients", "optimizer")):
        values = record.latencies_ms(client)
        figures = np.percentile(values, (50, 99, 100)) if values.size else [np.nan] * 3
        latencies[what] = dict(zip(_NAMES, map(_digits, (*figures, *record.p99_ms(client))), strict=True))
    apart_ms = record.latencies_ms("controller")
    report = {
        "passed": not found,
        "violations": found,
        "cpu_cores": os.cpu_count(),
        "seconds": {"warmup": record.warmup_s, "after": record.duration_s, "window": record.window_s},
        "rates_hz": {name: _digits(client.rate_hz) for name, client in record.clients.items() if name != "controller"},
        "clients": {name: client.counts for name, client in record.clients.items()},
        "node": {**vars(record.counts), "exit_code": record.exit_code, "cpu_cores": _digits(record.node_cores())},
        "resident_mib_of_first_and_last_window": [_digits(value) for value in record.resident_mib()],
        "latency_ms": latencies,
        "motions_apart_at_most_ms": _digits(apart_ms.max() if apart_ms.size else np.nan),
        "stops_ms": [_digits(1e3 * took_s) for took_s in record.stops_s],
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in report.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _digits(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None

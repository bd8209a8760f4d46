"""Rows of results: made from timings, printed as tables, kept as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from .registry import Case
from .timing import Timing

Row = dict[str, object]


def rows_of(suite: str, case: Case, ours: Timing, peers: dict[str, Timing], limit: Timing | None) -> list[Row]:
    """One row for each peer; a case without peers gives one row."""
    head: Row = {
        "suite": suite,
        "case": case.name,
        "B": case.batch,
        "H": case.horizon,
        "D": case.dof,
        "dtype": case.dtype,
        "device": case.device,
        "threads": torch.get_num_threads(),
        "ours_us": _digits(ours.median_us),
        "ours_spread": _digits(ours.spread),
    }
    tail: Row = {"limit_us": None, "of_limit": None}
    if limit is not None:
        of_limit = limit.median_us / ours.median_us
        tail = {"limit": case.limit.name, "limit_us": _digits(limit.median_us), "of_limit": _digits(of_limit)}
        if "limit" in case.targets:
            tail |= {"limit_target": case.targets["limit"], "limit_met": of_limit >= case.targets["limit"]}
    rows = []
    for name, timing in peers.items():
        ratio = timing.median_us / ours.median_us
        row = {**head, "peer": name, "peer_us": _digits(timing.median_us), "ratio": _digits(ratio)}
        if name in case.targets:
            row |= {"target": case.targets[name], "met": ratio >= case.targets[name]}
        if name in case.added_targets_us:
            added, most = ours.median_us - timing.median_us, case.added_targets_us[name]
            row |= {"added_us": _digits(added), "added_target_us": most, "added_met": added <= most}
        rows.append({**row, **tail})
    return rows or [{**head, "peer": None, "peer_us": None, "ratio": None, **tail}]


def table(rows: list[Row]) -> str:
    """The rows for people."""
    lines = [
        f"{'case':34} {'B':>6} {'H':>4} {'D':>3} {'ours':>11}   {'peer':30} {'peer':>11} {'ratio':>8} {'target':>9}",
    ]
    for row in rows:
        head = f"{row['case']:34} {row['B']:6} {row['H']:4} {row['D']:3} {_time(row['ours_us'])} "
        spread = f"±{row['ours_spread'] * 100:.0f}%"
        if row["peer"] is not None:
            target = _target(row.get("target"), row.get("met"), "x")
            peer = f"{row['peer']:30} {_time(row['peer_us'])} {row['ratio']:7.2f}x {target}"
            if "added_us" in row:
                peer += f" {row['added_us']:+.0f} us, <= +{row['added_target_us']:g} us "
                peer += "met" if row["added_met"] else "MISSED"
            lines.append(f"{head}{spread:>4} {peer}")
        if row.get("limit") is not None and (row["peer"] is None or "limit_target" in row):
            target = _target(row.get("limit_target"), row.get("limit_met"), " of it")
            limit = f"{row['limit']:30} {_time(row['limit_us'])} {row['of_limit']:7.2f}  {target}"
            lines.append(f"{head}{spread:>4} {limit}")
    return "\n".join(dict.fromkeys(lines))


def key(row: Row) -> tuple[object, ...]:
    """What makes two rows of a suite the same measurement."""
    return tuple(row.get(name) for name in ("case", "B", "H", "D", "dtype", "device", "threads", "peer"))


def read(path: Path) -> dict[tuple[object, ...], Row]:
    """Rows by their key; none where there is no such file."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return {key(row): row for row in rows}


def write(rows: list[Row], path: Path) -> None:
    """Write rows as JSON, one line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")


def missed(rows: list[Row]) -> list[Row]:
    """Rows that miss a target."""
    return [row for row in rows if any(row.get(name) is False for name in ("met", "limit_met", "added_met"))]


def _time(microseconds: object) -> str:
    value = float(microseconds)
    return f"{value:8.2f} us" if value < 1e4 else f"{value / 1e3:8.1f} ms"


def _target(target: object, met: object, unit: str) -> str:
    return "" if target is None else f">= {target:g}{unit} {'met' if met else 'MISSED'}"


def _digits(value: float) -> float:
    return float(f"{value:.4g}")

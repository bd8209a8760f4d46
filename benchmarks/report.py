"""Rows of results: made from timings, printed as tables, kept as JSON by the kind of machine."""

from __future__ import annotations

import json
import os
import platform
import re
from pathlib import Path

import torch

from .registry import Case, MemoryUse, Unmeasured
from .timing import Timing

Row = dict[str, object]

_VERDICTS = ("met", "limit_met", "added_met", "most_met", "memory_met")


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
    if case.most_us is not None:
        head |= {"most_us": case.most_us, "most_met": ours.median_us <= case.most_us}
    if case.memory is not None:
        head |= _memory(case.memory)
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


def unmeasured_row(suite: str, unmeasured: Unmeasured) -> Row:
    """A row that says that there is none, and why."""
    return {"suite": suite, "case": unmeasured.cases, "unmeasured": unmeasured.reason}


def table(rows: list[Row], *, heads: bool = True) -> str:
    """The rows for people, under a line of heads if that is wanted."""
    if all("unmeasured" in row for row in rows):
        return "\n".join(f"{row['case']}: unmeasured: {row['unmeasured']}" for row in rows)
    lines = [
        f"{'case':50} {'B':>6} {'H':>4} {'D':>3} {'ours':>11}   {'peer':30} {'peer':>11} {'ratio':>8} {'target':>9}",
    ]
    for row in rows:
        head = f"{row['case']:50} {row['B']:6} {row['H']:4} {row['D']:3} {_time(row['ours_us'])} "
        spread = f"±{row['ours_spread'] * 100:.0f}%"
        if row["peer"] is not None:
            target = _target(row.get("target"), row.get("met"), "x")
            peer = f"{row['peer']:30} {_time(row['peer_us'])} {row['ratio']:7.2f}x {target}"
            if "added_us" in row:
                peer += f" {row['added_us']:+.0f} us, <= +{row['added_target_us']:g} us "
                peer += _met(row["added_met"])
            lines.append(f"{head}{spread:>4} {peer}")
        if row.get("limit") is not None and (row["peer"] is None or "limit_target" in row):
            target = _target(row.get("limit_target"), row.get("limit_met"), " of it")
            limit = f"{row['limit']:30} {_time(row['limit_us'])} {row['of_limit']:7.2f}  {target}"
            lines.append(f"{head}{spread:>4} {limit}")
        if row["peer"] is None and row.get("limit") is None:
            lines.append(f"{head}{spread:>4}")
        if "most_us" in row:
            lines.append(f"{head}{spread:>4} {'most':30} {_time(row['most_us'])} {_met(row['most_met']):>21}")
        if "memory_most" in row:
            memory = f"{row['memory_ratio']:.2f} of inputs + outputs ({row['memory_floor_mb']:.0f} MB)"
            lines.append(f"{'':78}    memory {memory}, <= {row['memory_most']:g} {_met(row['memory_met'])}")
    return "\n".join(list(dict.fromkeys(lines))[not heads :])


def key(row: Row) -> tuple[object, ...]:
    """What makes two rows of a suite the same measurement."""
    return tuple(row.get(name) for name in ("case", "B", "H", "D", "dtype", "device", "threads", "peer"))


def read(path: Path) -> dict[tuple[object, ...], Row]:
    """Rows by their key; none where there is no such file."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return {key(row): row for row in rows}


KEPT_RUNS = 5
_RATIOS = ("ratio", "of_limit")


def runs(row: Row, ratio: str) -> list[float]:
    """A ratio in the runs that are kept of a row, the latest last."""
    return row.get(f"{ratio}_runs") or ([row[ratio]] if row.get(ratio) else [])


def with_runs(row: Row, before: Row | None) -> Row:
    """Return a row together with the ratios of the runs that were kept before it."""
    ratios = [ratio for ratio in _RATIOS if row.get(ratio)]
    return {**row, **{f"{ratio}_runs": [*runs(before or {}, ratio), row[ratio]][-KEPT_RUNS:] for ratio in ratios}}


def write(rows: list[Row], path: Path) -> None:
    """Write rows as JSON, one line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")


def missed(rows: list[Row]) -> list[Row]:
    """Rows that miss a target."""
    return [row for row in rows if any(row.get(name) is False for name in _VERDICTS)]


def _memory(memory: MemoryUse) -> Row:
    ratio = memory.peak_bytes / memory.floor_bytes
    return {
        "memory_mb": _digits(memory.peak_bytes / 1e6),
        "memory_floor_mb": _digits(memory.floor_bytes / 1e6),
        "memory_ratio": _digits(ratio),
        "memory_most": memory.most_ratio,
        "memory_met": ratio <= memory.most_ratio,
    }


def _met(met: object) -> str:
    return "met" if met else "MISSED"


def _time(microseconds: object) -> str:
    value = float(microseconds)
    return f"{value:8.2f} us" if value < 1e4 else f"{value / 1e3:8.1f} ms"


def _target(target: object, met: object, unit: str) -> str:
    return "" if target is None else f">= {target:g}{unit} {_met(met)}"


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def machine_name() -> str:
    """E.g. "amd-epyc-family-25-model-17-2-cores", with the GPU behind it where there is one."""
    gpu = f"-{torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return re.sub(r"[^a-z0-9]+", "-", f"{_cpu()}-{os.cpu_count()}-cores{gpu}".lower()).strip("-")


def _cpu() -> str:
    """Model name, with family and model number: hypervisors shorten the name."""
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return platform.machine()
    fields = dict(re.findall(r"^(.+?)\s*: *(.*)$", info, re.MULTILINE))
    name = re.sub(r"\((R|TM)\)", "", fields.get("model name", platform.machine()))
    if {"cpu family", "model"} <= fields.keys():
        return f"{name} family {fields['cpu family']} model {fields['model']}"
    return name

"""Rows of results: made from timings, printed as tables, kept as JSON by the kind of machine."""

from __future__ import annotations

import json
import os
import platform
import re
from pathlib import Path

import torch

from .registry import Case
from .timing import Timing

Row = dict[str, object]

_VERDICTS = ("met", "added_met", "most_met", "worst_met")


def rows_of(suite: str, case: Case, timings: list[Timing]) -> list[Row]:
    """One row for each peer, from the timings of all contenders; a case without peers gives one row."""
    ours, *others = timings
    shared: Row = {
        "suite": suite, "case": case.name, "B": case.batch, "H": case.horizon, "D": case.dof,
        "dtype": case.dtype, "device": case.device, "threads": torch.get_num_threads(),
        "ours_us": _digits(ours.median_us), "ours_spread": _digits(ours.spread),
    }  # fmt: skip
    if case.most_us is not None:
        shared |= {"most_us": case.most_us, "most_met": ours.median_us <= case.most_us}
    if case.worst_us is not None:
        shared |= {"p99_us": _digits(ours.p99_us), "worst_us": _digits(ours.worst_us)}
        shared |= {"worst_most_us": case.worst_us, "worst_met": ours.worst_us <= case.worst_us}
    rows = []
    for peer, timing in zip(case.peers, others, strict=True):
        ratio, added = timing.median_us / ours.median_us, ours.median_us - timing.median_us
        row = {"peer": peer.name, "peer_us": _digits(timing.median_us), "ratio": _digits(ratio)}
        if peer.name in case.targets:
            row |= {"target": case.targets[peer.name], "met": ratio >= case.targets[peer.name]}
        if peer.name in case.added_targets_us:
            most = case.added_targets_us[peer.name]
            row |= {"added_us": _digits(added), "added_target_us": most, "added_met": added <= most}
        rows.append({**shared, **row})
    return rows or [{**shared, "peer": None, "peer_us": None, "ratio": None}]


def table(rows: list[Row], *, heads: bool = True) -> str:
    """The rows as a table, under column heads if wanted."""
    head = f"{'case':50} {'B':>6} {'H':>4} {'D':>3} {'ours':>11}   {'peer':30} {'peer':>11} {'ratio':>8} {'target':>9}"
    lines = [head, *(line for row in rows for line in _lines(row))]
    return "\n".join(list(dict.fromkeys(lines))[not heads :])


def _lines(row: Row) -> list[str]:
    head = f"{row['case']:50} {row['B']:6} {row['H']:4} {row['D']:3} {_time(row['ours_us'])} "
    head += f"{'±' + format(row['ours_spread'], '.0%'):>4}"
    lines = []
    if row["peer"] is not None:
        line = f"{head} {row['peer']:30} {_time(row['peer_us'])} {row['ratio']:7.2f}x "
        if "target" in row:
            line += f">= {row['target']:g}x {_met(row['met'])}"
        if "added_us" in row:
            line += f" {row['added_us']:+.0f} us, <= +{row['added_target_us']:g} us {_met(row['added_met'])}"
        lines.append(line)
    if "most_us" in row:
        lines.append(f"{head} {'most':30} {_time(row['most_us'])} {_met(row['most_met']):>21}")
    if "worst_most_us" in row:
        lines.append(f"{head} {'p99':30} {_time(row['p99_us'])}")
        most = f"<= {row['worst_most_us'] / 1e3:g} ms {_met(row['worst_met'])}"
        lines.append(f"{head} {'slowest':30} {_time(row['worst_us'])} {most}")
    return lines or [head]


def _met(met: object) -> str:
    return "met" if met else "MISSED"


def _time(microseconds: object) -> str:
    value = float(microseconds)
    return f"{value:8.2f} us" if value < 1e4 else f"{value / 1e3:8.1f} ms"


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def missed(rows: list[Row]) -> list[Row]:
    """Rows that miss a target."""
    return [row for row in rows if any(row.get(name) is False for name in _VERDICTS)]


# Kept results


def key(row: Row) -> tuple[object, ...]:
    """Key by which rows of two runs are the same measurement."""
    return tuple(row.get(name) for name in ("case", "B", "H", "D", "dtype", "device", "threads", "peer"))


def read(path: Path) -> dict[tuple[object, ...], Row]:
    """Rows by their key; empty if the file does not exist."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return {key(row): row for row in rows}


def write(rows: list[Row], path: Path) -> None:
    """Write rows as JSON, one line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")


def machine_name() -> str:
    """Name of the machine, e.g. "amd-epyc-family-25-model-17-2-cores", followed by its GPU if there is one."""
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

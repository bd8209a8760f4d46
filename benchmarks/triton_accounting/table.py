"""The count of what the Triton kernels need, for people; needs no Triton."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from .occupancy import DEVICES, room_for

Row = dict[str, object]

OLDEST_TRITON = "3.2.0"
"""Of torch 2.6, the oldest that we support; its assembler ends at sm_90."""
KEPT = Path(__file__).resolve().parent.parent / "results" / "triton_kernels.json"


def load() -> list[Row]:
    """The kept rows; none where there are none."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else []


def table(rows: list[Row]) -> str:
    """Registers, instructions for each element and the share of bandwidth on each architecture; spills and loads."""
    known = [sm for sm in DEVICES if any(row["sm"] == sm for row in rows)]
    names = " ".join(f"{sm}={DEVICES[sm].name}" for sm in known)
    width = 5 * len(known) + 2
    heads = "".join(f"{head:>{width - 2}}  " for head in ("registers", "instructions/element", "bandwidth, %"))
    columns = "".join("".join(f"{sm:>5}" for sm in known) + "  " for _ in range(3))
    lines = [
        f"sm_ {names}",
        f"Instructions that leave 90 % of the bandwidth at 20 bytes: {_rooms(known)}",
        f"{'':64}{heads}",
        f"{'':64}{columns} B/elem loads waits barriers spill shared",
    ]
    for launch, kernel in dict.fromkeys((row["launch"], row["kernel"]) for row in rows):
        found = {row["sm"]: row for row in rows if (row["launch"], row["kernel"]) == (launch, kernel)}
        name = launch if launch.split()[0] in kernel else f"{launch.split()[0]}: {kernel}"
        first = next(iter(found.values()))
        counted = [found.get(sm) for sm in known]
        cells = _cells(row and row["registers"] for row in counted)
        cells += _cells(row and row.get("instructions") for row in counted)
        cells += _cells(row and "instructions" in row and 100 * share(row) for row in counted)
        spilled, shared = (max(row[key] for row in found.values()) for key in ("spilled", "shared"))
        moved = first.get("bytes_per_element", "-")
        flights = f"{first['loads']:>6}{first['waits']:>6}{first['barriers']:>9}"
        lines.append(f"{name:64}{cells}{moved:>7}{flights}{spilled:>6}{shared:>7}")
    return "\n".join(lines)


def share(row: Row) -> float:
    """Share of the bandwidth that the tightest limit leaves."""
    return min(row[f"share_by_{limit}"] for limit in ("loads", "issue", "double"))


def _cells(numbers: Iterable[float | None]) -> str:
    return "".join(f"{number:>5.0f}" if number else f"{'-':>5}" for number in numbers) + "  "


def _rooms(architectures: list[int]) -> str:
    return ", ".join(f"{room_for(sm, 20):.0f} on sm_{sm}" for sm in architectures)

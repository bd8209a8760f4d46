"""The count of what the Triton kernels need, for people; needs no Triton."""

from __future__ import annotations

from pathlib import Path

from .occupancy import DEVICES

Row = dict[str, object]

KEPT = Path(__file__).resolve().parent.parent / "results" / "triton_kernels.json"


def table(rows: list[Row]) -> str:
    """Registers on each architecture, spills, shared memory, and the predicted shares of warps and bandwidth."""
    names = " ".join(f"{sm}={DEVICES[sm].name}" for sm in DEVICES)
    heads = "".join(f"{head:>22}" for head in ("registers", "warps of most, %", "bandwidth, %"))
    columns = "".join("".join(f"{sm:>5}" for sm in DEVICES) + "  " for _ in range(3))
    lines = [f"sm_ {names}", f"{'':64}{heads}", f"{'':64}{columns} B/elem spill shared"]
    for launch, kernel in dict.fromkeys((row["launch"], row["kernel"]) for row in rows):
        found = {row["sm"]: row for row in rows if (row["launch"], row["kernel"]) == (launch, kernel)}
        name = launch if launch.split()[0] in kernel else f"{launch.split()[0]}: {kernel}"
        cells = "".join(f"{found[sm]['registers']:>5}" for sm in DEVICES) + "  "
        for key in ("occupancy", "bandwidth_share"):
            shares = (found[sm].get(key) for sm in DEVICES)
            cells += "".join(f"{'-' if share is None else f'{share:.0%}'[:-1]:>5}" for share in shares) + "  "
        spilled, shared = (max(row[key] for row in found.values()) for key in ("spilled", "shared"))
        moved = next(iter(found.values())).get("bytes_per_element", "-")
        lines.append(f"{name:64}{cells}{moved:>7}{spilled:>6}{shared:>7}")
    return "\n".join(lines)

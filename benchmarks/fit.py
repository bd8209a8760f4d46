"""How linear the time is in the bytes moved: time = overhead + bytes / rate, fitted to the rows of a suite."""

from __future__ import annotations

import statistics

Row = dict[str, object]

# Below this the overhead is most of the time.
_LEAST_BYTES = 1 << 20


def annotate(rows: list[Row]) -> None:
    """Add to each row the fitted time and how ours compares with it, and print the fits.

    The overhead is the time of the smallest case; the rate is the median over the cases above 1 MiB.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["device"], row["case"]), []).append(row)
    for (device, name), members in groups.items():
        smallest = min(members, key=moved_bytes)
        overhead = float(smallest["ours_us"])
        large = [row for row in members if moved_bytes(row) >= _LEAST_BYTES]
        if not large:
            continue
        rate = statistics.median(moved_bytes(row) / max(row["ours_us"] - overhead, 1e-3) for row in large)
        for row in members:
            row["fit_us"] = float(f"{overhead + moved_bytes(row) / rate:.4g}")
            row["of_fit"] = float(f"{row['ours_us'] / row['fit_us']:.3g}")
        low, high = min(row["of_fit"] for row in large), max(row["of_fit"] for row in large)
        print(
            f"{name} on {device}: {overhead:.1f} us + bytes at {rate / 1e3:.1f} GB/s; above 1 MiB the measured times "
            f"are {low:g} to {high:g} of that"
        )


def moved_bytes(row: Row) -> int:
    """Bytes that a forward and a vjp call move, float32: five elements in and out for each action, twice."""
    return 40 * row["B"] * row["H"] * row["D"]

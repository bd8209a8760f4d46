"""Draws docs/figures/retiming.png: what a controller executes of retimed paths, and what that takes, ours and others.

Run `python docs/figures/retiming.py benchmarks/results/MACHINE/retiming.json` in the project's environment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"


def main() -> None:
    """Draw the rows of one run of `python -m benchmarks.retiming peers`."""
    rows = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    compared = [row for row in rows if "theirs, ms" in row]
    names = [f"{row['compared with'].split(',')[0]}\n{row['joints']} x {row['rows']}" for row in compared]
    places = range(len(compared))
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
    left.axhline(1, color=GREY, linewidth=6, alpha=0.25, label="the limits")
    left.plot(places, [row["executed, theirs, worst"] for row in compared], "s", color=ORANGE, label="theirs, worst")
    left.plot(places, [row["executed, theirs, mean"] for row in compared], "_", color=ORANGE, label="theirs, mean")
    left.plot(places, [row["executed, ours"] for row in compared], "o", color=BLUE, label="ours, worst")
    left.set(ylabel="executed at 1 kHz / limit")
    right.plot(places, [row["theirs, ms"] for row in compared], "s", color=ORANGE, label="theirs, solver alone")
    right.plot(places, [row["ours, held, ms"] for row in compared], "o", color=BLUE, label="ours, held everywhere")
    right.set(yscale="log", ylabel="CPU time for one trajectory [ms]")
    for axis in (left, right):
        axis.set_xticks(places, names, rotation=60, ha="right", fontsize=8)
        axis.legend(frameon=False)
        axis.grid(alpha=0.2, axis="y")
    figure.suptitle("One run: the same paths, limits and grids; joints x rows")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=130)


if __name__ == "__main__":
    main()

"""The picture of the scaling suite."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Row = dict[str, object]

_AXES = {
    "B": ("trajectories (32 steps, 7 joints)", {"H": 32, "D": 7}),
    "H": ("steps (100 trajectories, 7 joints)", {"B": 100, "D": 7}),
    "D": ("joints (1,000 trajectories, 32 steps)", {"B": 1000, "H": 32}),
}


def draw_scaling(rows: list[Row], path: Path) -> None:
    """Draw time against each axis, with the copy of the same bytes dashed, and save it."""
    figure, panels = plt.subplots(1, 3, figsize=(13, 4.2), sharey=True, layout="constrained")
    lines = list(dict.fromkeys((row["case"], row["device"]) for row in rows))
    for panel, (axis, (label, fixed)) in zip(panels, _AXES.items(), strict=True):
        for number, (name, device) in enumerate(lines):
            chosen = [row for row in rows if (row["case"], row["device"]) == (name, device)]
            chosen = [row for row in chosen if all(row[key] == value for key, value in fixed.items())]
            chosen.sort(key=lambda row: row[axis])
            places = [row[axis] for row in chosen]
            color = f"C{number}"
            ours, copies = ([row[key] for row in chosen] for key in ("ours_us", "limit_us"))
            panel.loglog(places, ours, "o-", color=color, label=f"{name}, {device}")
            panel.loglog(places, copies, "--", color=color, alpha=0.6, label="copy of the same bytes")
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("forward and vjp call, us")
    panels[0].legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)

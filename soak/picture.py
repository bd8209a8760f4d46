"""Latency and memory over the time of a soak. Knows no ROS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from traj_integrator_ros.motions.figures import BLACK, BLUE, GREEN, ORANGE, figure, tight_time

from .records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOAD = {"robot": "joint states", "planner": "sequences", "optimizer": "gradient calls"}
_PANELS = (("planner", "sequence to trajectory batch", BLUE), ("optimizer", "gradient call", GREEN))


def draw(record: Record, path: Path) -> None:
    """Draw p50 and p99 of each second, p99 of the compared windows, and the node's memory, as PNG."""
    end_s = record.warmup_s + record.duration_s
    in_minutes = end_s > 180
    scale, unit = (1 / 60, "min") if in_minutes else (1.0, "s")
    with figure(path, 12, 9) as drawn:
        rates = ", ".join(f"{_LOAD[name]} at {rate:g} Hz" for name, rate in record.rates_hz.items())
        drawn.suptitle(f"Soak, {record.duration_s * scale:.3g} {unit}: {rates}", fontsize=15)
        panels = drawn.subplots(3, 1, sharex=True)
        for axes, (client, title, color) in zip(panels, _PANELS, strict=False):
            _draw_latency(axes, record, client, color, scale)
            axes.set_title(title, loc="left")
        _draw_memory(panels[-1], record, scale)
        panels[-1].set_xlabel(f"time [{unit}]; grey: warm-up, not counted")
        for axes in panels:
            axes.axvspan(0, record.warmup_s * scale, color="#F0F0F0", zorder=0)
            tight_time(axes, 0.0, end_s * scale)


def _draw_latency(axes: Axes, record: Record, client: str, color: str, scale: float) -> None:
    rows = record.clients[client].latency_rows
    time = np.array([at_s for at_s, _ in rows]) * scale
    for percent, width, alpha in ((99, 1.0, 0.55), (50, 1.6, 1.0)):
        heights = [np.percentile(values, percent) for _, values in rows]
        axes.plot(time, heights, color=color, linewidth=width, alpha=alpha, label=f"p{percent} of each second")
    for window, height in zip(record.windows, record.p99_ms(client), strict=True):
        axes.plot(np.array(window) * scale, [height, height], color=ORANGE, linewidth=3, solid_capstyle="butt")
        axes.annotate(
            f"p99 {height:.2f} ms",
            (window[0] * scale, height),
            xytext=(4, 6),
            textcoords="offset points",
            color=ORANGE,
        )
    axes.set_ylabel("latency [ms]")
    axes.set_yscale("log")
    for ticks in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        ticks(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "125" else "")
    _legend(axes)


def _draw_memory(axes: Axes, record: Record, scale: float) -> None:
    time = np.array([sample.at_s for sample in record.samples]) * scale
    for name, label, color in (("resident", "resident", BLACK), ("anonymous", "of it anonymous", BLUE)):
        axes.plot(time, [getattr(sample, name) / 2**20 for sample in record.samples], color=color, label=label)
    axes.set_ylim(0)
    axes.set_ylabel("memory [MiB]")
    axes.set_title("the node's memory", loc="left")
    _legend(axes)


def _legend(axes: Axes) -> None:
    """Above the panel, to the right of its title."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=2)

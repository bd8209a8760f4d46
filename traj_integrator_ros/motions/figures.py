"""Common style of all figures: fonts, colours that colour-blind readers can tell apart, axes with units."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from .extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, "Color Universal Design" (2008); yellow is darkened so that it is visible on white.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, AMBER, BLACK, OLIVE = "#56B4E9", "#E69F00", "#000000", "#9A8F00"
JOINT_COLORS = (BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER, BLACK, OLIVE)
MOTION_GREY = "#B8B8B8"
DPI = 140
LEAST_SHARE = 1e-3
"""Smallest range of an axis, as a share of the largest range of any joint."""
_MARGIN_PIXELS = 6
_STYLE = {
    "font.size": 12,
    "axes.titlesize": 13,
    "axes.labelsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
}


@contextmanager
def figure(
    path: Path,
    width: float,
    height: float,
    *,
    margins: dict[str, float] | None = None,
    metadata: dict[str, str] | None = None,
) -> Iterator[Figure]:
    """Yield a figure of this size, inches, which is written to `path` at the end of the block. It needs no display.

    `margins`, as shares of the figure, replace a layout by the sizes of texts, which takes most of the time with many
    panels. `metadata` are texts for a PNG file by their keywords.
    """
    matplotlib = _matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        drawn = Figure(figsize=(width, height), dpi=DPI, layout=None if margins else "constrained")
        FigureCanvasAgg(drawn)
        yield drawn
        if margins:
            drawn.subplots_adjust(**margins)
        else:
            _fit_texts(drawn)
        drawn.savefig(path, metadata=metadata)


def _matplotlib() -> ModuleType:
    """Import matplotlib without the caller's backend: notebooks pass one on that child processes may not have."""
    require("matplotlib", "drawing")
    given = os.environ.pop("MPLBACKEND", None)
    try:
        return importlib.import_module("matplotlib")
    finally:
        if given is not None:
            os.environ["MPLBACKEND"] = given


def _fit_texts(drawn: Figure) -> None:
    """Shrink titles that would be cut off at the edge of their figure."""
    from matplotlib.text import Text

    drawn.get_layout_engine().execute(drawn)
    drawn.set_layout_engine(None)  # all parts are placed already; with "none" the figure would be drawn once more
    for parent in (drawn, *drawn.subfigs, *drawn.axes):
        frame = parent.get_figure().bbox if parent in drawn.axes else parent.bbox
        for text in (child for child in parent.get_children() if isinstance(child, Text) and child.get_text()):
            for _ in range(3):  # the width of small letters is not quite proportional to their size
                box = text.get_window_extent()
                left, right = max(box.x0, frame.x0), frame.x1 - _MARGIN_PIXELS
                if frame.x0 <= box.x0 and box.x1 <= right:
                    break
                text.set_fontsize(text.get_fontsize() * max(0.3, (right - left) / box.width))


def short_name(joint_name: str) -> str:
    """Return a joint's name for a label, without the suffix that all joint names have."""
    return joint_name.removesuffix("_joint").replace("_joint", " joint ").replace("_", " ").strip()


def at_least(axes: Axes, values: np.ndarray, least: float = 0.0) -> None:
    """Make the vertical axis span at least `least`, and a thousandth of the largest range of any of `values` `[N, D]`.

    Rounding errors of joints at rest would otherwise fill it.
    """
    low, high = axes.get_ylim()
    span, middle = max(least, LEAST_SHARE * float(np.ptp(values, axis=0).max())), (low + high) / 2
    if high - low < span:
        axes.set_ylim(middle - span / 2, middle + span / 2)


def tight_time(axes: Axes, begin: float, end: float) -> None:
    """Let the time axis run from `begin` to `end`, s, with a small margin."""
    air = 0.015 * (end - begin)
    axes.set_xlim(begin - air, end + air)

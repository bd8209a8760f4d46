"""Compiled functions for motions (`src/`): one call each in place of many of numpy.

They raise TypeError for arrays that are not contiguous or float64, or have another shape.
"""

from __future__ import annotations

from typing import NoReturn


class NotCompiled(RuntimeError):
    """The extension, which the caller needs, is not built; the message says how to build it."""


try:
    from ._native import (  # noqa: F401
        blend,
        interpolate,
        points,
        profile,
        shift,
        spline,
        states_at,
        stop,
        track,
        united,
        widen,
    )
except ImportError as missing:
    _TOLD = (
        f"motions need their C++ extension, which is not built for this Python ({missing}); to build it, install the "
        "package again from its sources: pip install -v --no-deps --force-reinstall --no-cache-dir SOURCES, or colcon "
        "build (it takes g++ and Python.h)"
    )

    def __getattr__(name: str) -> NoReturn:
        raise AttributeError(name) if name.startswith("__") else NotCompiled(_TOLD)

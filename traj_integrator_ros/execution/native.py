"""Compiled functions for motions (`src/`): one call each in place of many of numpy.

They raise TypeError for arrays that are not contiguous or float64, or have another shape.
"""

from __future__ import annotations

from typing import NoReturn


class NotCompiled(RuntimeError):
    """The extension, which the caller needs, is not built; the message says how to build it."""


try:
    from ._native import *  # noqa: F403

    _WHY = "is older than this package"
except ImportError as missing:
    _WHY = f"is not built for this Python ({missing})"


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotCompiled(
        f"motions need their C++ extension, which {_WHY}; to build it, install the package again from its sources: "
        "pip install -v --no-deps --force-reinstall --no-cache-dir SOURCES, or colcon build (it takes g++ and Python.h)"
    )

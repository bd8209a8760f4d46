"""The models of the controller and of the arm behind it, which lie beside the project, not in it."""

from __future__ import annotations

import importlib.util
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "jtc"


class ModelsAbsent(RuntimeError):
    """A model is not on this machine; the message names its file."""


class Models(NamedTuple):
    """The two modules."""

    jtc: ModuleType
    """joint_trajectory_controller: what it refuses, replaces and commands."""
    plant: ModuleType
    """The controller and an arm that lags, hangs low, is read with noise, and can be stopped."""


@lru_cache(maxsize=4)
def load_models(folder: Path = FOLDER) -> Models:
    """Load jtc.py and plant.py of a folder. Raises ModelsAbsent."""
    return Models(*(load_module(folder / f"{name}.py") for name in Models._fields))


def load_module(path: Path) -> ModuleType:
    """Load a module by its file. Raises ModelsAbsent if there is none."""
    if not path.is_file():
        raise ModelsAbsent(f"no model of joint_trajectory_controller: {path} does not exist")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # plant imports jtc, and its dataclasses look there for their annotations
    spec.loader.exec_module(module)
    return module

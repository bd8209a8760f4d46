"""The controller's model of the shared folder, and jerk-limited motions to be played."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def jtc(project_root: Path):
    """The model of joint_trajectory_controller; skips where the shared folder is not there."""
    path = project_root.parent / "shared" / "jtc" / "jtc.py"
    if not path.is_file():
        pytest.skip(f"no model of joint_trajectory_controller: {path} does not exist")
    spec = importlib.util.spec_from_file_location("jtc", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["jtc"] = module  # its dataclasses look there for their annotations
    spec.loader.exec_module(module)
    return module

"""The matrix of combinations."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch, project_root: Path, tmp_path: Path) -> ModuleType:
    """The script, whose cells lie in a folder of the test."""
    monkeypatch.syspath_prepend(project_root / "scripts")
    module = importlib.import_module("matrix")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    return module


def test_a_cell_is_this_commit_with_another_torch(matrix: ModuleType, project_root: Path) -> None:
    oldest, pinned = (
        matrix.Cell("jazzy", "/usr/bin/python3.12", "3.12", *torch) for torch in (("oldest", "2.6.0"), ("pinned", "2"))
    )
    matrix.clone(oldest)
    pins = (oldest.folder / "requirements/python.txt").read_text()
    assert "torch==2.6.0 " in pins and "triton==" not in pins and "numpy==" in pins
    constraints = (oldest.folder / "requirements/transitive.txt").read_text()
    assert "sympy==" not in constraints and "pluggy==" in constraints, "torch requires the sympy it wants"
    assert (oldest.folder / "traj_integrator_ros/kernels").is_symlink()
    modules = list(project_root.glob("kernels/native/*.abi3.so"))
    assert [path.name for path in (oldest.folder / "kernels/native").glob("*.so")] == [path.name for path in modules]
    matrix.clone(pinned)
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=pinned.folder, capture_output=True, text=True)
    assert not changed.stdout


def test_the_tests_of_a_cell_exist(matrix: ModuleType, project_root: Path) -> None:
    for name in (*matrix.TESTS, *matrix.LEROBOT_TESTS):
        file, _, function = name.partition("::")
        assert (project_root / file).exists()
        assert not function or f"\ndef {function}(" in (project_root / file).read_text()

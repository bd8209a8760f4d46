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
    for name in matrix.TESTS:
        file, _, function = name.partition("::")
        assert (project_root / file).exists()
        assert not function or f"\ndef {function}(" in (project_root / file).read_text()


def test_the_table_shows_what_passed_what_failed_and_what_was_not_tested(matrix: ModuleType) -> None:
    about = {"date": "2026-11-21", "commit": "abc1234"}
    results = [
        matrix.Result("kilted-3.12-pinned", **about, versions={"torch": "2.13.0"}, outcome="passed", passed=300),
        matrix.Result("kilted-3.12-oldest", **about, outcome="failed", passed=299, failed=["test.wire::test_a"]),
        matrix.Result("jazzy-3.12-newest", **about, outcome="no set-up", message="no torch for it"),
    ]
    rows = matrix.table({result.cell: result for result in results}).splitlines()[2:]
    passed, failed = "2.13.0 (2026-11-21)", "**1 failed** of 300: test_a (2026-11-21, abc1234)"
    assert f"| Kilted | 3.12 | {failed} | {passed} | untested |" in rows
    assert "| Jazzy | 3.12 | untested | untested | no set-up: no torch for it (2026-11-21, abc1234) |" in rows
    assert "| Kilted | 3.14 | untested | untested | untested |" in rows
    assert matrix.load_results(), "those that are kept can be read"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("set-up: .venv with Python\n  1/2 a ... 3 s\n  2/2 b ... set-up: ERROR: no wheel\n", "ERROR: no wheel"),
        ("Traceback\nKeyError: 'x'\n", "KeyError: 'x'"),
        ("", "no output"),
    ],
)
def test_a_cell_without_set_up_says_why(matrix: ModuleType, output: str, reason: str) -> None:
    assert matrix.reason_in(output) == reason

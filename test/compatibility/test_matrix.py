"""The matrix of combinations."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, project_root: Path):
    """A function that imports a module of scripts/."""
    monkeypatch.syspath_prepend(project_root / "scripts")
    return importlib.import_module


def test_what_fails_once_is_told_apart_from_what_fails_again(
    script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    matrix = script("matrix_cell")
    tries = [({"a", "b"}, ["c", "d"], 1), ({"c"}, ["d"], 0)]
    monkeypatch.setattr(matrix, "FOLDER", tmp_path)
    monkeypatch.setattr(matrix, "run_tests", lambda *_: tries.pop(0))
    result = matrix.Result("jazzy-3.12-oldest", "", "", "")
    matrix.test(cell(matrix, "oldest", "2.6.0"), result)
    assert (result.passed, result.failed, result.passed_again, result.outcome) == (3, ["d"], ["c"], "failed")


def cell(matrix: ModuleType, torch: str, version: str):
    return matrix.Cell("jazzy", "/usr/bin/python3.12", "3.12", torch, version)


def test_a_cell_is_this_checkout_with_another_torch(
    script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, project_root: Path
) -> None:
    matrix = script("matrix_cell")
    monkeypatch.setattr(matrix, "FOLDER", tmp_path)
    oldest = cell(matrix, "oldest", "2.6.0")
    matrix.copy_checkout(oldest)
    pins = (oldest.folder / "requirements/python.txt").read_text()
    assert "torch==2.6.0 " in pins and "triton==" not in pins and "numpy==" in pins
    constraints = (oldest.folder / "requirements/transitive.txt").read_text()
    assert "sympy==" not in constraints and "pluggy==" in constraints, "torch requires the sympy it wants"
    assert (oldest.folder / "traj_integrator_ros/kernels").is_symlink()
    modules = list(project_root.glob("kernels/native/*.abi3.so"))
    assert [path.name for path in (oldest.folder / "kernels/native").glob("*.so")] == [path.name for path in modules]
    pinned = cell(matrix, "pinned", "2.13.0")
    matrix.copy_checkout(pinned)
    for name in ("requirements/python.txt", "requirements/transitive.txt", "setup.py"):
        assert (pinned.folder / name).read_bytes() == (project_root / name).read_bytes()


def test_the_tests_of_a_cell_exist(script, project_root: Path) -> None:
    for name in script("matrix_cell").TESTS:
        file, _, function = name.partition("::")
        assert (project_root / file).exists()
        assert not function or f"\ndef {function}(" in (project_root / file).read_text()


def test_a_result_holds_until_its_inputs_change(script, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = script("matrix_cell")
    files = matrix.checkout_files()
    known = matrix.inputs_of(cell(matrix, "newest", "2.15.0"))
    assert matrix.inputs_of(cell(matrix, "newest", "2.15.0")) == known
    assert matrix.inputs_of(cell(matrix, "newest", "2.16.0")) != known
    pages = [name for name in files if not name.startswith("docs/") and not name.endswith(".md")]
    monkeypatch.setattr(matrix, "checkout_files", lambda: pages)
    assert matrix.inputs_of(cell(matrix, "newest", "2.15.0")) == known, "nothing depends on pages"
    monkeypatch.setattr(matrix, "checkout_files", lambda: [name for name in files if name != "setup.py"])
    assert matrix.inputs_of(cell(matrix, "newest", "2.15.0")) != known


def test_the_table_shows_what_passed_what_failed_and_what_was_not_tested(script) -> None:
    matrix, table = script("matrix_cell"), script("matrix").table
    about = {"inputs": "", "date": "2026-11-21", "commit": "abc1234"}
    results = [
        matrix.Result("kilted-3.12-pinned", **about, versions={"torch": "2.13.0"}, outcome="passed", passed=300),
        matrix.Result("kilted-3.12-oldest", **about, outcome="failed", passed=299, failed=["test.wire::test_a"]),
        matrix.Result("jazzy-3.12-newest", **about, outcome="no set-up", message="no torch for it"),
    ]
    rows = table({result.cell: result for result in results}).splitlines()[2:]
    passed, failed = "2.13.0 (2026-11-21)", "**1 failed** of 300: test_a (2026-11-21, abc1234)"
    assert f"| Kilted | 3.12 | {failed} | {passed} | untested |" in rows
    assert "| Jazzy | 3.12 | untested | untested | no set-up: no torch for it (2026-11-21, abc1234) |" in rows
    assert "| Kilted | 3.14 | untested | untested | untested |" in rows


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "set-up: .venv with Python\n  1/2 packages ... 3 s\n  2/2 this ... set-up: ERROR: no wheel\n",
            "ERROR: no wheel",
        ),
        ("Traceback\nKeyError: 'x'\n", "KeyError: 'x'"),
        ("", "no output"),
    ],
)
def test_a_cell_without_set_up_says_why(script, output: str, reason: str) -> None:
    assert script("matrix_cell").reason_in(output) == reason

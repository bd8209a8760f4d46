"""The matrix of combinations."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


def test_the_tests_of_a_cell_exist(monkeypatch: pytest.MonkeyPatch, project_root: Path) -> None:
    monkeypatch.syspath_prepend(project_root / "scripts")
    matrix = importlib.import_module("matrix")
    for name in (*matrix.TESTS, *matrix.LEROBOT_TESTS):
        file, _, function = name.partition("::")
        assert (project_root / file).exists()
        assert not function or f"\ndef {function}(" in (project_root / file).read_text()

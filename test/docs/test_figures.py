"""The programs that draw the pages' figures go with the code that they use."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
pytest.importorskip("rclpy", reason="rclpy cannot be imported")
FIGURES = sorted((Path(__file__).resolve().parents[2] / "docs" / "figures").glob("*.py"))


@pytest.mark.parametrize("program", FIGURES, ids=lambda path: path.stem)
def test_a_figures_program_finds_what_it_imports(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(program.parent))
    assert {"main", "running"} & {*runpy.run_path(str(program), run_name="loaded")}

"""A library that is not installed is one line that says what to install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tool_runs import Tool


@pytest.mark.parametrize(
    ("library", "arguments", "words"),
    [
        ("matplotlib", ["integrate", "motion.csv", "--out", "out.csv", "--plot", "out.png"], "--plot needs"),
        ("matplotlib", ["plot_trajectory", "motion.csv"], "drawing needs"),
        ("yaml", ["check_trajectory", "motion.csv", "--params", "robot.yaml"], "reading robot.yaml needs"),
        ("rosbags", ["integrate", "motion.csv", "--out", "bag"], "writing bags needs"),
        ("rosbags", ["replay", "bag.db3"], "reading bags needs"),
        ("ruckig", ["integrate", "motion.csv", "--out", "out.csv"], "joining motions needs"),
        ("matplotlib", ["demo"], "the demo needs"),
        ("ruckig", ["demo"], "the demo needs"),
        ("scipy", ["demo"], "the demo needs"),
    ],
)
def test_a_tool_says_what_to_install(
    tool: Tool, tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch,
    library: str, arguments: list[str], words: str,
) -> None:  # fmt: skip
    for name in ("robot.yaml", "bag.db3"):
        (tmp_path / name).write_text("")
    monkeypatch.setitem(sys.modules, library, None)
    result = tool(*arguments)
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result.stderr
    package = {"yaml": "PyYAML"}.get(library, library)
    assert f"{words} the library {package}: python -m pip install {package}" in result.stderr
    assert f"pip install '.[{'demo' if arguments == ['demo'] else 'tools'}]'" in result.stderr
    assert not (tmp_path / "out.csv").exists()

"""`python -m soak`, and `--random`: a line for each failure with the command that shows it again, or a clear error."""

from __future__ import annotations

import numpy as np
import pytest

from soak import __main__ as soak
from soak.streams import command
from soak.streams.invariants import Failure
from soak.streams.scenes import Scene
from soak.streams.simulation import Run


def test_wrong_arguments_are_told(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["soak", "--set", "dt=1"])
    with pytest.raises(SystemExit, match="2"):
        soak.main()
    assert "argument --set: expected NAME:=VALUE, got 'dt=1'" in capsys.readouterr().err


def not_simulated(scene: Scene, **parameters: object) -> Run:
    return Run(scene, np.zeros((3, 1, scene.dof)), np.zeros(1, bool), scene.policy(np.random.default_rng(0)))


def test_a_failure_is_one_line_that_reproduces_it(monkeypatch, capsys) -> None:
    broken = Failure(7, "velocity", "joint2", 1.2345, 3.5, 2.0, "step of position")
    monkeypatch.setattr(command, "simulate", not_simulated)
    monkeypatch.setattr(command, "failures", lambda run: [broken] if run.scene.seed == 7 else [])
    arguments = ["--random", "--first", "6", "--seeds", "2", "--workers", "1", "--without-state"]
    assert command.main([*arguments, "--set", "publish.lead_time:=0.05"]) == 1
    output = capsys.readouterr().out
    (line,) = (line for line in output.splitlines() if line.startswith("FAILED"))
    assert "seed 7: velocity joint2 at 1.234 s: 3.5, limit 2 (step of position)" in line
    again = "python -m soak --random --without-state --set publish.lead_time:=0.05 --seed 7"
    assert line.endswith(again)
    assert "1 of 2 streams failed" in output and "velocity       1" in output

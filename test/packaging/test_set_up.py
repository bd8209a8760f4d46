"""Set-up goes on where it stopped, says in a line what fails, and takes nothing of a ROS 2 that is sourced."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
import set_up_steps
from set_up_environment import Environment, SetUpError
from set_up_packages import ENVIRONMENT

NAMES = ("virtual environment", "packages", "interface package")


def test_it_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(set_up_steps, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(set_up_steps, "ROOT", tmp_path)
    done, fails = [], {"packages"}

    def does(name: str) -> Callable[[Environment], None]:
        def work(environment: Environment) -> None:
            if name in fails:
                raise SetUpError(f"{name} fails")
            done.append(name)

        return work

    stages = tuple((set_up_steps.Step(name, lambda _: ["of wheels"], does(name)),) for name in NAMES)
    monkeypatch.setattr(set_up_steps, "STAGES", stages)
    assert set_up_steps.main(str(tmp_path / ".venv"), "kilted") == 1
    assert capsys.readouterr().err == "set-up: packages fails\n"
    fails.clear()
    assert set_up_steps.main(str(tmp_path / ".venv"), "kilted") == 0 and done == [*NAMES]
    assert set_up_steps.main(str(tmp_path / ".venv"), "kilted") == 0 and done == [*NAMES]
    assert "up to date" in capsys.readouterr().out


def test_a_ros_2_that_is_sourced_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "environment.sh").write_text(ENVIRONMENT.format(venv="/venv"), encoding="utf-8")
    said = f". {tmp_path}/environment.sh && echo $AMENT_PREFIX_PATH:$PYTHONPATH:$LD_LIBRARY_PATH"
    sourced = {"AMENT_PREFIX_PATH": "/opt/ros/jazzy", "PYTHONPATH": "/opt/ros/jazzy/python", "LD_LIBRARY_PATH": "/opt"}
    done = subprocess.run(["bash", "-c", said], env={**os.environ, **sourced}, capture_output=True, text=True)
    assert done.stdout == "/venv::\n"

"""Set-up goes on where it stopped, and says in a line what fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
import set_up_steps
from set_up_parts import Environment, SetUpError

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
    assert set_up_steps.main(str(tmp_path / ".venv"), "kilted", use_ros=False) == 1
    assert capsys.readouterr().err == "set-up: packages fails\n"
    fails.clear()
    assert set_up_steps.main(str(tmp_path / ".venv"), "kilted", use_ros=False) == 0 and done == [*NAMES]
    assert set_up_steps.main(str(tmp_path / ".venv"), "kilted", use_ros=False) == 0 and done == [*NAMES]
    assert "up to date" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("has", "lacks"), [((), "no ament_cmake and no rosidl_default_gen"), (("ament_cmake",), "no rosidl_default_gen")]
)
def test_a_ros_2_that_cannot_build_messages_is_refused_at_once(
    project_root: Path, tmp_path: Path, has: tuple[str, ...], lacks: str
) -> None:
    checkout, ros = tmp_path / "checkout", tmp_path / "ros"
    for folder in ("scripts", "requirements", "launch", "kernels", "traj_integrator_interfaces"):
        shutil.copytree(project_root / folder, checkout / folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "package.xml"):
        shutil.copy(project_root / name, checkout)
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "works").touch()
    for name in has:
        (ros / "share" / name / "cmake").mkdir(parents=True)
    (ros / "python" / "rclpy").mkdir(parents=True)
    for name in ("__init__.py", f"_rclpy_pybind11{sysconfig.get_config_var('EXT_SUFFIX')}"):
        (ros / "python" / "rclpy" / name).touch()
    sourced = {"AMENT_PREFIX_PATH": str(ros), "PYTHONPATH": str(ros / "python"), "ROS_DISTRO": "jazzy"}
    python = getattr(sys, "_base_executable", sys.executable)
    command = [python, checkout / "scripts" / "set_up.py", "--python-is-given"]
    done = subprocess.run(command, env={**os.environ, **sourced}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert lacks in line and "sudo apt install ros-jazzy-" in line
    assert [path.name for path in (checkout / ".venv").iterdir()] == ["works"]


def test_the_tests_of_a_cell_of_the_matrix_exist(project_root: Path) -> None:
    import matrix

    for name in (*matrix.TESTS, *matrix.LEROBOT_TESTS):
        file, _, function = name.partition("::")
        assert (project_root / file).exists()
        assert not function or f"\ndef {function}(" in (project_root / file).read_text()

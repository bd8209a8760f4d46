"""Set-up keeps an environment that works until another one does."""

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
import set_up_project
import set_up_steps
from set_up_environment import Environment, SetUpError

NAMES = ("virtual environment", "packages", "interface package")


@pytest.fixture
def set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Sets up tmp_path/.venv with three steps that record the kind of environment they make; a step may fail."""
    monkeypatch.setattr(set_up_steps, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(set_up_steps, "ROOT", tmp_path)
    venv = tmp_path / ".venv"

    def run(kind: str, fails: str = "", error: type[BaseException] = SetUpError) -> int:
        def does(name: str) -> Callable[[Environment], None]:
            def work(environment: Environment) -> None:
                if name == NAMES[0]:
                    shutil.rmtree(venv, ignore_errors=True)
                    venv.mkdir()
                if name == fails:
                    raise error(f"{name} fails")
                (venv / name).write_text(kind)

            return work

        stages = tuple((set_up_steps.Step(name, lambda _: [kind], does(name)),) for name in NAMES)
        monkeypatch.setattr(set_up_steps, "STAGES", stages)
        return set_up_steps.main(str(venv), "kilted", use_ros=False)

    return run


def kinds(folder: Path) -> list[str]:
    """Kinds of environment that the steps have made."""
    return [(folder / ".venv" / name).read_text() for name in NAMES if (folder / ".venv" / name).is_file()]


@pytest.mark.parametrize("fails", NAMES)
def test_a_working_environment_is_kept_where_another_fails(
    set_up: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture, fails: str
) -> None:
    assert set_up("wheels", NAMES[1]) == 1 and capsys.readouterr().err == "set-up: packages fails\n"
    (tmp_path / ".venv" / "kept").touch()
    assert set_up("wheels") == 0 and (tmp_path / ".venv" / "kept").is_file(), "it goes on where it stopped"
    assert set_up("sourced", fails) == 1 and kinds(tmp_path) == ["wheels"] * 3
    assert capsys.readouterr().err == f"set-up: {fails} fails; .venv is as it was before\n"
    assert set_up("sourced", NAMES[2], KeyboardInterrupt) == 130 and kinds(tmp_path) == ["sourced"] * 2
    assert set_up("sourced", NAMES[2]) == 1 and kinds(tmp_path) == ["wheels"] * 3
    assert set_up("wheels") == 0 and "up to date" in capsys.readouterr().out
    assert set_up("sourced") == 0 and kinds(tmp_path) == ["sourced"] * 3
    assert [path.name for path in tmp_path.glob(".venv*")] == [".venv"]


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


def test_messages_built_for_one_place_are_installed_at_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_up_project, "ROOT", tmp_path)
    compiled = []

    def compile_interfaces(environment: Environment, build: Path) -> None:
        compiled.append(environment.venv)
        script = Path(f"{build}/installed{environment.venv}/share/traj_integrator_interfaces/local_setup.sh")
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"prefix={environment.venv}")

    monkeypatch.setattr(set_up_project, "compile_interfaces", compile_interfaces)
    first, second = (Environment(tmp_path / name, "kilted", use_ros=False) for name in ("first", "second"))
    for environment in (first, second):
        set_up_project.build_interfaces(environment)
        script = environment.venv / "share" / "traj_integrator_interfaces" / "local_setup.sh"
        assert script.read_text() == f"prefix={environment.venv}"
    assert compiled == [first.venv]
    monkeypatch.setenv("CFLAGS", "-O0")
    set_up_project.build_interfaces(second)
    assert compiled == [first.venv, second.venv]

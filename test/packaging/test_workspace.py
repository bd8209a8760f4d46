"""A ROS 2 workspace, by the README's commands: what rosdep would install. test_install_modes.py builds one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from readme_commands import readme_command

TOOLS = Path(sys.prefix) / "colcon"
PACKAGE = "traj_integrator_ros"
OF_UBUNTU = {
    *("python3-dev", "python3-hypothesis", "python3-matplotlib", "python3-numpy", "python3-pytest"),
    *("python3-pytest-timeout", "python3-scipy", "python3-yaml"),
}
"""Keys of rosdep that are packages of Ubuntu 24.04, by the same names."""
OF_ROS = {
    *("ament_cmake", "ament_index_python", "builtin_interfaces", "control_msgs", "diagnostic_msgs", "geometry_msgs"),
    *("launch", "launch_ros", "launch_testing", "lifecycle_msgs", "rcl_interfaces", "rclpy", "rosgraph_msgs"),
    *("action_msgs", "rosidl_default_generators", "rosidl_default_runtime", "sensor_msgs", "std_msgs"),
    "trajectory_msgs",
}
"""Packages that Jazzy and Kilted have released."""
DISTRO = "jazzy"


@pytest.fixture(scope="module")
def rosdep(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a rosdep that knows these keys, with a home folder of the test: no network."""
    if not (TOOLS / "rosdep2").is_dir():
        pytest.skip("set-up has not installed rosdep")
    folder = tmp_path_factory.mktemp("rosdep")
    release = {"packages": sorted(OF_ROS), "tags": {"release": "-"}, "url": "https://host.invalid", "version": "1.0-1"}
    repositories = {"release_platforms": {"ubuntu": ["noble"]}, "repositories": {"ros": {"release": release}}}
    about = {"distribution_status": "active", "distribution_type": "ros2", "python_version": 3}
    distributions = {DISTRO: {**about, "distribution": ["distribution.yaml"]}}
    for name, content in {
        "keys.yaml": {key: {"ubuntu": [key]} for key in OF_UBUNTU},
        "distribution.yaml": {**repositories, "type": "distribution", "version": 2},
        "index-v4.yaml": {"distributions": distributions, "type": "index", "version": 4},
    }.items():
        (folder / name).write_text(yaml.safe_dump(content))
    (folder / "sources").mkdir()
    (folder / "sources" / "20-default.list").write_text(f"yaml file://{folder}/keys.yaml\n")
    outer = ("AMENT_PREFIX_PATH", "ROS_PACKAGE_PATH", "PYTHONPATH", "ROS_DISTRO")  # of the installed packages
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    environment |= {
        "PYTHONPATH": str(TOOLS),
        "ROS_HOME": str(folder / "home"),
        "ROSDEP_SOURCE_PATH": str(folder / "sources"),
        "ROSDISTRO_INDEX_URL": f"file://{folder}/index-v4.yaml",
    }
    run(environment, folder, "update")
    return environment


def run(environment: dict[str, str], cwd: Path, *arguments: str) -> str:
    """Output of rosdep; fails if rosdep fails."""
    program = "from rosdep2.main import rosdep_main; rosdep_main()"
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rosdep_installs_packages_by_the_command_of_the_readme(
    rosdep: dict[str, str], project_root: Path, tmp_path: Path
) -> None:
    for folder in (".", "traj_integrator_interfaces"):  # the parts that rosdep reads
        package = tmp_path / "src" / PACKAGE / folder
        package.mkdir(parents=True)
        (package / "package.xml").write_bytes((project_root / folder / "package.xml").read_bytes())
    command = readme_command("rosdep install")
    where = ("--rosdistro", DISTRO, "--os", "ubuntu:noble", "--reinstall")  # this machine's packages do not matter
    printed = run(rosdep, tmp_path, *command[1:], "--simulate", *where)
    installs = [line.split() for line in printed.splitlines() if not line.startswith("#")]
    assert {words[0] for words in installs} == {"apt-get"}, printed
    of_ros = {f"ros-{DISTRO}-{name.replace('_', '-')}" for name in OF_ROS}
    assert {words[-1] for words in installs} == OF_UBUNTU | of_ros


def test_pip_installs_what_rosdep_has_not_by_the_command_of_the_readme() -> None:
    command = readme_command("python3 -m pip install")
    assert set(command[4:]) == {"torch", "ruckig", "rosbags"}


@pytest.mark.parametrize(
    ("folder", "build_type"), [(".", "ament_python"), ("traj_integrator_interfaces", "ament_cmake")]
)
def test_packages_can_be_released(project_root: Path, folder: str, build_type: str) -> None:
    """Bloom refuses keys that pip installs: a package of the system cannot depend on them."""
    warnings: list[str] = []
    package = pytest.importorskip("catkin_pkg.package").parse_package(str(project_root / folder), warnings=warnings)
    package.validate(warnings=warnings)
    assert not warnings and (package.package_format, package.get_build_type()) == (3, build_type)
    groups = (package.build_depends, package.buildtool_depends, package.exec_depends, package.test_depends)
    named = {dependency.name for group in groups for dependency in group}
    assert named <= OF_UBUNTU | OF_ROS | {"traj_integrator_interfaces"}

"""The package control_msgs with the message that the node reads, built from its fields where ROS has none.

The ROS 2 wheels have no control_msgs. Its JointTrajectoryControllerState is written here field by field, as the
releases for Jazzy and Kilted have it (from 5.3 on), and built as this project's own interface package is.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_MESSAGE = """std_msgs/Header header
string[] joint_names
trajectory_msgs/JointTrajectoryPoint reference
trajectory_msgs/JointTrajectoryPoint feedback
trajectory_msgs/JointTrajectoryPoint error
trajectory_msgs/JointTrajectoryPoint output
string[] multi_dof_joint_names
trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_reference
trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_feedback
trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_error
trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_output
float64 speed_scaling_factor
"""
_CMAKE = """cmake_minimum_required(VERSION 3.16)
project(control_msgs)
find_package(ament_cmake REQUIRED)
find_package(rosidl_default_generators REQUIRED)
find_package(std_msgs REQUIRED)
find_package(trajectory_msgs REQUIRED)
rosidl_generate_interfaces(${PROJECT_NAME} "msg/JointTrajectoryControllerState.msg"
  DEPENDENCIES std_msgs trajectory_msgs)
ament_package()
"""
_PACKAGE = """<?xml version="1.0"?>
<package format="3">
  <name>control_msgs</name>
  <version>5.8.0</version>
  <description>One message of control_msgs, for tests</description>
  <maintainer email="maintainers@users.noreply.github.com">traj_integrator_ros maintainers</maintainer>
  <license>Apache-2.0</license>
  <buildtool_depend>ament_cmake</buildtool_depend>
  <buildtool_depend>rosidl_default_generators</buildtool_depend>
  <depend>std_msgs</depend>
  <depend>trajectory_msgs</depend>
  <member_of_group>rosidl_interface_packages</member_of_group>
  <export><build_type>ament_cmake</build_type></export>
</package>
"""
_FILES = {
    "msg/JointTrajectoryControllerState.msg": _MESSAGE,
    "CMakeLists.txt": _CMAKE,
    "package.xml": _PACKAGE,
}


class _CannotBuild(Exception):
    """The package cannot be built here; the message says why, in one line."""


@pytest.fixture(scope="module")
def report_type() -> Iterator[type]:
    """The message of the controller's reports, for this process and those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            environment = _environment()
        except _CannotBuild as reason:
            pytest.skip(str(reason))
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "path", [*environment.get("PYTHONPATH", "").split(":")[:1], *sys.path])
        if environment:
            _load_libraries()
        from control_msgs.msg import JointTrajectoryControllerState

        yield JointTrajectoryControllerState
    if environment:  # whoever looks for it later in this process does not find what its own processes would not
        for name in [name for name in sys.modules if name.partition(".")[0] == "control_msgs"]:
            del sys.modules[name]


def _environment() -> dict[str, str]:
    """Variables with which processes find control_msgs; none where they find it already. Builds it if necessary.

    Raises:
        _CannotBuild: nothing to build it with.

    """
    if importlib.util.find_spec("control_msgs") is not None:
        return {}
    prefix = Path(sys.prefix)
    if not (prefix / "share" / "rosidl_default_generators").is_dir():
        raise _CannotBuild("control_msgs is not installed, and there are no generators of messages to build it with")
    folder = _folder()
    if not (folder / "complete").exists():
        _build(folder, prefix)
    installed = folder / "install"
    found = {"PYTHONPATH": installed / "python", "LD_LIBRARY_PATH": installed / "lib", "AMENT_PREFIX_PATH": installed}
    defaults = {"AMENT_PREFIX_PATH": str(prefix)}
    return {
        name: os.pathsep.join(filter(None, [str(path), os.environ.get(name, defaults.get(name))]))
        for name, path in found.items()
    }


def _load_libraries() -> None:
    """Load the libraries of the package into this process, in which LD_LIBRARY_PATH has no effect any more."""
    for library in sorted((_folder() / "install" / "lib").glob("libcontrol_msgs__*.so")):
        with contextlib.suppress(OSError):  # those that nothing here uses may lack others
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


def _folder() -> Path:
    """Where it is built: another place for each definition and Python environment."""
    digest = hashlib.sha256("".join([*_FILES.values(), sys.prefix, sys.version]).encode()).hexdigest()[:12]
    return ROOT / "build" / f"test_control_msgs_{digest}"


def _build(folder: Path, prefix: Path) -> None:
    work = folder.with_name(f"{folder.name}.{os.getpid()}")
    for name, text in _FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")
    options = {
        "CMAKE_BUILD_TYPE": "Debug",  # builds in a third of the time
        "CMAKE_PREFIX_PATH": prefix,
        "CMAKE_INSTALL_PREFIX": folder / "install",
        "CMAKE_INSTALL_RPATH": f"{folder / 'install' / 'lib'};{prefix / 'lib'}",
        "PYTHON_INSTALL_DIR": "python",
        "Python3_EXECUTABLE": sys.executable,
        "BUILD_TESTING": "OFF",
    }
    variables = {"AMENT_PREFIX_PATH": str(prefix), "PATH": f"{prefix / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    defines = [f"-D{name}={value}" for name, value in options.items()]
    for command in (
        ["cmake", "-S", work, "-B", work / "build", "-G", "Ninja", *defines],
        ["cmake", "--build", work / "build", "--target", "install"],
    ):
        done = subprocess.run(
            list(map(str, command)), env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
            raise _CannotBuild(f"control_msgs cannot be built: {' '.join(map(str, command[:3]))}: {said[-1]}")
    (folder / "complete").touch()
    shutil.rmtree(work, ignore_errors=True)

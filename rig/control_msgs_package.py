"""The package control_msgs with the node's interfaces, built from `control_msgs_source/` if ROS lacks it.

The ROS 2 wheels have no control_msgs. The interfaces are those of the releases for Jazzy and Kilted (from 5.3 on), and
the package is built as this project's own interface package is.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("control_msgs_source")
BUILD = Path(__file__).resolve().parents[1] / "build"


class ControlMsgsAbsent(RuntimeError):
    """It is not installed, and cannot be built; the message says why."""


def built_control_msgs() -> dict[str, str]:
    """Environment variables with which processes find the package; none if ROS has it. Raises ControlMsgsAbsent."""
    if importlib.util.find_spec("control_msgs") is not None:
        return {}
    installed = _installed()
    defaults = {"AMENT_PREFIX_PATH": sys.prefix}
    found = {"PYTHONPATH": "python", "LD_LIBRARY_PATH": "lib", "AMENT_PREFIX_PATH": ""}
    return {
        name: os.pathsep.join(filter(None, [str(installed / folder), os.environ.get(name, defaults.get(name))]))
        for name, folder in found.items()
    }


def load_libraries(folder: Path) -> None:
    """Load the libraries of the package into this process, in which LD_LIBRARY_PATH has no effect any more."""
    for library in sorted(folder.glob("libcontrol_msgs__*.so")):
        with contextlib.suppress(OSError):  # libraries that nothing here uses may lack others
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


def _installed() -> Path:
    """Installation folder for each definition and Python environment; the first process that asks builds it."""
    prefix = Path(sys.prefix)
    if not (prefix / "share" / "rosidl_default_generators").is_dir():
        raise ControlMsgsAbsent("control_msgs is not installed, and there are no generators to build it with")
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.*")))
    digest = hashlib.sha256(f"{text}{prefix}{sys.version}".encode()).hexdigest()[:12]
    folder = BUILD / f"test_control_msgs_{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _build(folder, prefix)
    return folder / "install"


def _build(folder: Path, prefix: Path) -> None:
    """Build and install it below a folder; raises ControlMsgsAbsent if that fails."""
    options = {
        "CMAKE_BUILD_TYPE": "None",  # neither optimization nor debugging information: builds in a quarter of the time
        "CMAKE_PREFIX_PATH": prefix,
        "CMAKE_INSTALL_PREFIX": folder / "install",
        "CMAKE_INSTALL_RPATH": f"{folder / 'install' / 'lib'};{prefix / 'lib'}",
        "PYTHON_INSTALL_DIR": "python",
        "Python3_EXECUTABLE": sys.executable,
        "BUILD_TESTING": "OFF",
    }
    variables = {"AMENT_PREFIX_PATH": str(prefix), "PATH": f"{prefix / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    work = folder / "build"
    defines = [f"-D{name}={value}" for name, value in options.items()]
    for command in (
        ["cmake", "-S", SOURCE, "-B", work, "-G", "Ninja", *defines],
        ["cmake", "--build", work, "--target", "install"],
    ):
        done = subprocess.run(
            list(map(str, command)), env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
            raise ControlMsgsAbsent(f"control_msgs cannot be built: {' '.join(map(str, command[:3]))}: {said[-1]}")
    (folder / "complete").touch()
    shutil.rmtree(work)

"""The step of set-up that builds and installs the interface package."""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from pathlib import Path

import set_up_machine
from set_up_environment import ROOT, Environment, write_at_once

INTERFACES = ROOT / "traj_integrator_interfaces"


def interface_inputs(environment: Environment) -> list[Path]:
    """The files of the interface package."""
    return sorted(path for path in INTERFACES.rglob("*") if path.is_file())


def build_interfaces(environment: Environment) -> None:
    """Builds and installs the interface package into .venv, unless the sourced workspace has the same one."""
    remove_installed_interfaces(environment)
    if environment.use_ros and workspace_has_interfaces():
        return
    if not environment.use_ros:
        mend_python_exports(environment)
    build = ROOT / "build" / INTERFACES.name
    shutil.rmtree(build, ignore_errors=True)
    prefixes = str(environment.venv) + (f":{set_up_machine.sourced_ros()}" if environment.use_ros else "")
    variables = {"AMENT_PREFIX_PATH": prefixes}
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_PREFIX_PATH": prefixes.replace(":", ";"),
        "CMAKE_INSTALL_PREFIX": environment.venv,
        "PYTHON_INSTALL_DIR": environment.site_packages.relative_to(environment.venv),
        "Python3_EXECUTABLE": environment.python,
        "BUILD_TESTING": "OFF",
    }
    defines = [f"-D{name}={value}" for name, value in options.items()]
    environment.run("cmake", "-S", INTERFACES, "-B", build, "-G", "Ninja", *defines, **variables)
    environment.run("cmake", "--build", build, "--target", "install", **variables)


def remove_installed_interfaces(environment: Environment) -> None:
    """Removes an older build, so that none of its messages remain."""
    for pattern in ("include/{}", "share/{}", "lib/lib{}__*", "lib/python3*/site-packages/{}*"):
        for path in environment.venv.glob(pattern.format(INTERFACES.name)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def workspace_has_interfaces() -> bool:
    """Whether a sourced prefix has the interface package with exactly the definitions of this checkout."""
    for prefix in filter(None, set_up_machine.sourced_ros().split(os.pathsep)):
        share = Path(prefix) / "share" / INTERFACES.name
        if share.is_dir():
            ours = [path for folder in ("msg", "srv") for path in (INTERFACES / folder).iterdir()]
            theirs = [share / path.relative_to(INTERFACES) for path in ours]
            return all(b.is_file() and a.read_bytes() == b.read_bytes() for a, b in zip(ours, theirs, strict=True))
    return False


def mend_python_exports(environment: Environment) -> None:
    """Rewrites the include folders in the wheels' CMake files: they are those of the machine that built the wheels."""
    python_headers = sysconfig.get_path("include")
    numpy_headers = environment.site_packages / "numpy" / "_core" / "include"
    for file in environment.venv.glob("share/*/cmake/*_pyExport.cmake"):
        text = file.read_text(encoding="utf-8")
        mended = re.sub(r'[^";\s]*/numpy/_core/include', str(numpy_headers), text)
        mended = re.sub(r'[^";\s]*/include/python3\.\d+', python_headers, mended)
        write_at_once(file, mended)

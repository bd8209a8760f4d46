"""The steps of set-up that install third-party software: virtual environment, pinned packages, MuJoCo."""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from pathlib import Path

import set_up_machine
from set_up_environment import REQUIREMENTS, Environment, SetUpError, write_at_once

ENVIRONMENT = """# Source this to use the environment that set-up made, without those of a ROS 2 that is sourced.
[ -z "$AMENT_PREFIX_PATH" ] || unset PYTHONPATH LD_LIBRARY_PATH
unset _ROS_WHEELS_BOOTSTRAP_COMPLETE PYTHONHOME
export VIRTUAL_ENV="{venv}"
export PATH="$VIRTUAL_ENV/bin:$PATH"
export AMENT_PREFIX_PATH="$VIRTUAL_ENV"
"""


def venv_inputs(environment: Environment) -> list[str]:
    """Return the interpreter and the place, to which a virtual environment belongs."""
    return [set_up_machine.base_python(), sys.version, str(environment.venv), ENVIRONMENT]


def make_venv(environment: Environment) -> None:
    """Creates the environment, which is a prefix of ROS 2, too, and the file that a shell sources to use it."""
    environment.run(set_up_machine.base_python(), "-m", "venv", "--clear", environment.venv)
    write_at_once(environment.venv / ".set-up" / "python", set_up_machine.base_python())
    write_at_once(environment.venv / "environment.sh", ENVIRONMENT.format(venv=environment.venv))


def package_inputs(environment: Environment) -> list[Path]:
    """The pins."""
    names = ("python", f"ros-{environment.distro}", "transitive", f"transitive-{environment.distro}")
    return [REQUIREMENTS / f"{name}.txt" for name in names]


def install_packages(environment: Environment) -> None:
    """Installs the pinned packages."""
    for metadata in environment.site_packages.glob("*.dist-info"):
        # An interruption may have left packages incomplete: pip takes any metadata for a whole package.
        record = metadata / "RECORD"
        lines = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
        files = [line.rsplit(",", 2)[0].strip('"') for line in lines]
        if not files or not all((environment.site_packages / name).exists() for name in files):
            shutil.rmtree(metadata)
    python, pins, *constraints = package_inputs(environment)
    environment.pip_install("-r", python, "-r", pins, *(part for file in constraints for part in ("-c", file)))
    mend_python_exports(environment)


def mend_python_exports(environment: Environment) -> None:
    """Rewrites the include folders in the wheels' CMake files: they are those of the machine that built the wheels."""
    python_headers = sysconfig.get_path("include")
    numpy_headers = environment.site_packages / "numpy" / "_core" / "include"
    for file in environment.venv.glob("share/*/cmake/*_pyExport.cmake"):
        text = file.read_text(encoding="utf-8")
        mended = re.sub(r'[^";\s]*/numpy/_core/include', str(numpy_headers), text)
        mended = re.sub(r'[^";\s]*/include/python3\.\d+', python_headers, mended)
        write_at_once(file, mended)


def physics_inputs(environment: Environment) -> list[Path]:
    """The pins."""
    return [REQUIREMENTS / "physics.txt"]


def install_physics(environment: Environment) -> None:
    """Installs MuJoCo and models of arms beside the environment, without dependencies; they are optional."""
    folder = environment.venv / "physics"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        environment.pip_install("--no-deps", "--target", folder, "-r", REQUIREMENTS / "physics.txt")
    except SetUpError as error:
        print(f"set-up: without the physics rig: {error}", flush=True)

"""The steps of set-up that install third-party software: virtual environment, pinned packages, MuJoCo."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import sys
import sysconfig
from pathlib import Path

import set_up_machine
from set_up_environment import REQUIREMENTS, ROOT, Environment, SetUpError, write_at_once

# ---- virtual environment ----


def venv_inputs(environment: Environment) -> list[str]:
    """Return the interpreter and the place, to which a virtual environment belongs."""
    return [set_up_machine.base_python(), sys.version, str(environment.venv), str(environment.use_ros)]


def make_venv(environment: Environment) -> None:
    """Creates the environment; with a sourced ROS 2 it sees the system's packages, and a shell must see its contents.

    The lines of environment.sh are those that a shell sources to use it; it is a prefix of ROS 2, too.
    """
    options = ["--system-site-packages"] if environment.use_ros else []
    environment.run(set_up_machine.base_python(), "-m", "venv", "--clear", *options, environment.venv)
    write_at_once(environment.venv / ".set-up" / "python", set_up_machine.base_python())
    lines = [
        "# Source this to use the environment that set-up made.",
        "unset _ROS_WHEELS_BOOTSTRAP_COMPLETE PYTHONHOME",
        f'export VIRTUAL_ENV="{environment.venv}"',
        'export PATH="$VIRTUAL_ENV/bin:$PATH"',
        'export AMENT_PREFIX_PATH="$VIRTUAL_ENV${AMENT_PREFIX_PATH:+:$AMENT_PREFIX_PATH}"',
    ]
    if environment.use_ros:
        site = environment.site_packages.relative_to(environment.venv)
        lines += [
            'export LD_LIBRARY_PATH="$VIRTUAL_ENV/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"',
            f'export PYTHONPATH="$VIRTUAL_ENV/{site}${{PYTHONPATH:+:$PYTHONPATH}}"',
        ]
    write_at_once(environment.venv / "environment.sh", "\n".join(lines) + "\n")


# ---- packages ----


def package_inputs(environment: Environment) -> list[str | Path]:
    """The pins, and with a sourced ROS 2 the versions that the system already has."""
    if environment.use_ros:
        return [REQUIREMENTS / "python.txt", *ros_requirements(environment)]
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
    if environment.use_ros:
        requirements = ROOT / "build" / "requirements-beside-ros.txt"
        write_at_once(requirements, "\n".join(ros_requirements(environment)) + "\n")
        environment.pip_install("-r", requirements)
        return
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


def ros_requirements(environment: Environment) -> list[str]:
    """The pins of python.txt without packages that the Python of ROS 2 has: it was built and tested with those.

    Its compiled messages need its own numpy, so that numpy stays, and what depends on numpy's version is not pinned.
    """
    lines = []
    for line in (REQUIREMENTS / "python.txt").read_text(encoding="utf-8").splitlines():
        requirement = line.split("#")[0].strip()
        if not requirement:
            continue
        name, marker = re.split(r"[=<>; ]", requirement)[0], requirement.partition(";")[2]
        present = system_version(name, environment)
        if name == "torch" and present and tuple(map(int, re.findall(r"\d+", present)[:2])) < (2, 6):
            present = ""
        if name == "numpy" and present:
            lines.append(f"numpy=={present}")
        elif not present:
            lines.append(f"{name} ;{marker}" if name in ("matplotlib", "scipy") else requirement)
    return lines


def system_version(name: str, environment: Environment) -> str:
    """The version of a package that this Python has outside .venv; empty if it has none."""
    for distribution in importlib.metadata.distributions(name=name):
        if environment.venv not in Path(str(distribution.locate_file(""))).resolve().parents:
            return distribution.version
    return ""


# ---- what lies beside the environment ----


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

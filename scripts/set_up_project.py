"""The steps of set-up that build this repository's parts: C++ parts, this package, and packages of messages.

The C++ is compiled once for every Python and torch; changes of the Python sources take effect at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import set_up_machine
from set_up_environment import PACKAGE, REQUIREMENTS, ROOT, Environment, hashed, write_at_once

# ---- C++ parts ----

MODULES = {
    ROOT / "kernels" / "native": "_loops",
    ROOT / "kernels" / "retime": "_native",
    ROOT / "traj_integrator_ros" / "execution": "_native",
}
"""Folders with C++, and the modules that are made of it."""
FLAGS = ("CXX", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")
BUILD = ROOT / "build" / "native"


def native_inputs(environment: Environment) -> list[Path]:
    """The sources to compile, and the rules for them."""
    found = (path for folder in MODULES for path in folder.rglob("*") if path.suffix in (".cpp", ".h", ".inc"))
    return [ROOT / "setup.py", *sorted(found)]


def build_native(environment: Environment) -> None:
    """Compiles the modules, unless those of the present sources exist; after a failure there are none.

    Needs nothing but setuptools, and so need not wait for the packages.
    """
    stamp = BUILD / "built"
    is_unwanted = os.environ.get("TRAJ_INTEGRATOR_NATIVE") == "0"
    flags = (*(os.environ.get(name, "") for name in FLAGS), "0" * is_unwanted)
    fingerprint = hashed([*flags, *native_inputs(environment)])
    modules = [folder / f"{name}.abi3.so" for folder, name in MODULES.items()]
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == fingerprint and all(map(Path.is_file, modules)):
        return
    for folder, name in MODULES.items():
        for module in folder.glob(f"{name}.*so"):  # a module for this Python alone would be preferred
            module.unlink()
    tools = BUILD / "tools"
    environment.pip_install("--upgrade", "--target", tools, "-c", REQUIREMENTS / "python.txt", "setuptools")
    environment.run(environment.python, "setup.py", "build_ext", "--inplace", PYTHONPATH=str(tools))
    if all(map(Path.is_file, modules)):
        write_at_once(stamp, fingerprint)


# ---- this package ----


def project_inputs(environment: Environment) -> list[str | Path]:
    """The files that an editable installation copies or links instead of reading them from the checkout."""
    metadata = [ROOT / name for name in ("setup.py", "setup.cfg", "pyproject.toml", "package.xml")]
    return [*metadata, *(path.name for path in launch_files())]


def install_project(environment: Environment) -> None:
    """Installs this package so that changes of the sources take effect at once, and registers it in the ament index."""
    environment.pip_install("--no-build-isolation", "--no-deps", "-e", ROOT, TRAJ_INTEGRATOR_NATIVE="0")
    share, executables = environment.venv / "share", environment.venv / "lib" / PACKAGE
    links = {
        share / "ament_index" / "resource_index" / "packages" / PACKAGE: ROOT / "resource" / PACKAGE,
        **{share / PACKAGE / name: ROOT / name for name in ("package.xml", "config")},
        # One by one: ros2 launch does not look into a folder that is a link.
        **{share / PACKAGE / "launch" / path.name: path for path in launch_files()},
        # ros2 run and launch files look for executables there.
        **{executables / ros2_run_name(name): environment.venv / "bin" / name for name in console_scripts(environment)},
    }
    shutil.rmtree(executables, ignore_errors=True)  # files that have another name now
    launch = share / PACKAGE / "launch"
    launch.unlink() if launch.is_symlink() else shutil.rmtree(launch, ignore_errors=True)
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def launch_files() -> list[Path]:
    """The launch files of this package."""
    return sorted((ROOT / "launch").glob("*.launch.py"))


def console_scripts(environment: Environment) -> Iterator[str]:
    """The names of the executables of this package."""
    metadata = next(environment.site_packages.glob(f"{PACKAGE}-*.dist-info"))
    text = (metadata / "entry_points.txt").read_text(encoding="utf-8")
    return (line.split("=")[0].strip() for line in text.splitlines() if "=" in line)


def ros2_run_name(console_script: str) -> str:
    """Name for ros2 run of an executable that pip has installed with the prefix of the package (setup.py)."""
    name = console_script.removeprefix("traj_integrator_")
    return "integrator_node" if name == "node" else name


# ---- packages of messages ----

INTERFACES, CONTROL_MSGS = ROOT / "traj_integrator_interfaces", ROOT / "rig" / "control_msgs_source"
OPTIMIZED = {
    "CMAKE_BUILD_TYPE": "Release",
    # Messages are converted as fast as with -O3, and compile in a fifth less time.
    **{f"CMAKE_{language}_FLAGS_RELEASE": "-O1 -DNDEBUG" for language in ("C", "CXX")},
}


def interface_inputs(environment: Environment) -> list[Path]:
    """The files of the interface package."""
    return sorted(path for path in INTERFACES.rglob("*") if path.is_file())


def build_interfaces(environment: Environment) -> None:
    """Builds and installs the interface package into .venv, unless the sourced workspace has the same one.

    None of an older build's messages remain.
    """
    for pattern in ("include/{}", "share/{}", "lib/lib{}__*", "lib/python3*/site-packages/{}*"):
        for path in environment.venv.glob(pattern.format(INTERFACES.name)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if environment.use_ros and workspace_has_interfaces():
        return
    python = environment.site_packages.relative_to(environment.venv)
    compile_messages(environment, INTERFACES, environment.venv, PYTHON_INSTALL_DIR=python, **OPTIMIZED)


def control_msgs_inputs(environment: Environment) -> list[Path]:
    """The files of control_msgs."""
    return sorted(path for path in CONTROL_MSGS.rglob("*") if path.is_file())


def build_control_msgs(environment: Environment) -> None:
    """Builds the part of control_msgs that the node uses, which the wheels lack, for the tests and the rig.

    It lies beside the environment, since the node has to work without it, too.
    """
    folder = environment.venv / "control_msgs"
    shutil.rmtree(folder, ignore_errors=True)
    if environment.use_ros:
        return
    found = f"{folder / 'lib'};{environment.venv / 'lib'}"
    # Neither optimization nor debugging information: builds in a quarter of the time.
    options = {"CMAKE_BUILD_TYPE": "None", "CMAKE_INSTALL_RPATH": found, "PYTHON_INSTALL_DIR": "python"}
    compile_messages(environment, CONTROL_MSGS, folder, **options)


def compile_messages(environment: Environment, sources: Path, into: Path, **options: object) -> None:
    """Builds a package of messages and installs it into a prefix."""
    build = ROOT / "build" / f"{sources.name}_{environment.distro}"
    prefixes = str(environment.venv) + (f":{set_up_machine.sourced_ros()}" if environment.use_ros else "")
    shutil.rmtree(build, ignore_errors=True)
    options |= {
        "CMAKE_PREFIX_PATH": prefixes.replace(":", ";"),
        "CMAKE_INSTALL_PREFIX": into,
        "Python3_EXECUTABLE": environment.python,
        "BUILD_TESTING": "OFF",
    }
    defines = [f"-D{name}={value}" for name, value in options.items()]
    variables = {"AMENT_PREFIX_PATH": prefixes}
    environment.run("cmake", "-S", sources, "-B", build, "-G", "Ninja", *defines, **variables)
    environment.run("cmake", "--build", build, "--target", "install", **variables)


def workspace_has_interfaces() -> bool:
    """Return whether a sourced prefix has the interface package with exactly the definitions of this checkout."""
    for prefix in filter(None, set_up_machine.sourced_ros().split(os.pathsep)):
        share = Path(prefix) / "share" / INTERFACES.name
        if share.is_dir():
            ours = [path for folder in ("msg", "srv") for path in (INTERFACES / folder).iterdir()]
            theirs = [share / path.relative_to(INTERFACES) for path in ours]
            return all(b.is_file() and a.read_bytes() == b.read_bytes() for a, b in zip(ours, theirs, strict=True))
    return False

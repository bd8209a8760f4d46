"""The steps of set-up: virtual environment, pinned packages, C++ parts, this package, and packages of messages.

The C++ is compiled once for every Python and torch; changes of the Python sources take effect at once.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import set_up_machine

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "set-up"
REQUIREMENTS = ROOT / "requirements"
PACKAGE = "traj_integrator_ros"


class SetUpError(Exception):
    """A problem that the user can fix; the message says what and how, in one line."""


@dataclass(frozen=True)
class Environment:
    """Place of set-up, and the source of rclpy: a sourced ROS 2 or wheels."""

    venv: Path
    distro: str  # distribution whose wheels are used if no ROS 2 is sourced
    use_ros: bool
    log: Path = LOGS  # log of the step at work

    @property
    def python(self) -> Path:
        """The interpreter of .venv."""
        return self.venv / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """Folder into which pip and the interface package install modules."""
        return self.venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def run(self, *command: object, **variables: str) -> None:
        """Runs a command with its output in the log; raises SetUpError with the last line that has an error."""
        path = os.environ.get("PATH", "")
        # A sourced ROS 2 is built with its own cmake, the wheels with the pinned one.
        path = f"{path}:{self.venv}/bin" if self.use_ros else f"{self.venv}/bin:{path}"
        environment = {**os.environ, "PATH": path, **variables}
        # Variables that the Python of another environment passes to its child processes.
        environment.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
        libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        ours = str(ROOT / ".venv")
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(path for path in libraries if not path.startswith(ours))
        arguments = list(map(str, command))
        with self.log.open("a+", encoding="utf-8", errors="replace") as log:
            log.write(f"$ {' '.join(arguments)}\n")
            log.flush()
            start = log.tell()
            pipes = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            code = subprocess.run(arguments, cwd=ROOT, env=environment, check=False, **pipes).returncode
            log.seek(start)
            said = log.read()
        if code != 0:
            lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no output"]
            errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
            raise SetUpError(f"{(errors or lines)[-1]} (all of it in {self.log.relative_to(ROOT)})")

    def pip_install(self, *arguments: object, **variables: str) -> None:
        """Installs with pip; modules are compiled to bytecode when they are imported rather than all of them now."""
        quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar=off", "--no-compile")
        self.run(self.python, "-m", "pip", "install", *quiet, *arguments, **variables)


def hashed(inputs: Iterable[str | Path]) -> str:
    """A hash over strings, and over names and contents of files; the same for the same files of another checkout."""
    result = hashlib.sha256()
    for entry in inputs:
        name, content = (os.path.relpath(entry, ROOT), entry.read_bytes()) if isinstance(entry, Path) else (entry, b"")
        for part in (name.encode(), content):
            result.update(len(part).to_bytes(8, "little") + part)
    return result.hexdigest()


def write_at_once(path: Path, text: str) -> None:
    """Writes a file so that it exists completely or not at all, whenever this process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


MODULES = {
    ROOT / "kernels" / "native": "_loops",
    ROOT / "kernels" / "retime": "_native",
    ROOT / "traj_integrator_ros" / "execution": "_native",
}
"""Folders with C++, and the modules that are made of it."""
FLAGS = ("CXX", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")
BUILD = ROOT / "build" / "native"
LAUNCH_FILES = sorted((ROOT / "launch").glob("*.launch.py"))
INTERFACES, CONTROL_MSGS = ROOT / "traj_integrator_interfaces", ROOT / "rig" / "control_msgs_source"
OPTIMIZED = {
    "CMAKE_BUILD_TYPE": "Release",
    # Messages are converted as fast as with -O3, and compile in a fifth less time.
    **{f"CMAKE_{language}_FLAGS_RELEASE": "-O1 -DNDEBUG" for language in ("C", "CXX")},
}


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


def install_physics(environment: Environment) -> None:
    """Installs MuJoCo and models of arms beside the environment, without dependencies; they are optional."""
    folder = environment.venv / "physics"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        environment.pip_install("--no-deps", "--target", folder, "-r", REQUIREMENTS / "physics.txt")
    except SetUpError as error:
        print(f"set-up: without the physics rig: {error}", flush=True)


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


def install_project(environment: Environment) -> None:
    """Installs this package so that changes of the sources take effect at once, and registers it in the ament index."""
    environment.pip_install("--no-build-isolation", "--no-deps", "-e", ROOT, TRAJ_INTEGRATOR_NATIVE="0")
    share, executables = environment.venv / "share", environment.venv / "lib" / PACKAGE
    bin_ = environment.venv / "bin"
    (entry_points,) = environment.site_packages.glob(f"{PACKAGE}-*.dist-info/entry_points.txt")
    scripts = re.findall(r"^traj_integrator_(\w+) *=", entry_points.read_text(encoding="utf-8"), re.MULTILINE)
    links = {
        share / "ament_index" / "resource_index" / "packages" / PACKAGE: ROOT / "resource" / PACKAGE,
        **{share / PACKAGE / name: ROOT / name for name in ("package.xml", "config")},
        # One by one: ros2 launch does not look into a folder that is a link.
        **{share / PACKAGE / "launch" / path.name: path for path in LAUNCH_FILES},
        # ros2 run and launch files look for executables there, without the prefix of what pip installs.
        **{
            executables / ("integrator_node" if name == "node" else name): bin_ / f"traj_integrator_{name}"
            for name in scripts
        },
    }
    shutil.rmtree(executables, ignore_errors=True)  # files that have another name now
    launch = share / PACKAGE / "launch"
    launch.unlink() if launch.is_symlink() else shutil.rmtree(launch, ignore_errors=True)
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


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

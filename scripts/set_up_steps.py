"""The steps of set-up: virtual environment, packages, interface package, this package.

Each step leaves a stamp in .venv when it is done, which holds a hash of everything that the step depends on. Steps
with the right stamp are skipped: an interrupted set-up goes on where it was, one with nothing to do takes no time.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import set_up
from borrow import borrow_packages, is_complete
from files import hashed, write_at_once
from native_build import NativeBuild, native_sources

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "build" / "set-up.log"
REQUIREMENTS = ROOT / "requirements"
INTERFACES = ROOT / "traj_integrator_interfaces"
PACKAGE = "traj_integrator_ros"


class SetUpError(Exception):
    """Something that the user can mend; the message says what and how, in one line."""


@dataclass(frozen=True)
class Environment:
    """Where to set up, and whether rclpy comes from a sourced ROS 2 or from wheels."""

    venv: Path
    distro: str  # whose wheels, where no ROS 2 is sourced
    use_ros: bool
    lock: int  # file descriptor; children inherit it, so that an orphan of a killed set-up holds it until it ends

    @property
    def python(self) -> Path:
        """The interpreter of .venv."""
        return self.venv / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """Where pip and the interface package install modules."""
        return self.venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def run(self, *command: object, **variables: str) -> None:
        """Runs a command with its output in the log; raises SetUpError with the most telling line."""
        path = os.environ.get("PATH", "")
        # A sourced ROS 2 is built with its own cmake, the wheels with the pinned one.
        path = f"{path}:{self.venv}/bin" if self.use_ros else f"{self.venv}/bin:{path}"
        environment = {**os.environ, "PATH": path, **variables}
        # What the Python of another environment leaves to those that it starts.
        environment.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
        libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(path for path in libraries if not is_made_here(path))
        with LOG.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(map(str, command))}\n")
            log.flush()
            start = os.fstat(log.fileno()).st_size
            done = subprocess.run(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=(self.lock,),
                check=False,
            )
        if done.returncode != 0:
            raise SetUpError(f"{most_telling_line(start)} (all of it in {LOG.relative_to(ROOT)})")


@dataclass(frozen=True)
class Step:
    """One step of set-up: what it is called, what it depends on, and how it is done."""

    name: str
    inputs: Callable[[Environment], Iterable[str | Path]]
    do: Callable[[Environment], None]


def main(venv: str, distro: str, use_ros: bool) -> int:
    """Does the steps that are not done yet; returns the exit status."""
    with open(__file__, "rb") as lock:
        environment = Environment(Path(venv), distro, use_ros, lock.fileno())
        try:
            take_turn(environment.lock)
            set_up_all(environment)
        except SetUpError as error:
            print(f"set-up: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("\nset-up: interrupted; the next one goes on from here", file=sys.stderr)
            return 130
    return 0


def take_turn(lock: int) -> None:
    """Waits until no other set-up of this checkout is at work."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("set-up: waits for another one of this checkout to end", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def set_up_all(environment: Environment) -> None:
    """Does the steps whose stamps are missing or out of date, in order."""
    stamps = environment.venv / ".set-up"
    fingerprint = ""
    pending = []
    for step in STEPS:
        # Each depends on the ones before it: after a step that is done again, all others are.
        fingerprint = hashed([fingerprint, step.name, *step.inputs(environment)])
        stamp = stamps / step.name.replace(" ", "-")
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != fingerprint:
            pending.append((step, stamp, fingerprint))
    if not pending:
        print("set-up: up to date", flush=True)
        return
    start = time.monotonic()
    announce(environment, [step for step, _, _ in pending])
    for step, stamp, fingerprint in pending:
        print(f"  {STEPS.index(step) + 1}/{len(STEPS)} {step.name} ...", end=" ", flush=True)
        step_start = time.monotonic()
        step.do(environment)
        write_at_once(stamp, fingerprint)
        print(f"{time.monotonic() - step_start:.0f} s", flush=True)
    print(f"set-up: done in {time.monotonic() - start:.0f} s", flush=True)


def announce(environment: Environment, steps: list[Step]) -> None:
    """Says what is going to happen; raises SetUpError, before anything takes minutes, if no compiler is there."""
    if any(step.do is build_interfaces for step in steps) and (missing := set_up.missing_build_tools()):
        raise SetUpError(missing)
    LOG.parent.mkdir(exist_ok=True)
    LOG.write_text("", encoding="utf-8")
    ros = (
        f"the sourced ROS 2 {os.environ.get('ROS_DISTRO', '')}".rstrip()
        if environment.use_ros
        else f"ROS 2 wheels ({environment.distro})"
    )
    version = ".".join(map(str, sys.version_info[:3]))
    minutes = ", a few minutes" if any(step.do is install_packages for step in steps) else ""
    print(
        f"set-up: {environment.venv.name} with Python {version} and {ros}{minutes}; log in {LOG.relative_to(ROOT)}",
        flush=True,
    )


# ---- step 1: virtual environment ----


def venv_inputs(environment: Environment) -> list[str]:
    """A virtual environment belongs to one interpreter and one place."""
    return [set_up.base_python(), sys.version, str(environment.venv), str(environment.use_ros)]


def make_venv(environment: Environment) -> None:
    """Makes it afresh; on a sourced ROS 2 it sees the system's packages."""
    options = ["--system-site-packages"] if environment.use_ros else []
    environment.run(set_up.base_python(), "-m", "venv", "--clear", *options, environment.venv)
    write_at_once(environment.venv / ".set-up" / "python", set_up.base_python())
    write_at_once(environment.venv / "environment.sh", shell_environment(environment))


def shell_environment(environment: Environment) -> str:
    """The lines that a shell sources to use .venv: it is a prefix of ROS 2, too."""
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
    return "\n".join(lines) + "\n"


# ---- step 2: packages ----


def package_inputs(environment: Environment) -> list[str | Path]:
    """The pins, and on a sourced ROS 2 what the system has already."""
    if not environment.use_ros:
        return [REQUIREMENTS / name for name in (*wheel_requirements(environment), *wheel_constraints(environment))]
    return [REQUIREMENTS / "python.txt", *ros_requirements(environment)]


def install_packages(environment: Environment) -> None:
    """Installs the pinned packages."""
    drop_half_installed(environment.site_packages)
    pip = pip_install(environment)
    if not environment.use_ros:
        lender = ROOT / ".venv"
        if lender != environment.venv and is_complete(lender, set_up.base_python()):
            site_packages = environment.site_packages.relative_to(environment.venv)
            pins = (REQUIREMENTS / "python.txt", REQUIREMENTS / "transitive.txt")
            borrow_packages(lender, environment.venv, site_packages, pins)
        files = [part for name in wheel_requirements(environment) for part in ("-r", REQUIREMENTS / name)]
        files += [part for name in wheel_constraints(environment) for part in ("-c", REQUIREMENTS / name)]
        environment.run(*pip, *files)
        return
    requirements = ROOT / "build" / "requirements-beside-ros.txt"
    write_at_once(requirements, "\n".join(ros_requirements(environment)) + "\n")
    environment.run(*pip, "-r", requirements)


def wheel_requirements(environment: Environment) -> tuple[str, ...]:
    """The pins of what is installed beside the wheels of a distribution, and of these."""
    return "python.txt", f"ros-{environment.distro}.txt"


def wheel_constraints(environment: Environment) -> tuple[str, ...]:
    """The pins of what those pull in."""
    return "transitive.txt", f"transitive-{environment.distro}.txt"


def ros_requirements(environment: Environment) -> list[str]:
    """The pins of python.txt less what the Python of ROS 2 has already: it was built and tested with that.

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


def drop_half_installed(site_packages: Path) -> None:
    """Makes pip install again what an interruption left in pieces: it takes any metadata for a whole package."""
    for metadata in site_packages.glob("*.dist-info"):
        record = metadata / "RECORD"
        files = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
        names = (line.rsplit(",", 2)[0].strip('"') for line in files)
        if not files or not all((site_packages / name).exists() for name in names):
            shutil.rmtree(metadata)


# ---- step 3: interface package ----


def interface_inputs(environment: Environment) -> list[Path]:
    """Everything that the interface package is made of."""
    return sorted(path for path in INTERFACES.rglob("*") if path.is_file())


def build_interfaces(environment: Environment) -> None:
    """Builds and installs the interface package into .venv, unless the sourced workspace has just that one."""
    remove_installed_interfaces(environment)
    if environment.use_ros and workspace_has_interfaces():
        return
    if not environment.use_ros:
        mend_python_exports(environment)
    build = ROOT / "build" / INTERFACES.name
    shutil.rmtree(build, ignore_errors=True)
    prefixes = str(environment.venv) + (f":{set_up.sourced_ros()}" if environment.use_ros else "")
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
    """Removes an older build, so that no message of it stays."""
    for pattern in ("include/{}", "share/{}", "lib/lib{}__*", "lib/python3*/site-packages/{}*"):
        for path in environment.venv.glob(pattern.format(INTERFACES.name)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def workspace_has_interfaces() -> bool:
    """Whether a sourced prefix has the interface package with the very definitions of this checkout."""
    for prefix in filter(None, set_up.sourced_ros().split(os.pathsep)):
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


# ---- step 4: this package ----


def project_inputs(environment: Environment) -> list[str | Path]:
    """What an editable installation copies, compiles or links from the checkout instead of looking there."""
    metadata = [ROOT / name for name in ("setup.py", "setup.cfg", "pyproject.toml", "package.xml")]
    return [*metadata, *native_sources(), *(path.name for path in launch_files())]


def install_project(environment: Environment) -> None:
    """Installs this package so that changes of the sources count at once, and enters it into the ament index."""
    install = (*pip_install(environment), "--no-build-isolation", "--no-deps", "-e", ROOT)
    native = NativeBuild.of(torch_version(environment))
    if native.is_up_to_date:
        environment.run(*install, TRAJ_INTEGRATOR_NATIVE="0")
    else:
        with native.renewed():
            environment.run(*install)
    share, executables = environment.venv / "share", environment.venv / "lib" / PACKAGE
    links = {
        share / "ament_index" / "resource_index" / "packages" / PACKAGE: ROOT / "resource" / PACKAGE,
        **{share / PACKAGE / name: ROOT / name for name in ("package.xml", "config")},
        # One by one: ros2 launch does not look into a folder that is a link.
        **{share / PACKAGE / "launch" / path.name: path for path in launch_files()},
        # ros2 run and launch files look for executables there.
        **{executables / name: environment.venv / "bin" / name for name in console_scripts(environment)},
    }
    launch = share / PACKAGE / "launch"
    launch.unlink() if launch.is_symlink() else shutil.rmtree(launch, ignore_errors=True)
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def torch_version(environment: Environment) -> str:
    """The torch that the C++ kernels are built against: that of .venv, else the system's."""
    own = sorted(path.name for path in environment.site_packages.glob("torch-*.dist-info"))
    return own[0] if own else system_version("torch", environment)


def launch_files() -> list[Path]:
    """The launch files of this package."""
    return sorted((ROOT / "launch").glob("*.launch.py"))


def console_scripts(environment: Environment) -> Iterator[str]:
    """The names of the executables of this package."""
    metadata = next(environment.site_packages.glob(f"{PACKAGE}-*.dist-info"))
    text = (metadata / "entry_points.txt").read_text(encoding="utf-8")
    return (line.split("=")[0].strip() for line in text.splitlines() if "=" in line)


# ---- step 5: colcon ----


def colcon_inputs(environment: Environment) -> list[Path]:
    """The pins."""
    return [REQUIREMENTS / "colcon.txt"]


def install_colcon(environment: Environment) -> None:
    """Installs colcon beside the environment, not into it: it wants an older setuptools."""
    folder = environment.venv / "colcon"
    shutil.rmtree(folder, ignore_errors=True)
    environment.run(*pip_install(environment), "--no-deps", "--target", folder, "-r", REQUIREMENTS / "colcon.txt")


# ---- helpers ----


def is_made_here(path: str) -> bool:
    """Whether a path is in an environment of this checkout."""
    return path.startswith(str(ROOT / ".venv"))


STEPS = (
    Step("virtual environment", venv_inputs, make_venv),
    Step("packages", package_inputs, install_packages),
    Step("interface package", interface_inputs, build_interfaces),
    Step("this package", project_inputs, install_project),
    Step("colcon", colcon_inputs, install_colcon),
)


def pip_install(environment: Environment) -> tuple[object, ...]:
    """The start of a command that installs with pip."""
    quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar=off")
    return (environment.python, "-m", "pip", "install", *quiet)


def most_telling_line(start: int) -> str:
    """The last line with an error since a byte of the log, else the last line."""
    text = LOG.read_bytes()[start:].decode("utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line] or ["no output"]
    errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
    return (errors or lines)[-1]

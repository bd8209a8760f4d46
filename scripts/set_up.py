"""Makes .venv, the development environment of this repository: `python3 scripts/set_up.py` or `make setup`.

`--wheels jazzy` (`make setup ROS_DISTRO=jazzy`) makes .venv-jazzy instead, with the wheels of that distribution.

Finds a suitable Python, says in one line what is missing and how to get it, and lets that Python run the steps in
set_up_steps.py. Runs on Python 3.6 and later, so that an old one gets a message and not a traceback: no annotations.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig

OLDEST, NEWEST = (3, 10), (3, 14)  # those that the pinned ROS 2 wheels exist for
DISTROS = ("kilted", "jazzy")  # those of requirements/ros-*.txt; the first one is the default
DISTRO = sys.argv[sys.argv.index("--wheels") + 1] if "--wheels" in sys.argv[:-1] else DISTROS[0]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    """Runs the steps, or the first suitable Python on them; returns the exit status."""
    missing = what_is_missing()
    if "--check" in sys.argv:
        return 1 if missing else 0
    if "--python-is-given" not in sys.argv:
        # The Python of an existing .venv is preferred to others, so that the choice does not depend on PATH.
        candidates = [python_of_venv()] + (other_pythons() if missing else [])
        for python in candidates:
            if python and python != base_python() and serves(python):
                os.execv(python, [python, *sys.argv, "--python-is-given"])
    if missing:
        sys.stderr.write(f"set-up: {missing}\n")
        return 1
    import set_up_steps

    return set_up_steps.main(environment_of(DISTRO), DISTRO, use_ros=bool(sourced_ros()))


def environment_of(distro):
    """The environment with the wheels of a distribution; with a sourced ROS 2, the first one's."""
    return os.path.join(ROOT, ".venv" if distro == DISTROS[0] else ".venv-" + distro)


def what_is_missing():
    """What this Python lacks, and how to get it, in one line; empty if nothing is missing."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    this = f"{sys.executable} (Python {version})"
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        wanted = f"Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
        return f"{this} is not supported, {wanted} is: install one, or name it: make PYTHON=/path/to/python3"
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        return f"{this} has no venv module: sudo apt install python{version}-venv, or name another: make PYTHON=..."
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        return (
            f"{this} has no headers (Python.h): sudo apt install python{version}-dev (Fedora: python3-devel), "
            "or name another: make PYTHON=..."
        )
    if DISTRO not in DISTROS:
        return f"no wheels of ROS 2 {DISTRO} are pinned here: ROS_DISTRO is one of {', '.join(DISTROS)}"
    ros = sourced_ros()
    if ros and "--wheels" in sys.argv:
        return f"ROS 2 is sourced ({ros}) and is used as it is: ask for the wheels of {DISTRO} where none is sourced"
    if ros and not imports_rclpy():
        return (
            f"ROS 2 is sourced ({ros}), but {this} cannot import its rclpy: name the Python that it was built for, "
            "e.g. make PYTHON=/usr/bin/python3, or use a shell in which no ROS 2 is sourced"
        )
    machine = os.uname()
    if not ros and (machine.sysname, machine.machine) != ("Linux", "x86_64"):
        return (
            f"the ROS 2 wheels are for Linux x86_64, this is {machine.sysname} {machine.machine}: "
            "install ROS 2 (https://docs.ros.org) and source its setup file first"
        )
    return ""


def missing_build_tools():
    """The compilers that are missing, and how to get them, in one line; empty if none is."""
    for variable, names, language in (("CC", ("cc", "gcc", "clang"), "C"), ("CXX", ("c++", "g++", "clang++"), "C++")):
        names = os.environ[variable].split()[:1] if os.environ.get(variable) else names
        if not any(shutil.which(name) for name in names):
            return f"no {language} compiler ({', '.join(names)}): sudo apt install g++ (Fedora: gcc-c++)"
    return ""


def sourced_ros():
    """The prefixes of the ROS 2 installation that this shell has sourced; empty if none."""
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    made_here = os.path.join(ROOT, ".venv")  # and .venv-<distro>
    return os.pathsep.join(prefix for prefix in prefixes if prefix and not prefix.startswith(made_here))


def imports_rclpy():
    """Whether there is an rclpy compiled for this Python (PYTHONPATH may name that of another one)."""
    spec = importlib.util.find_spec("rclpy")
    if spec is None or not spec.origin:
        return False
    extension = "_rclpy_pybind11" + sysconfig.get_config_var("EXT_SUFFIX")
    return os.path.exists(os.path.join(os.path.dirname(spec.origin), extension))


def base_python():
    """The interpreter that runs this, or the one behind the virtual environment that is active."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def python_of_venv():
    """The interpreter that this environment was made with, or else the first one, whose packages serve this, too."""
    for distro in (DISTRO, DISTROS[0]):
        try:
            with open(os.path.join(environment_of(distro), ".set-up", "python")) as file:
                return file.read()
        except OSError:
            continue
    return ""


def serves(python):
    """Whether another interpreter has everything that is needed."""
    command = [python, *sys.argv, "--check"]
    try:
        return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:  # it no longer exists
        return False


def other_pythons():
    """Other interpreters on this machine, newest first."""
    names = [f"python{OLDEST[0]}.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    found = [shutil.which(name) for name in [*names, "/usr/bin/python3"]]
    return [path for path in found if path]


if __name__ == "__main__":
    sys.exit(main())

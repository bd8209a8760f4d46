"""Findings of set-up on this machine: a Python, a sourced ROS 2, compilers; and where environments go.

Runs on Python 3.6 and later, like set_up.py, which asks it: no annotations.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig

OLDEST, NEWEST = (3, 10), (3, 14)  # Python versions for which the pinned ROS 2 wheels exist
DISTROS = ("kilted", "jazzy")  # as in requirements/ros-*.txt; the first one is the default
DISTRO = sys.argv[sys.argv.index("--wheels") + 1] if "--wheels" in sys.argv[:-1] else DISTROS[0]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAME_ANOTHER = "or name another: make PYTHON=..."


def environment_of(distro):
    """The environment with the wheels of a distribution; a sourced ROS 2 shares the first one's."""
    return os.path.join(ROOT, ".venv" if distro == DISTROS[0] else ".venv-" + distro)


def what_is_missing():
    """Parts that this Python lacks, and how to get them, in one line; empty if nothing is missing."""
    version, ros, machine = f"{sys.version_info[0]}.{sys.version_info[1]}", sourced_ros(), os.uname()
    this = f"{sys.executable} (Python {version})"
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        wanted = f"Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
        return f"{this} is not supported, {wanted} is: install one, or name it: make PYTHON=/path/to/python3"
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        return f"{this} has no venv module: sudo apt install python{version}-venv, {NAME_ANOTHER}"
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        packages = f"sudo apt install python{version}-dev (Fedora: python3-devel)"
        return f"{this} has no headers (Python.h): {packages}, {NAME_ANOTHER}"
    if DISTRO not in DISTROS:
        return f"no wheels of ROS 2 {DISTRO} are pinned here: ROS_DISTRO is one of {', '.join(DISTROS)}"
    if ros and "--wheels" in sys.argv:
        return f"ROS 2 is sourced ({ros}) and is used as it is: ask for the wheels of {DISTRO} where none is sourced"
    if ros and not imports_rclpy():
        return (
            f"ROS 2 is sourced ({ros}), but {this} cannot import its rclpy: name the Python that it was built for, "
            "e.g. make PYTHON=/usr/bin/python3, or use a shell in which no ROS 2 is sourced"
        )
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


def missing_generators():
    """Parts that a sourced ROS 2 lacks to build messages, and how to get them, in one line; empty if nothing."""
    ros, distro = sourced_ros(), os.environ.get("ROS_DISTRO", "<distro>")
    shares = [os.path.join(prefix, "share") for prefix in ros.split(os.pathsep)]
    needed = ("ament_cmake", "rosidl_default_generators")
    missing = [name for name in needed if not any(os.path.isdir(os.path.join(at, name, "cmake")) for at in shares)]
    packages = " ".join(f"ros-{distro}-{name.replace('_', '-')}" for name in missing)
    return missing and (
        f"ROS 2 is sourced ({ros}), but has no {' and no '.join(missing)} to build our messages with: sudo apt install "
        f"{packages}, or use a shell in which no ROS 2 is sourced"
    )


def sourced_ros():
    """The prefixes of the ROS 2 installation that this shell has sourced; empty if none."""
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    made_here = os.path.join(ROOT, ".venv")  # and .venv-<distro>
    return os.pathsep.join(prefix for prefix in prefixes if prefix and not prefix.startswith(made_here))


def imports_rclpy():
    """Return whether there is an rclpy compiled for this Python (PYTHONPATH may name another Python's)."""
    spec = importlib.util.find_spec("rclpy")
    if spec is None or not spec.origin:
        return False
    # Its extension is _rclpy_pybind11 up to Lyrical and _rclpy_nanobind in Rolling.
    modules = (name for name in os.listdir(os.path.dirname(spec.origin)) if name.startswith("_rclpy_"))
    return any(name.endswith((sysconfig.get_config_var("EXT_SUFFIX"), ".abi3.so")) for name in modules)


def base_python():
    """The interpreter that runs this, or the one behind the virtual environment that is active."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)

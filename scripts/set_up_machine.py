"""Findings of set-up on this machine: a Python, its headers, compilers; and where environments go.

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


def environment_of(distro):
    """The environment with the wheels of a distribution."""
    return os.path.join(ROOT, ".venv" if distro == DISTROS[0] else ".venv-" + distro)


def what_is_missing():
    """Parts that this Python or this machine lacks, and how to get them, in one line; empty if nothing is missing."""
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
    machine = os.uname()
    if (machine.sysname, machine.machine) != ("Linux", "x86_64"):
        return (
            f"the ROS 2 wheels are for Linux x86_64, this is {machine.sysname} {machine.machine}: "
            "install ROS 2 (https://docs.ros.org), and build this in a workspace, as README.md says"
        )
    return ""


def missing_build_tools():
    """The compilers that are missing, and how to get them, in one line; empty if none is."""
    for variable, names, language in (("CC", ("cc", "gcc", "clang"), "C"), ("CXX", ("c++", "g++", "clang++"), "C++")):
        names = os.environ[variable].split()[:1] if os.environ.get(variable) else names
        if not any(shutil.which(name) for name in names):
            return f"no {language} compiler ({', '.join(names)}): sudo apt install g++ (Fedora: gcc-c++)"
    return ""


def base_python():
    """The interpreter that runs this, or the one behind the virtual environment that is active."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)

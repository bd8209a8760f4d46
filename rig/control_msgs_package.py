"""The package control_msgs, which the ROS 2 wheels lack: set-up builds `control_msgs_source/` beside the environment.

Its interfaces are those of the releases for Jazzy and Kilted (from 5.3 on).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
from pathlib import Path

FOLDER = Path(sys.prefix) / "control_msgs"


class ControlMsgsAbsent(RuntimeError):
    """It is not installed, and set-up has not built it."""


def built_control_msgs() -> dict[str, str]:
    """Environment variables with which processes find the package; none if ROS has it. Raises ControlMsgsAbsent."""
    if importlib.util.find_spec("control_msgs") is not None:
        return {}
    if not FOLDER.is_dir():
        raise ControlMsgsAbsent("control_msgs is not installed: make setup builds it")
    defaults = {"AMENT_PREFIX_PATH": sys.prefix}
    found = {"PYTHONPATH": "python", "LD_LIBRARY_PATH": "lib", "AMENT_PREFIX_PATH": ""}
    return {
        name: os.pathsep.join(filter(None, [str(FOLDER / folder), os.environ.get(name, defaults.get(name))]))
        for name, folder in found.items()
    }


def use_control_msgs() -> bool:
    """Let this process and those that it starts find the package; return False if ROS has it. Raises as above."""
    found = built_control_msgs()
    os.environ.update(found)
    if found:  # the dynamic linker and Python have read their variables when this process started
        sys.path.insert(0, str(FOLDER / "python"))
        for library in sorted((FOLDER / "lib").glob("libcontrol_msgs__*.so")):
            with contextlib.suppress(OSError):  # libraries that nothing here uses may lack others
                ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    return bool(found)

"""Differences between the Fast DDS versions of the ROS 2 distributions. Knows no ROS."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROFILE_VARIABLES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
"""The variables that name a transport profile to Fast DDS 3 (Kilted and later) and to Fast DDS 2 (Humble, Jazzy)."""
_LIBRARIES = ("libfastdds.so*", "libfastrtps.so*")


def profile_variable() -> str:
    """The variable that names a transport profile to the installed Fast DDS, or if there is none, to Fast DDS 3."""
    return installed_profile_variable() or PROFILE_VARIABLES[0]


def installed_profile_variable() -> str | None:
    """The same; None if there is no Fast DDS.

    Fast DDS 3 renamed the variable, and its library: the first prefix of the environment that holds either library
    decides. Setting both variables would cause a warning about the old name.
    """
    for prefix in [*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)), sys.prefix]:
        for variable, library in zip(PROFILE_VARIABLES, _LIBRARIES, strict=True):
            # Debian's multiarch folders hold the libraries of some installations.
            if any(Path(prefix).glob(f"lib/{library}")) or any(Path(prefix).glob(f"lib/*-linux-gnu/{library}")):
                return variable
    return None

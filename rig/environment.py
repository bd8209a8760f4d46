"""Environment of the rig's processes: messages, a clock that can be stepped, and a ROS domain."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .control_msgs_package import ControlMsgsAbsent, built_control_msgs

CACHE = Path(__file__).resolve().parents[1] / "build" / "rig"
CLOCK_SHIM = CACHE / "clock_shim.so"
_READY = "RIG_READY"


def is_ready() -> bool:
    """Return whether this process has its environment."""
    return os.environ.get(_READY) == "1"


def environment(reports: bool) -> dict[str, str]:
    """Environment variables of a rig's process; builds the libraries that they name."""
    CACHE.mkdir(parents=True, exist_ok=True)
    found = {}
    if reports:
        try:
            found = built_control_msgs()
        except ControlMsgsAbsent as absent:
            print(f"without controller_state: {absent}")
            reports = False
    if not CLOCK_SHIM.exists():
        source = Path(__file__).with_name("clock_shim.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", CLOCK_SHIM, source, "-ldl"], check=True)
    threads = {name: os.environ.get(name, "1") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **found, **threads, "RIG_REPORTS": str(int(reports)), _READY: "1"}

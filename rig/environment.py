"""Environment of the rig's processes: messages of the controller, and a clock that can be stepped."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .control_msgs_package import ControlMsgsAbsent, use_control_msgs

CACHE = Path(__file__).resolve().parents[1] / "build" / "rig"
CLOCK_SHIM = CACHE / "clock_shim.so"


def prepare(reports: bool) -> None:
    """Prepare this process and those that it starts, before numpy and rclpy are imported; builds what they need."""
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        if reports:
            use_control_msgs()
    except ControlMsgsAbsent as absent:
        print(f"without controller_state: {absent}")
        reports = False
    if not CLOCK_SHIM.exists():
        source = Path(__file__).with_name("clock_shim.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", CLOCK_SHIM, source, "-ldl"], check=True)
    threads = {name: os.environ.get(name, "1") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    os.environ.update(**threads, RIG_REPORTS=str(int(reports)))

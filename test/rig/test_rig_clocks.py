"""Clocks that differ or are set, and a node that is started anew in motion: the real node around an arm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.alone]
ROOT = Path(__file__).resolve().parents[2]
CASES = "clock-+60ms", "clock-step--30ms", "respawn-stream"


def test_clocks_that_differ_or_are_set_and_a_restart_in_motion_keep_limits_and_jump_nowhere() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RIG_READY"}
    command = [sys.executable, "-m", "rig", *CASES]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if "without controller_state" in run.stdout:
        pytest.skip("there is no control_msgs")
    assert run.returncode == 0, run.stdout + run.stderr

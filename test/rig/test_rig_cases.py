"""Eight cases of `make rig`: the real node around an arm in real time, two at a time, one on each of two cores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.alone]
ROOT = Path(__file__).resolve().parents[2]
CASES = (
    ("clock-step--30ms", "stop-service", "respawn-stream", "scaled-steps"),
    ("clock-+60ms", "hold-old-state", "states-end", "scaled-pause"),
)
"""Clocks, stops and holds, a restart, joint states that end or are old, a speed slider."""


@pytest.mark.timeout(600)
def test_what_goes_wrong_on_a_real_robot_does_not_here() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RIG_READY"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": ROOT, "env": environment}
    rig = [sys.executable, "-m", "rig"]
    listed = subprocess.run([*rig, "--list"], timeout=60, check=False, **pipes)
    if "without controller_state" in listed.stdout:
        pytest.skip("there is no control_msgs")
    rigs = [subprocess.Popen([*rig, *cases], **pipes) for cases in CASES]
    try:
        said = [one.communicate(timeout=560)[0] for one in rigs]
    finally:
        for one in rigs:
            one.kill()
    assert not any(one.returncode for one in rigs), "\n".join(said)
    assert f"0 of {len(CASES[0])} cases fail" in said[0] and f"0 of {len(CASES[0])} cases fail" in said[1]

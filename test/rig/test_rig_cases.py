"""Cases of `make rig`: the real node around an arm in real time, two at a time, one on each of two cores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.alone, pytest.mark.thorough]
ROOT = Path(__file__).resolve().parents[2]
CASES = (
    (("clock-step--30ms", "stop-service"), ("respawn-stream", "states-end")),
    (("clock-+60ms", "scaled-steps"), ("hold-old-state", "scaled-pause")),
)
"""Clocks, stops, restarts, holds, joint states that end, and a slider: on each of two cores."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("cases", CASES)
def test_what_goes_wrong_on_a_real_robot_does_not_here(cases: tuple[tuple[str, ...], ...]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RIG_READY"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": ROOT, "env": environment}
    rig = [sys.executable, "-m", "rig"]
    listed = subprocess.run([*rig, "--list"], timeout=60, check=False, **pipes)
    if "without controller_state" in listed.stdout:
        pytest.skip("there is no control_msgs")
    rigs = [subprocess.Popen([*rig, *its], **pipes) for its in cases]
    try:
        said = [one.communicate(timeout=560)[0] for one in rigs]
    finally:
        for one in rigs:
            one.kill()
    assert not any(one.returncode for one in rigs), "\n".join(said)
    assert all("0 of 2 cases fail" in one for one in said)

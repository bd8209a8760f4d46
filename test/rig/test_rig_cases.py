"""The quickest cases of the rig hold: the real node over DDS, closed around an arm in real time, judged by a replay.

`make rig` runs them all, with and without the controller's reports.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rig.control_msgs_package import ControlMsgsAbsent, built_control_msgs

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.alone]
QUICKEST = (
    "only-names",
    "goal-0",
    "goal-1",
    "end",
    "killed",
    "outside-limit",
    "stop-silent",
    "hold",
    "hold-old-state",
    "hold-reactivate",
)
"""Those that a busy machine, which delivers late, makes fail least."""


@pytest.mark.parametrize("case", QUICKEST)
def test_a_case_holds(case: str) -> None:
    try:
        built_control_msgs()
    except ControlMsgsAbsent as absent:
        pytest.skip(str(absent))
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-m", "rig", case], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

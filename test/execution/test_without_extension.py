"""Without the compiled steps of motions nothing moves: the error says how to get them."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
for name in ("kernels.native._loops", "kernels.retime._native", "execution._native"):
    sys.modules["traj_integrator_ros." + name] = None  # as if it had not been built
"""
LIBRARY = """
import numpy as np
import traj_integrator_ros.governor.executor
from traj_integrator_ros.execution.native import NotCompiled
from traj_integrator_ros.execution.complete import played
try:
    played(np.ones(2), *np.zeros((2, 3, 1)))
except NotCompiled as error:
    print(error)
"""
RETIME = "from traj_integrator_ros.tools.retime import main\nsys.exit(main(sys.argv[1:]))"
CHECK = "from traj_integrator_ros.tools.check_trajectory import main\nsys.exit(main(sys.argv[1:]))"
FILES = ["plan.csv", "--params", "robot.yaml"]
TABLE = "time,position_a\n0,0\n0.1,0.01\n0.2,0.03\n0.3,0.04\n"
PARAMETERS = """
/**:
  ros__parameters:
    joint_names: [a]
    limits: {velocity: [0.1], acceleration: [1.0], jerk: [10.0]}
"""


@pytest.mark.parametrize(
    ("program", "arguments", "code", "first"),
    [
        (LIBRARY, [], 0, "motions need their C++ extension"),
        (RETIME, [*FILES, "--out", "out.csv"], 1, "retime: retiming needs its C++ extension"),
        (CHECK, FILES, 1, "check_trajectory: motions need their C++ extension"),
    ],
    ids=["motions", "retime", "check_trajectory"],
)
def test_it_is_said_in_one_line(tmp_path, program, arguments, code, first):
    (tmp_path / "plan.csv").write_text(TABLE)
    (tmp_path / "robot.yaml").write_text(PARAMETERS)
    command = [sys.executable, "-c", WITHOUT + program, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    [line] = [line for line in (done.stdout + done.stderr).splitlines() if "reference kernels" not in line]
    assert line.startswith(first) and "not built for this Python" in line and "pip install -v" in line
    assert done.returncode == code

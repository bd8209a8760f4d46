"""The fixture of the controller's reports, for tests of the node."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.control_msgs_package import ControlMsgsAbsent, built_control_msgs, load_libraries


@pytest.fixture(scope="module")
def report_type() -> Iterator[type]:
    """The message of the controller's reports, for this process and those that it starts; skips if there is none."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            variables = built_control_msgs()
        except ControlMsgsAbsent as absent:
            pytest.skip(str(absent))
        for name, value in variables.items():
            patch.setenv(name, value)
        if variables:
            patch.syspath_prepend(variables["PYTHONPATH"].partition(os.pathsep)[0])
            load_libraries(Path(variables["LD_LIBRARY_PATH"].partition(os.pathsep)[0]))
        from control_msgs.msg import JointTrajectoryControllerState

        yield JointTrajectoryControllerState
    if variables:  # later imports in this process find only what its child processes would find
        for name in [name for name in sys.modules if name.partition(".")[0] == "control_msgs"]:
            del sys.modules[name]

"""Parameter files that a node cannot run with, given to integrator.launch.py: one clear line, and the right exit code.

A file that is missing ends the launch before a process starts: test_launch_files.py.
"""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

import pytest

pytest.importorskip(
    "launch_testing.actions", reason="launch_testing cannot be imported: it comes with a ROS 2 installation"
)
pytest.importorskip("traj_integrator_interfaces.msg", reason="traj_integrator_interfaces is not built")
# launch_test, unlike pytest, does not look beside the test for what it imports.
sys.path.insert(0, str(Path(__file__).parent))

import launch_testing
from launch import LaunchDescription
from launch_testing.actions import ReadyToTest
from launch_testing.asserts import assertExitCodes
from launch_testing.markers import keep_alive
from launching import integrator_launch, isolate
from scenarios import UNKNOWN_PARAMETER, WRONG_FILES, Scenario, WrongFile

_STARTS = WrongFile(*UNKNOWN_PARAMETER, ends=False)
_FILES = [*(wrong for wrong in WRONG_FILES.values() if wrong.text is not None), _STARTS]


@pytest.mark.launch_test
@keep_alive
@launch_testing.parametrize("wrong", _FILES)
def generate_test_description(wrong):
    isolate()
    file = Path(tempfile.mkdtemp(prefix="wrong_")) / "parameters.yaml"
    file.write_text(wrong.text, encoding="utf-8")
    launch = integrator_launch(Scenario("none"), params_file=str(file))
    return LaunchDescription([launch, ReadyToTest()])


class TestWrongFile(unittest.TestCase):
    def test_it_is_told(self, wrong, proc_info, proc_output):
        proc_output.assertWaitFor(wrong.said, timeout=60)
        if wrong.ends:
            proc_info.assertWaitForShutdown(process="integrator_node", timeout=20)


@launch_testing.post_shutdown_test()
class TestAfterShutdown(unittest.TestCase):
    def test_exit_code(self, wrong, proc_info):
        assertExitCodes(proc_info, allowable_exit_codes=[2 if wrong.ends else 0])

    def test_no_traceback(self, proc_info, proc_output):
        (process,) = proc_info
        output = b"".join(part.text for part in proc_output[process.action])
        self.assertNotIn(b"Traceback", output)

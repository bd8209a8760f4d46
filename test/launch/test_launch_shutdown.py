"""Signals end a node that integrator.launch.py started: soon, with exit code 0 and without a traceback."""

from __future__ import annotations

import os
import signal
import sys
import time
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
from scenarios import SCENARIOS, SHUTDOWN_LIMIT_S


@pytest.mark.launch_test
@keep_alive
@launch_testing.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def generate_test_description(number):
    isolate()
    return LaunchDescription([integrator_launch(SCENARIOS[0]), ReadyToTest()])


class TestShutdown(unittest.TestCase):
    def test_signal_ends_the_node_in_time(self, number, proc_info):
        client = SCENARIOS[0].client()
        self.addCleanup(client.close)
        client.wait_until_active()
        (process,) = proc_info
        begin = time.monotonic()
        os.kill(process.pid, number)
        proc_info.assertWaitForShutdown(process=process.action)
        self.assertLessEqual(time.monotonic() - begin, SHUTDOWN_LIMIT_S)


@launch_testing.post_shutdown_test()
class TestAfterShutdown(unittest.TestCase):
    def test_exit_codes(self, proc_info):
        assertExitCodes(proc_info)

    def test_no_traceback(self, proc_info, proc_output):
        (process,) = proc_info
        output = b"".join(part.text for part in proc_output[process.action])
        self.assertNotIn(b"Traceback", output)

"""A killed node comes back (respawn:=true), and its publishers and clients are served again."""

from __future__ import annotations

import os
import signal
import sys
import unittest
from pathlib import Path

import pytest

pytest.importorskip(
    "launch_testing.actions", reason="launch_testing cannot be imported: it comes with a ROS 2 installation"
)
pytest.importorskip("traj_integrator_interfaces.msg", reason="traj_integrator_interfaces is not built")
# launch_test, unlike pytest, does not look beside the test for what it imports.
sys.path.extend(map(str, Path(__file__).resolve().parents[:2]))

import launch_testing
from launch import LaunchDescription
from launch_testing.actions import ReadyToTest
from launch_testing.asserts import assertExitCodes
from launching import integrator_launch, isolate
from scenarios import SCENARIOS, traffic_recovers


@pytest.mark.launch_test
def generate_test_description():
    isolate()
    return LaunchDescription([integrator_launch(SCENARIOS[0], respawn="true"), ReadyToTest()])


class TestRespawn(unittest.TestCase):
    def test_traffic_recovers(self, proc_info):
        client = SCENARIOS[0].client()
        self.addCleanup(client.close)
        client.wait_until_active()
        (first,) = proc_info
        traffic_recovers(client, SCENARIOS[0], kill=lambda: os.kill(first.pid, signal.SIGKILL))
        (second,) = proc_info
        self.assertNotEqual(first.pid, second.pid)


@launch_testing.post_shutdown_test()
class TestAfterShutdown(unittest.TestCase):
    def test_exit_code_of_the_second_process(self, proc_info):
        assertExitCodes(proc_info)

"""Two nodes by integrator.launch.py in two namespaces: neither hears what the other is sent."""

from __future__ import annotations

import sys
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
from launching import integrator_launch, isolate
from scenarios import SIDE_BY_SIDE, neighbours_do_not_hear_each_other


@pytest.mark.launch_test
def generate_test_description():
    isolate()
    return LaunchDescription([*map(integrator_launch, SIDE_BY_SIDE), ReadyToTest()])


class TestSideBySide(unittest.TestCase):
    def test_neighbours_do_not_hear_each_other(self):
        clients = [scenario.client() for scenario in SIDE_BY_SIDE]
        for client in clients:
            self.addCleanup(client.close)
        neighbours_do_not_hear_each_other(clients, SIDE_BY_SIDE)


@launch_testing.post_shutdown_test()
class TestAfterShutdown(unittest.TestCase):
    def test_exit_codes(self, proc_info):
        assertExitCodes(proc_info)
        self.assertEqual(len(proc_info.process_names()), 2)

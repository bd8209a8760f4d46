"""Start-up and main job by integrator.launch.py, in a namespace and with remapped topics, too."""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path

import pytest

pytest.importorskip(
    "launch_testing.actions", reason="launch_testing cannot be imported: it comes with a ROS 2 installation"
)
pytest.importorskip("traj_integrator_interfaces.msg", reason="traj_integrator_interfaces is not built")
# launch_test, unlike pytest, does not import modules from the test's folder.
sys.path.extend(map(str, Path(__file__).resolve().parents[:3]))

import launch_testing
from launch import LaunchDescription
from launch.actions import GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import SetRemap
from launch_testing.actions import ReadyToTest
from launch_testing.asserts import assertExitCodes
from scenarios import CHECKS, REPOSITORY, SCENARIOS

from kit import local_dds


@pytest.mark.launch_test
@pytest.mark.timeout(600)
@launch_testing.parametrize("scenario", SCENARIOS)
def generate_test_description(scenario):
    if "PYTEST_CURRENT_TEST" not in os.environ:  # under launch_test; under pytest, test/conftest.py does it
        local_dds.isolate()
    source = PythonLaunchDescriptionSource(str(REPOSITORY / "launch" / "integrator.launch.py"))
    included = IncludeLaunchDescription(source, launch_arguments=scenario.launch_arguments().items())
    remapped = GroupAction([*(SetRemap(name, other) for name, other in scenario.remappings), included])
    return LaunchDescription([remapped, ReadyToTest()])


class TestStartedNode(unittest.TestCase):
    def test_start_up_and_main_job(self, scenario):
        client = scenario.client()
        self.addCleanup(client.close)
        for check in CHECKS:
            with self.subTest(check=check.__name__):
                check(client, scenario)


@launch_testing.post_shutdown_test()
class TestAfterShutdown(unittest.TestCase):
    def test_exit_codes(self, proc_info):
        assertExitCodes(proc_info)

"""The main job by demo.launch.py, on a planned motion: the demo judges it, and ends the launch."""

from __future__ import annotations

import json
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
sys.path.extend(map(str, Path(__file__).resolve().parents[:2]))

import launch_testing
from launch import LaunchDescription
from launch_testing.actions import ReadyToTest
from launch_testing.asserts import assertExitCodes
from launch_testing.markers import keep_alive
from launching import included, isolate


@pytest.mark.launch_test
@keep_alive
def generate_test_description():
    isolate()
    out = tempfile.mkdtemp(prefix="demo_")
    launch = included("demo.launch.py", {"out": out, "device": "cpu", "namespace": "arm"})
    return LaunchDescription([launch, ReadyToTest()]), {"out": Path(out)}


class TestDemo(unittest.TestCase):
    def test_demo_ends(self, proc_info):
        # The launch ends after it, so everything else is for later.
        proc_info.assertWaitForStartup(process="demo", cmd_args="--external-node", timeout=30)
        proc_info.assertWaitForShutdown(process="demo", cmd_args="--external-node", timeout=100)


@launch_testing.post_shutdown_test()
class TestAfterShutdown(unittest.TestCase):
    def test_exit_codes(self, proc_info):
        assertExitCodes(proc_info)
        self.assertEqual(len(proc_info.process_names()), 3)

    def test_nothing_was_lost(self, out):
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        self.assertEqual((report["lost"], report["failures"]), (0, []))
        self.assertTrue((out / "trajectories.png").is_file() and (out / "optimizer.png").is_file())

"""The example clients of the README do what they say, against a real node."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.ros

ROOT = Path(__file__).resolve().parents[2]
JOINTS = [f"panda_joint{i}" for i in range(1, 8)]
READY = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]


@pytest.fixture(scope="module")
def node() -> Iterator[None]:
    """The integrator for the Panda, as its own process."""
    command = [sys.executable, "-m", "traj_integrator_ros", "--ros-args", "--params-file", "config/franka.yaml"]
    with subprocess.Popen(command, cwd=ROOT) as process:
        yield
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


@pytest.fixture
def joint_states() -> Iterator[Callable[[], None]]:
    """A Panda at its ready pose, in slow motion, at 100 Hz as long as what this returns is called."""
    import rclpy
    from rclpy.context import Context
    from rclpy.executors import SingleThreadedExecutor
    from sensor_msgs.msg import JointState

    context = Context()
    rclpy.init(context=context)
    robot = rclpy.create_node("robot", context=context)
    publisher = robot.create_publisher(JointState, "joint_states", 10)

    def publish() -> None:
        state = JointState(name=JOINTS, position=array("d", READY), velocity=array("d", [0.1] * 7))
        state.header.stamp = robot.get_clock().now().to_msg()
        publisher.publish(state)

    robot.create_timer(0.01, publish)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(robot)
    yield lambda: executor.spin_once(timeout_sec=0.05)
    executor.shutdown()
    robot.destroy_node()
    context.try_shutdown()


def test_the_planner_gets_its_candidates_integrated(node, joint_states, tmp_path):
    log = tmp_path / "log"
    with log.open("w") as output:
        planner = subprocess.Popen([sys.executable, "examples/planner.py"], cwd=ROOT, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and "is smoothest" not in log.read_text():
            joint_states()
    finally:
        planner.send_signal(signal.SIGINT)
        code = planner.wait(10)
    assert re.search(r"candidate \d+ of 16 is smoothest and ends at \[", log.read_text()), log.read_text()
    assert code == 0 and "Traceback" not in log.read_text()


def test_the_optimizer_reaches_its_goal_at_rest(node):
    result = subprocess.run(
        [sys.executable, "examples/optimizer.py"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    cost = re.search(r"cost ([\d.]+) -> ([\d.]+)", result.stdout)
    assert cost and float(cost[2]) < 1e-3 * float(cost[1])
    miss = re.search(r"misses the goal by ([\d.]+) rad, with ([\d.]+) rad/s left", result.stdout)
    assert miss and float(miss[1]) < 1e-2 and float(miss[2]) < 1e-2, result.stdout

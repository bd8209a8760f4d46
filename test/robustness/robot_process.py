"""What runs beside the node, each as a process of its own that can be killed: python robot_process.py WHAT ARGUMENT."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from traj_integrator_ros.traffic.node_process import source_environment

NODE = "/traj_integrator"
JOINTS = ("joint_a", "joint_b", "joint_c")


@contextmanager
def beside(what: str, *arguments: object) -> Iterator[subprocess.Popen]:
    """Run this file and wait until it is at work; in the end, kill it."""
    from preloaded_python import preloaded_python  # in the process of the tests

    command = [preloaded_python(), __file__, what, *map(str, arguments)]
    environment = {**os.environ, **source_environment()}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout.readline().strip() == "at work", what
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def states(rate_hz: str) -> None:
    """Publish joint states at rest, stamped with the time."""
    import rclpy
    from sensor_msgs.msg import JointState

    node = rclpy.create_node("robot")
    publisher = node.create_publisher(JointState, "joint_states", 10)
    _wait_for(publisher.get_subscription_count)
    while True:
        message = JointState(name=JOINTS, position=array("d", [0.0] * len(JOINTS)))
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)
        _at_work()
        time.sleep(1.0 / float(rate_hz))


def caller(repetitions: str) -> None:
    """Send calls of ~/integrate for each line on standard input, and never read the answers."""
    import numpy as np

    from traj_integrator_interfaces.srv import Integrate
    from traj_integrator_ros.traffic.messages import sequence
    from traj_integrator_ros.traffic.participant import Participant

    participant = Participant(NODE, name="caller")
    request = Integrate.Request(actions=sequence(np.zeros((64, 64, len(JOINTS))), position=np.zeros(len(JOINTS))))
    # Once answered, the node has found this client: what is sent from now on gets there.
    participant.call(Integrate, "integrate", request, 2.0, attempts=20)
    _at_work()
    sys.stdin.readline()
    for _ in range(int(repetitions)):
        participant.client(Integrate, "integrate").call_async(request)
    print("called", flush=True)
    time.sleep(3600.0)


def _wait_for(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.01)


_told: list[bool] = []


def _at_work() -> None:
    if not _told:
        _told.append(True)
        print("at work", flush=True)


if __name__ == "__main__":
    import rclpy

    rclpy.init()
    globals()[sys.argv[1]](*sys.argv[2:])
    os._exit(0)

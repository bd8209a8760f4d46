"""A program with the node in it that prints, as a line of JSON, which modules first messages and a late URDF load.

Its argument: whether limits are `given` before, or only `described` by that URDF. A module that is loaded then keeps
them waiting, as does all that is done for the first time; the process must be fresh.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
import rclpy
from node_fixtures import JOINTS, PARAMETERS, plan
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros_client import RosClient
from std_msgs.msg import String

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_ros.client import sequence
from traj_integrator_ros.node.node import IntegratorNode

JOINT = (
    '<link name="of_{name}"/><joint name="{name}" type="revolute"><parent link="base"/><child link="of_{name}"/>'
    '<axis xyz="0 0 1"/><limit lower="-3" upper="0.2" velocity="9" effort="1" acceleration="4" jerk="100"/></joint>'
)
URDF = '<?xml version="1.0"?><robot name="narrow"><link name="base"/>{}</robot>'

rclpy.init()
client, latched = RosClient(JOINTS), QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
limits = {f"limits.{name}": [value] * len(JOINTS) for name, value in (("velocity", 2.0), ("acceleration", 10.0))}
if sys.argv[1] == "described":
    limits = {"limits.assumed_velocity": 2.0}
given = PARAMETERS | limits | {"limits.action": "retime", "limits.urdf": "topic"}
given["position_trajectory.without_times"] = "path"
node = IntegratorNode(parameter_overrides=[Parameter(name, value=value) for name, value in given.items()])
executor = SingleThreadedExecutor()
executor.add_node(node)
node.autostart()


def answered(goal: np.ndarray | None = None) -> bool:
    """Let the node work until it has published a trajectory, to that goal if there is one, for 20 s at most.

    A path waits for the stop of a moving robot, which is published before.
    """
    end = time.monotonic() + 20
    while time.monotonic() < end:
        ends = [message.points[-1].positions for message in client.trajectories]
        if any(goal is None or np.allclose(place, goal, atol=1e-4) for place in ends):
            return True
        executor.spin_once(timeout_sec=0.01)
        client.spin_once(0.001)
    return False


def work(until: float) -> None:
    """Let the node and the client work until a time, with the robot resting at 0."""
    while time.monotonic() < until:
        client.publish_state(np.zeros(len(JOINTS)))
        executor.spin_once(timeout_sec=0.01)
        client.spin_once(0.01)


end = time.monotonic() + 20
while not all(one.get_subscription_count() for one in (client.sequences, client.plans, client.states)):
    work(time.monotonic() + 0.01)
    assert time.monotonic() < end
work(time.monotonic() + 0.5)
loaded, rows = set(sys.modules), np.tile(np.linspace(0.01, 0.3, 16)[:, None], len(JOINTS))
sequences = [
    sequence(actions[None], dt=[0.05], control_space=ActionSequence.POSITION)
    for actions in (rows, rows + 0.03, 5 * rows)
]
paths = [plan([0.0] * 16, rows)] if sys.argv[1] == "given" else []  # a path that only limits can time
for number, message in enumerate(sequences + paths):
    client.trajectories.clear()
    (client.sequences if message in sequences else client.plans).publish(message)
    assert answered(rows[-1] if message in paths else None), f"message {number} was not answered"
client.trajectories.clear()
description = client.node.create_publisher(String, "robot_description", latched)
description.publish(String(data=URDF.format("".join(JOINT.format(name=name) for name in JOINTS))))
assert answered(), "the motion in execution was not brought within the limits of the URDF"
print(json.dumps(sorted(set(sys.modules) - loaded)), flush=True)
os._exit(0)  # the middleware's threads are not waited for

"""A program with the node in it: which modules are loaded by the first messages, as a line of JSON.

A module that is loaded then keeps them waiting, as does all that is done for the first time; the process must be fresh.
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
from ros_client import RosClient

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_ros.client import sequence
from traj_integrator_ros.node.node import IntegratorNode

rclpy.init()
client = RosClient(JOINTS)
limits = {f"limits.{name}": [value] * len(JOINTS) for name, value in (("velocity", 2.0), ("acceleration", 10.0))}
given = PARAMETERS | limits | {"limits.action": "retime"}
node = IntegratorNode(parameter_overrides=[Parameter(name, value=value) for name, value in given.items()])
executor = SingleThreadedExecutor()
executor.add_node(node)
node.autostart()


def answered(count: int) -> bool:
    """Let the node work until it has published so many trajectories, for 20 s at most."""
    end = time.monotonic() + 20
    while len(client.trajectories) < count and time.monotonic() < end:
        executor.spin_once(timeout_sec=0.01)
        client.spin_once(0.001)
    return len(client.trajectories) >= count


def work(until: float) -> None:
    """Let the node and the client work, the robot resting at 0, until a time."""
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
for number, message in enumerate(
    (
        sequence(rows[None], dt=[0.05], control_space=ActionSequence.POSITION),
        sequence((rows + 0.03)[None], dt=[0.05], control_space=ActionSequence.POSITION),
        sequence((5 * rows)[None], dt=[0.05], control_space=ActionSequence.POSITION),
        plan([0.0] * 16, rows),
    )
):
    (client.plans if number == 3 else client.sequences).publish(message)
    assert answered(number + 1), f"message {number} was not answered"
print(json.dumps(sorted(set(sys.modules) - loaded)), flush=True)
os._exit(0)  # the middleware's threads are not waited for

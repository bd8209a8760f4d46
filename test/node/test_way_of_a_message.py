"""A message passes no more files of the node than CONTRIBUTING.md says."""

from __future__ import annotations

import re
import time

import node_variants
import numpy as np
import pytest
from node_fixtures import JOINTS, NodeServer
from ros_client import RosClient

from traj_integrator_interfaces.srv import Evaluate
from traj_integrator_ros.client import sequence

pytestmark = pytest.mark.ros
PERIOD_S, DT_S = 0.1, 0.02


MOST_FILES = {"sequence": 48, "evaluate": 20}
"""The numbers in CONTRIBUTING.md."""


def send_chunks(client: RosClient, count: int) -> None:
    """Chunks of one slow motion, each of which continues the previous one."""
    begin_s = time.time()
    for number in range(count):
        times = number * PERIOD_S + DT_S * np.arange(1, 61)
        message = sequence(np.tile(0.05 * np.sin(0.5 * times)[:, None], (1, 1, len(JOINTS))), dt=[DT_S])
        message.header.stamp.sec, nanoseconds = divmod(round((begin_s + 0.05 + number * PERIOD_S) * 1e9), 10**9)
        message.header.stamp.nanosec = nanoseconds
        client.sequences.publish(message)
        client.wait_for(lambda sent=number: len(client.trajectories) > sent, "a trajectory")
        time.sleep(max(0.0, begin_s + (number + 1) * PERIOD_S - time.time()))


def test_messages_pass_no_more_files_than_the_page_allows(serve: NodeServer) -> None:
    process, client = serve({"start_from": "previous", "limits.action": "reject"}, variant=node_variants.on_its_way)
    client.settle_state([0.0] * len(JOINTS))
    send_chunks(client, 6)
    actions = sequence(np.zeros((2, 4, len(JOINTS))), position=np.zeros(len(JOINTS)))
    request = Evaluate.Request(actions=actions, want_grad_action=True)
    request.cost.position.weight.fromlist([1.0] * len(JOINTS))
    assert client.evaluate(request).success
    process.stop()
    ways = dict(re.findall(r"^way of (\w+): (.*)$", process.output, re.MULTILINE))
    for kind, most in MOST_FILES.items():
        assert 0 < len(set(ways[kind].split())) <= most

"""The node without something that it needs: memory, compiled parts."""

from __future__ import annotations

import node_variants
import numpy as np
import pytest
from node_fixtures import SEQUENCE, ClientFactory, NodeFactory, NodeServer

from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.client import packed, sequence

pytestmark = pytest.mark.ros
DOF = 3


def test_exhausted_device_memory_is_reported_and_service_goes_on(serve: NodeServer) -> None:
    _, client = serve(variant=node_variants.short_of_memory)
    large = sequence(np.zeros((64, 64, DOF)), position=np.zeros(DOF))
    gradient = ComputeGradient.Request(actions=large, grad_position=packed(np.zeros(64 * 64 * DOF)))
    for refused in (client.integrate(large), client.compute_gradient(gradient)):
        assert not refused.success
        assert refused.message.startswith("out_of_device_memory: batch: out of memory on cpu: tried to allocate ")
    client.wait_for(lambda: any(status.level == status.ERROR for status in client.statuses), "level ERROR")
    assert client.integrate(SEQUENCE).success
    client.sequences.publish(large)
    client.wait_for(lambda: client.counts()["rejected.out_of_device_memory"] == "3", "one more counted")
    assert not client.batches, "the row for the controller needs no device"
    client.answer(SEQUENCE)


def test_without_compiled_parts_the_node_says_how_to_get_them(start_node: NodeFactory, connect: ClientFactory) -> None:
    process = start_node(variant=node_variants.without_compiled_parts)
    client = connect()
    process.wait_for_output("configure failed")
    [line] = [line for line in process.output.splitlines() if "configure failed" in line]
    assert "C++ extension" in line and "not built for this Python" in line and "colcon build" in line
    assert "Traceback" not in process.output
    assert client.state() == "unconfigured" and not client.change_state("configure")
    assert "C++ extension" in client.status().message and client.status().level == client.status().ERROR

"""Device memory that runs out, on every channel: simulated by an engine that fails to allocate more than a little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hostile_cases import NODE
from hostile_ledger import Ledger
from hostile_node import PARAMETERS, HostileNode
from hostile_oracle import Verdict
from node_fixtures import NodeFactory
from ros_client import floats, sequence

from traj_integrator_interfaces.srv import ComputeGradient

pytestmark = [pytest.mark.ros, pytest.mark.slow]
SHORT_OF_MEMORY = Path(__file__).parent.parent / "node" / "node_short_of_memory.py"
LARGE = sequence(np.zeros((64, 64, NODE.dof)), position=np.zeros(NODE.dof))


def test_device_memory_that_runs_out(start_node: NodeFactory, ledger: Ledger) -> None:
    parameters = {**PARAMETERS, "max_batch": 64, "max_horizon": 64, "warmup": ["1x4"]}
    node = HostileNode(start_node(parameters, program=[str(SHORT_OF_MEMORY)]), ledger)
    try:
        out_of_memory = Verdict(frozenset({("out_of_device_memory", "batch")}), may_pass=False)
        request = ComputeGradient.Request(actions=LARGE, grad_jerk=floats(np.ones(len(LARGE.data))))
        for _ in range(20):
            node.sequence(LARGE, out_of_memory)
            node.integrate(LARGE, out_of_memory)
            node.compute_gradient(request, out_of_memory)
        assert any(status.level == status.ERROR for status in node.client.statuses), "told as an error"
        node.assert_in_good_health("device memory runs out")
    finally:
        node.close()

"""What a message costs: CPU time of the node's process for each, all its threads and the supervision included.

Peer: a plain rclpy node that gets the same messages at the same rate, decodes them as rclpy does, and answers, without
computing anything, with messages of the output's size, made beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_ros.client import ORDERS, gradient_request

from ..problems import DOF, DT, HORIZON
from ..registry import Case
from .client import ECHO, OURS, Processes, RecedingPlan, running
from .latency import JOINTS, PARAMETERS, START, unchecked

PEER_NAME = "rclpy's own, empty callbacks"
STATES_HZ, SEQUENCES_HZ, CALLS_HZ, STATUSES_HZ = 1000.0, 50.0, 50.0, 50.0
_REST_S = 1.5
"""Time after which the node supervises a robot at rest seldom, s."""


def message_costs(quick: bool) -> Iterator[Case]:
    """CPU time for each message, and of an idle node for each second."""
    parameters = {**PARAMETERS, "warmup": [f"1x{HORIZON}"]}
    with running(JOINTS, parameters) as processes:
        client, seconds = processes.client, 1.0 if quick else 3.0
        costs = partial(_costs, processes, seconds=seconds, rounds=3 if quick else 7)
        client.follow(RecedingPlan(START, 1, HORIZON, DT))
        upstream = np.random.default_rng(0).standard_normal((4, 1, HORIZON, DOF)).astype(np.float32)
        request = gradient_request(ActionSequence(batch=1, horizon=HORIZON), dict(zip(ORDERS, upstream, strict=True)))
        client.prepare("compute_gradient", request)
        yield costs("a second without any", "", 1.0)
        yield costs("joint state at 1 kHz", "state", STATES_HZ)
        yield costs("compute_gradient at 50 Hz", "compute_gradient", CALLS_HZ)
        yield costs("sequence to batch and motion at 50 Hz", "sequence", SEQUENCES_HZ)
        client.set_parameters(diagnostics__period=1 / STATUSES_HZ)
        yield costs("status on /diagnostics at 50 Hz", "", STATUSES_HZ, peers=False)


def _costs(
    processes: Processes, name: str, kind: str, rate_hz: float, *, seconds: float, rounds: int, peers: bool = True
) -> Case:
    def cpu(label: str, node: str, pid: int) -> object:
        return unchecked(label, partial(processes.client.cpu_per_message, kind, node, pid, rate_hz, seconds, _REST_S))

    peer = (cpu(PEER_NAME, ECHO, processes.echo_pid),) * peers
    return Case(name, 1, HORIZON, DOF, cpu("ours", OURS, processes.node_pid), peer, rounds=rounds)

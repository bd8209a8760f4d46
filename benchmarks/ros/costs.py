"""What a message costs: CPU time of the node's process for each, all its threads and the supervision included.

Peer: a plain rclpy node that gets the same messages at the same rate, decodes them as rclpy does, and answers, without
computing anything, with messages of the output's size, made beforehand.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from ..problems import DOF, HORIZON
from ..registry import Case, Contender
from .client import ECHO, OURS, TimingClient, running
from .latency import gradients

PEER_NAME = "rclpy's own, empty callbacks"
STATUSES_HZ = 50.0
CASES = (
    ("a second without any", "", 1.0),
    ("joint state at 1 kHz", "state", 1000.0),
    ("compute_gradient at 50 Hz", "compute_gradient", 50.0),
    ("sequence to batch and motion at 50 Hz", "sequence", 50.0),
)
"""Name, kind and rate of messages, Hz."""
_REST_S = 1.5
"""Time after which the node supervises a robot at rest seldom, s."""


def message_costs(quick: bool) -> Iterator[Case]:
    """CPU time for each message, and of an idle node for each second."""
    seconds, rounds = (1.0, 3) if quick else (3.0, 7)
    with running(1) as (client, pids):

        def contender(label: str, kind: str, node: str, rate_hz: float) -> Contender:
            clock = partial(cpu_per_message, client, kind, node, pids[node], rate_hz, seconds)
            return Contender(label, list, lambda _: None, clock)

        client.requests["compute_gradient"], _ = gradients()
        for name, kind, rate_hz in CASES:
            ours, peer = contender("ours", kind, OURS, rate_hz), contender(PEER_NAME, kind, ECHO, rate_hz)
            yield Case(name, 1, HORIZON, DOF, ours, (peer,), rounds=rounds)
        client.set_parameters(diagnostics__period=1 / STATUSES_HZ)
        ours = contender("ours", "", OURS, STATUSES_HZ)
        yield Case(f"status on /diagnostics at {STATUSES_HZ:g} Hz", 1, HORIZON, DOF, ours, rounds=rounds)


def cpu_per_message(client: TimingClient, kind: str, name: str, pid: int, rate_hz: float, duration_s: float) -> float:
    """CPU time of a process, s, for each message of a kind that is sent to its node at this rate."""
    time.sleep(_REST_S)
    clock = (~pid << 3) | 2  # the CPU clock of another process, numbered by Linux's rule
    count, begin, cpu = int(rate_hz * duration_s), time.monotonic(), time.clock_gettime(clock)
    for i in range(count):
        client.send(kind, name)
        time.sleep(max(0.0, begin + (i + 1) / rate_hz - time.monotonic()))
    return (time.clock_gettime(clock) - cpu) / count

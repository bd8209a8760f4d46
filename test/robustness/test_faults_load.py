"""More messages than the node can take, and clients that leave in the middle; every message is accounted for."""

from __future__ import annotations

import itertools
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from subprocess import PIPE

import pytest
from node_fixtures import NEXT_STATE, SEQUENCE, TRANSITIONS, NodeServer
from rclpy.serialization import serialize_message
from ros_client import RosClient

from kit.node_process import NodeProcess, source_environment
from traj_integrator_interfaces.srv import Integrate
from traj_integrator_ros.node.intake import MOST_SEQUENCES

pytestmark = [pytest.mark.ros, pytest.mark.slow]
DOF = 3
STAMP_AT = 4
"""Offset of the stamp's seconds in a serialized sequence."""


CALLER = """
import sys, time
import numpy as np, rclpy
from traj_integrator_interfaces.srv import Integrate
from traj_integrator_ros.client import sequence
from kit.participant import Participant

rclpy.init()
participant = Participant("/traj_integrator", name="caller")
request = Integrate.Request(actions=sequence(np.zeros((64, 64, 3)), position=np.zeros(3)))
# Once answered, the node has found this client: what is sent from now on gets there.
participant.call(Integrate, "integrate", request, 2.0, attempts=20)
print("connected", flush=True)
sys.stdin.readline()
for _ in range(3):
    participant.client(Integrate, "integrate").call_async(request)
print("called", flush=True)
time.sleep(3600.0)
"""
"""A client that calls once it reads a line, and never reads the answers."""


@contextmanager
def slowed(process: NodeProcess, works_s: float, rests_s: float) -> Iterator[None]:
    """Stop a process periodically, so that it works for a short time and rests longer."""
    over = threading.Event()

    def alternate() -> None:
        while not over.is_set():
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(rests_s)
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(works_s)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def traffic(client: RosClient) -> Iterator[None]:
    """Joint states, sequences and service calls from the same client, as long as it spins."""
    calls = client.node.create_client(Integrate, f"{client.node_name}/integrate")
    client.wait_for(calls.service_is_ready, "service", 40.0)
    with (
        client.periodically(0.005, lambda: client.publish_state([0.0] * DOF)),
        client.periodically(0.005, lambda: client.sequences.publish(SEQUENCE)),
        client.periodically(0.02, lambda: calls.call_async(Integrate.Request(actions=SEQUENCE))),
    ):
        yield
    client.node.destroy_client(calls)


def accounted(client: RosClient) -> tuple[int, int, int]:
    """Sequences received, answered, and refused, except those refused because of a newer one.

    Their batches were answered by then.
    """
    counts = client.counts()
    reasons = {key for key in counts if key.startswith("rejected.")} - {"rejected.superseded"}
    rejected = sum(int(counts[key]) for key in reasons)
    return int(counts["sequences"]), int(counts["published"]), rejected


def test_a_planner_that_sends_twenty_times_what_the_node_can_take(
    serve: NodeServer, record_property: Callable[[str, object], None]
) -> None:
    process, client = serve()
    client.answer(SEQUENCE)
    data = bytearray(serialize_message(SEQUENCE))
    sent = 0
    client.batches.clear()
    with slowed(process, works_s=0.002, rests_s=0.4):
        while sent < 4000 or sent < 40 * len(client.batches):
            struct.pack_into("<i", data, STAMP_AT, sent + 1)
            with suppress(RuntimeError):  # RCLError: the middleware takes no more for the moment, nothing was sent
                client.sequences.publish(bytes(data))
                sent += 1
            client.spin_once(0)
    client.wait_for(lambda: accounted(client)[0] == sent + 1, "every sequence accounted for", 30.0)
    received, answered, rejected = accounted(client)
    assert received == answered + rejected, "nothing is lost that was not counted"
    assert sent > 20 * answered, (sent, answered)
    record_property("summary", f"flood: {sent} sequences sent, {answered - 1} answered, {rejected} queue_overflow")
    assert int(client.counts()["rejected.queue_overflow"]) == rejected
    # Status and answers come by different queues: a status that counts all answers can be read before the last answer.
    client.wait_for(lambda: len(client.batches) == answered - 1, "every answer")
    # A sequence that was in work when the node last had a core may be that old; waiting ones are the newest.
    stamps = [batch.header.stamp.sec for batch in client.batches]
    assert stamps == sorted(stamps) and stamps[-MOST_SEQUENCES:] == list(range(sent - MOST_SEQUENCES + 1, sent + 1))
    client.answer(SEQUENCE)


@pytest.mark.thorough
def test_callers_that_are_killed_while_the_node_works_for_them(serve: NodeServer) -> None:
    process, client = serve()
    held: list[tuple[int, int]] = []
    for _ in range(3):
        command, environment = [sys.executable, "-c", CALLER], {**os.environ, **source_environment()}
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=environment) as caller:
            assert caller.stdout.readline().strip() == "connected"
            calls = int(client.counts()["service_calls"])
            # The node is stopped, so that no call is answered before the caller is killed.
            os.kill(process.pid, signal.SIGSTOP)
            print("go", file=caller.stdin, flush=True)
            assert caller.stdout.readline().strip() == "called"
            caller.kill()
        os.kill(process.pid, signal.SIGCONT)
        client.wait_for(lambda calls=calls: int(client.counts()["service_calls"]) > calls, "calls taken", 20.0)
        assert client.integrate(SEQUENCE).success
        held.append((len(os.listdir(f"/proc/{process.pid}/fd")), process.memory_bytes("VmRSS")))
    assert client.counts()["rejected.internal_error"] == "0", process.output
    (first_files, first_bytes), (last_files, last_bytes) = held[1], held[-1]
    assert last_files <= first_files + 12 and last_bytes < 1.05 * first_bytes, held


def test_every_lifecycle_transition_after_every_other_under_load(serve: NodeServer) -> None:
    process, client = serve()
    state = "active"
    with traffic(client):
        for transition in itertools.chain.from_iterable(itertools.product(TRANSITIONS, repeat=2)):
            allowed = (state, transition) in NEXT_STATE
            assert client.change_state(transition) == allowed, (state, transition)
            state = NEXT_STATE.get((state, transition), state)
            assert client.state() == state
        for transition in TRANSITIONS[:2]:
            client.change_state(transition)
        client.wait_until_active()
        client.batches.clear()
        client.wait_for(lambda: len(client.batches) > 10, "answers after it all")
    assert client.counts()["rejected.internal_error"] == "0", process.output
    # On a busy machine, calls of the traffic may still wait before this one.
    client.wait_for(lambda: client.integrate(SEQUENCE).success, "an answer after it all")

"""Signals end the node in time, whatever it is doing."""

from __future__ import annotations

import signal
import time

import pytest
from node_fixtures import SEQUENCE, ClientFactory, NodeFactory, NodeServer

from kit.node_process import NodeProcess

pytestmark = [pytest.mark.ros, pytest.mark.alone]
SIGNALS = [signal.SIGINT, signal.SIGTERM]
LONGEST_END_S = 2.0


def assert_ended_well(process: NodeProcess, number: signal.Signals, again_s: float = 20.0) -> None:
    code, seconds = process.stop(number, again_s)
    assert code == 0, process.output
    assert seconds < LONGEST_END_S
    assert "Traceback" not in process.output


# A second signal is usual: Ctrl-C in a terminal reaches the node directly and again through ros2 launch.
@pytest.mark.parametrize(
    ("number", "again_s"), [(signal.SIGTERM, 20.0), (signal.SIGINT, 0.02)], ids=["SIGTERM once", "SIGINT repeated"]
)
def test_a_signal_ends_an_active_node_under_traffic(serve: NodeServer, number: signal.Signals, again_s: float) -> None:
    process, client = serve()
    client.node.create_timer(0.002, lambda: client.sequences.publish(SEQUENCE))
    client.spin(0.5)
    assert_ended_well(process, number, again_s)
    # The node also leaves the graph; otherwise others would wait 20 s for it.
    client.wait_for(lambda: not client.sequences.get_subscription_count(), "gone", 3.0)


@pytest.mark.parametrize("delays_s", [(0.3, 1.0), (1.6, 2.2)])
def test_a_signal_ends_a_node_that_is_still_starting(start_node: NodeFactory, delays_s: tuple[float, float]) -> None:
    processes, begin_s = [start_node(kind=NodeProcess) for _ in delays_s], time.monotonic()
    for process, number, delay_s in zip(processes, SIGNALS, delays_s, strict=True):
        time.sleep(max(0.0, begin_s + delay_s - time.monotonic()))
        assert_ended_well(process, number)


def test_a_signal_ends_an_unconfigured_node(start_node: NodeFactory, connect: ClientFactory) -> None:
    process = start_node({"autostart": False})
    assert connect().state() == "unconfigured"
    assert_ended_well(process, signal.SIGINT)

"""Sequences that cannot be executed, sent into a running stream: refused for the right reason, and the stream
continues.

The robot executes all that is published; it must be left with nothing but a motion within limits, or a brake.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from hostile_ledger import Ledger
from node_fixtures import JOINTS
from node_fixtures import PARAMETERS as NODE_PARAMETERS
from preloaded_node import PreloadedNode
from ros_client import RosClient, sequence
from streamed_robot import DT_S, HORIZON, PARAMETERS, StreamedRobot

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_ros.traffic.messages import set_stamp
from traj_integrator_ros.traffic.node_process import NodeProcess

pytestmark = [pytest.mark.ros, pytest.mark.slow]
CHANNEL = "~/action_sequence"
MILLISECOND_NS = 10**6
SPACES = range(ActionSequence.POSITION, ActionSequence.BSPLINE + 1)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    process = PreloadedNode(tmp_path_factory.mktemp("streamed"), {**NODE_PARAMETERS, **PARAMETERS})
    yield process
    process.close()


@pytest.fixture(scope="module")
def module_robot(process: NodeProcess) -> Iterator[StreamedRobot]:
    client = RosClient(JOINTS)
    client.wait_until_active()
    robot = StreamedRobot(client)
    with robot.measured():
        client.spin(0.3)
        yield robot
    client.close()


@pytest.fixture
def robot(process: NodeProcess, module_robot: StreamedRobot) -> Iterator[StreamedRobot]:
    """A robot at rest; at the end it rests again, for any input, and has never exceeded its limits."""
    yield module_robot
    module_robot.wait_until_at_rest()
    module_robot.assert_guided()
    assert process.is_running() and "internal_error" not in process.output, process.output


def stamped(message: ActionSequence, age_s: float) -> ActionSequence:
    """Observed so long ago."""
    set_stamp(message, max(0, time.time_ns() - round(age_s * 1e9)))
    return message


def zeros(space: int) -> ActionSequence:
    """Actions of zero, for as long as any chunk."""
    rows = (HORIZON + 3) * 4 if space == ActionSequence.BSPLINE else HORIZON  # degree 3, 4 steps in a segment
    return sequence(np.zeros((1, HORIZON, 3)), dt=[HORIZON * DT_S / rows], control_space=space)


def rejected(client: RosClient) -> Counter:
    counts = client.counts()
    return Counter({key[9:]: int(value) for key, value in counts.items() if key.startswith("rejected.")})


def refuse(robot: StreamedRobot, ledger: Ledger, reason: str, message: ActionSequence) -> None:
    """Send a message that must be counted under a reason, answered on no topic, and change nothing."""
    client = robot.client
    before = rejected(client)
    told = Counter()

    def is_told() -> bool:
        told.clear()
        told.update(rejected(client) - before)
        return reason in told

    client.batches.clear()
    client.sequences.publish(message)
    with suppress(TimeoutError):
        client.wait_for(is_told, f"one more {reason}", 10.0)
    others = set(told) - {reason, "stale_sequence"}  # a busy machine delays the stream
    if not told[reason] or others or any(batch.header.stamp == message.header.stamp for batch in client.batches):
        ledger.wrong.append(f"{CHANNEL} in a stream: expected {reason}, got {', '.join(told.elements()) or 'nothing'}")
        raise AssertionError(ledger.wrong[-1])
    ledger.right[CHANNEL, reason] += 1
    robot.assert_guided()


@contextmanager
def changed(robot: StreamedRobot, **parameters: object) -> Iterator[None]:
    """Change parameters for the time being."""
    client = robot.client
    before = {name: client.parameter(name.replace("__", ".")) for name in parameters}
    assert client.set_atomically(**parameters) == (True, "")
    try:
        yield
    finally:
        assert client.set_atomically(**before) == (True, "")


# Stamps


def test_what_is_too_old_or_of_the_future_is_refused(robot: StreamedRobot, ledger: Ledger) -> None:
    with robot.streaming():
        for space in SPACES:
            refuse(robot, ledger, "stale_sequence", stamped(zeros(space), HORIZON * DT_S + 0.01))
            refuse(robot, ledger, "future_sequence", stamped(zeros(space), -2.0))
        for seconds, reason in ((1, "stale"), (-1, "stale"), (-(2**31), "stale"), (2**31 - 1, "future")):
            message = zeros(ActionSequence.VELOCITY)
            message.header.stamp.sec = seconds
            refuse(robot, ledger, f"{reason}_sequence", message)
        for age_s in (0.15, 0.5):  # older than the one in execution
            before = int(robot.client.counts()["out_of_order"])
            refuse(robot, ledger, "stale_sequence", robot.chunk(time.time_ns() - round(age_s * 1e9)))
            assert int(robot.client.counts()["out_of_order"]) > before
        with changed(robot, publish__lead_time=0.5):  # longer than the chunk
            refuse(robot, ledger, "stale_sequence", robot.chunk(time.time_ns(), horizon=8))
        robot.wait_until_moving()


# Motions that cannot be


def test_a_chunk_that_the_robot_cannot_follow_is_refused(robot: StreamedRobot, ledger: Ledger) -> None:
    """Every position as wanted, and between them more than the joints can do."""
    with robot.streaming():
        for _ in range(3):
            # Not older than those of the stream when it arrives.
            message = robot.chunk(time.time_ns() + 300 * MILLISECOND_NS)
            data = np.asarray(message.data).reshape(HORIZON, 3)
            data[::2, 0] += 0.02
            message.data = type(message.data)("f", data.ravel().tolist())
            refuse(robot, ledger, "limits_violated", message)
        robot.wait_until_moving()


def test_limits_that_make_braking_impossible_refuse_every_end_in_motion(robot: StreamedRobot, ledger: Ledger) -> None:
    """A motion that was published before those limits continues to its own brake."""
    with robot.streaming():
        pass
    told = robot.client.set_atomically(limits__acceleration=[1e-4] * 3)
    assert not told[0] and "limits.acceleration" in told[1], "from the largest velocities nothing could be braked"
    with changed(robot, limits__velocity=[], limits__acceleration=[1e-4] * 3):
        for space in (ActionSequence.POSITION, ActionSequence.VELOCITY, ActionSequence.JERK):
            message = zeros(space)
            drift = 0.1 * np.arange(1, HORIZON + 1)[:, None] * DT_S if space == ActionSequence.POSITION else 0.1
            message.data = type(message.data)("f", (np.zeros((HORIZON, 3)) + drift).ravel().tolist())
            refuse(robot, ledger, "brake_impossible", stamped(message, 0.0))
        robot.wait_until_at_rest()


def test_a_brake_that_would_leave_the_position_limits_begins_earlier(robot: StreamedRobot) -> None:
    """The chunk keeps them; it ends on the way out, 1 mrad before them."""
    with robot.streaming():
        pass
    robot.wait_until_at_rest()
    position = robot.commanded.at(time.time_ns()).position
    drift = position + 0.3 * DT_S * np.arange(1, HORIZON + 1)[:, None]
    highest = drift[-1] + 1e-3
    with changed(robot, limits__position_min=[-9.0] * 3, limits__position_max=highest.tolist()):
        robot.client.sequences.publish(stamped(sequence(drift[None], dt=[DT_S]), 0.0))
        robot.wait_until_moving()
        robot.wait_until_at_rest()
    assert (robot.commanded.at(time.time_ns()).position <= highest + 1e-5).all()

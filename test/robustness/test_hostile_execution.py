"""A stream that a robot executes: what cannot be executed is refused, and the node tells of the motion as it is.

The robot executes all that is published; it must be left with nothing but a motion within limits, or a brake.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from hostile_ledger import Ledger
from node_fixtures import JOINTS
from node_fixtures import PARAMETERS as NODE_PARAMETERS
from preloaded_node import PreloadedNode
from streamed_robot import DT_S, HORIZON, PARAMETERS, SECOND_NS, StreamedRobot

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Committed, Stop
from traj_integrator_ros.traffic.messages import sequence, set_stamp, stamp_of
from traj_integrator_ros.traffic.node_process import NodeProcess
from traj_integrator_ros.traffic.ros_client import RosClient

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


# What the node tells of the motion in execution


def test_the_stop_service_says_how_long_and_how_far(robot: StreamedRobot) -> None:
    client = robot.client
    with robot.streaming():
        pass
    client.spin(0.2)  # the answer to the last chunk
    client.trajectories.clear()
    called_ns = time.time_ns()
    answer = client.call(Stop, "stop", Stop.Request())
    answered_ns = time.time_ns()
    client.wait_for(lambda: client.trajectories, "the stop")
    (stop,) = client.trajectories
    first, last = stop.points[0], stop.points[-1]
    assert answer.success and list(answer.joint_names) == client.joint_names
    np.testing.assert_allclose(answer.distance, np.subtract(last.positions, first.positions), atol=1e-6)
    assert np.abs(answer.distance).max() > 1e-3
    end_ns = stamp_of(stop) + last.time_from_start.sec * SECOND_NS + last.time_from_start.nanosec
    assert (end_ns - answered_ns) * 1e-9 - 1e-3 < answer.duration < (end_ns - called_ns) * 1e-9 + 1e-3


def test_committed_rows_are_what_is_commanded_then(robot: StreamedRobot) -> None:
    client, commanded = robot.client, []
    with robot.streaming(), client.periodically(0.005, lambda: commanded.append((time.time_ns(), robot.position()))):
        client.spin(0.8)
    client.spin(0.2)  # the answer to the last chunk
    stamp_ns, step_ns = time.time_ns() - 300 * MILLISECOND_NS, 20 * MILLISECOND_NS
    request = Committed.Request(dt=step_ns * 1e-9, rows=30, rows_before=10)
    request.stamp.sec, request.stamp.nanosec = divmod(stamp_ns, SECOND_NS)
    answer = client.call(Committed, "committed", request)
    assert answer.success and answer.executing, answer.message
    rows, before, measured = (
        np.reshape(getattr(answer, f"{kind}position"), (-1, 3)) for kind in ("", "commanded_", "measured_")
    )
    ahead_ns = stamp_ns + step_ns * np.arange(15, 30)
    np.testing.assert_allclose(rows[15:], robot.commanded.states(ahead_ns)[0], atol=1e-4)
    times_ns, positions = map(np.array, zip(*commanded, strict=True))
    for column, past in enumerate(positions.T):
        expected = np.interp(stamp_ns + step_ns * np.arange(-10, 0), times_ns, past)
        np.testing.assert_allclose(before[:, column], expected, atol=1e-3)
        np.testing.assert_allclose(measured[:, column], expected, atol=5e-3)
    now_ns = answer.now.sec * SECOND_NS + answer.now.nanosec
    assert answer.committed == int((now_ns + answer.lead * 1e9 - stamp_ns) / step_ns) + 1 and answer.lead >= 0.15


def test_a_robot_that_stands_still_is_noticed_and_goes_on_when_it_rests(robot: StreamedRobot) -> None:
    client = robot.client
    with changed(robot, supervision__deviation=0.05), robot.streaming():
        robot.stuck = robot.position()
        client.wait_for(lambda: client.status().level == DiagnosticStatus.ERROR, "a deviation told")
        told = client.statuses[-1].message
        assert "joint_" in told and "deviation" in told
        assert np.abs(robot.position() - robot.stuck).max() < 0.05 + 0.31 * 0.3 + 0.05, "the command runs not away"
        robot.stuck = None
        robot.wait_until_moving()

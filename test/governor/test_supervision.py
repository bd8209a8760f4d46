"""Tracking: a lag is accepted, a held robot is not, and is braked until it rests."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import NOW_S, ArmLoop, SimulatedNode, at, rejected

from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

LINE = 0.01 * np.arange(1, 101)[:, None] * np.ones(2)
"""Positions every 20 ms at 0.5 rad/s, for 2 s."""


@pytest.fixture
def node() -> SimulatedNode:
    """A node whose robot moves at 0.5 rad/s from NOW_S on."""
    node = SimulatedNode()
    node.measure(0.0, 0.5)
    node.execute(0.0, 0.5, at=NOW_S + 0.02)
    node.send(LINE)
    return node


def move(
    node: SimulatedNode, begin: float, end: float, lag: float = 0.0, held_at: float | None = None, reports: bool = False
) -> list:
    """Send joint states, and perhaps reports, at 100 Hz of a robot that lags, or is held; returns what is published."""
    published = []
    for time in np.arange(begin, end, 0.01):
        state = (held_at, 0.0) if held_at is not None else node.commanded(NOW_S + time - lag)[:2]
        node.measure(*state, now=NOW_S + time)
        if reports:
            node.report(*node.commanded(NOW_S + time)[:2], now=NOW_S + time)
        trajectory = node.tick(NOW_S + time)
        if trajectory is not None:
            published.append((time, trajectory))
    return published


def refused(node: SimulatedNode, now: float) -> Rejected:
    """The rejection of a sequence, which a caller who only asks is told, too."""
    told = rejected(node.send, LINE, now=NOW_S + now, only_checked=True)
    error = rejected(node.send, LINE, now=NOW_S + now)
    assert (told.reason, told.message) == (error.reason, error.message)
    return error


@pytest.mark.parametrize("lag", [0.0, 0.06, 0.1])
def test_a_lag_is_no_deviation_and_is_estimated_where_the_speed_changes(node, lag):
    assert not move(node, 0.0, 2.5, lag=lag)
    guard = node.published.guard
    assert np.abs(guard.monitor.error).max() < 1e-3 and not guard.reason
    assert guard.monitor.lag_s == pytest.approx(lag, abs=0.015)


def test_a_robot_that_reports_at_1_khz_and_jumps_is_braked_within_5_ms(node):
    for time in np.arange(0.0, 0.3, 0.001):
        node.measure(*node.commanded(NOW_S + time)[:2], now=NOW_S + time)
        assert node.tick(NOW_S + time) is None
    braked = None
    for time in np.arange(0.3, 0.32, 0.001):
        position, velocity = node.commanded(NOW_S + time)[:2]
        node.measure(position + 0.2, velocity, now=NOW_S + time)
        braked = time if braked is None and node.tick(NOW_S + time) is not None else braked
    assert braked is not None and braked <= 0.305


def test_a_held_robot_is_braked_once_and_goes_on_when_it_rests(node):
    assert not move(node, 0.0, 0.5)
    ((time, brake),) = move(node, 0.5, 1.6, held_at=0.24)
    assert time < 0.6
    assert brake.motion.duration < 0.3 and not brake.points.velocity[-1].any()
    assert node.published.guard.brakes == 1 and not node.published.guard.reason, "it rests"
    trajectory = node.send(0.24 + LINE, now=NOW_S + 1.6)
    np.testing.assert_allclose(trajectory.motion.begin.position, 0.24)


def test_a_brake_does_not_wait_for_a_report_that_is_late(node):
    braked = []
    for time in np.arange(0.0, 1.2, 0.01):
        position, velocity = node.commanded(NOW_S + time)[:2]
        if time < 0.5:
            node.measure(position, velocity, now=NOW_S + time)
        if not 0.97 < time < 1.05:
            node.report(position, velocity, now=NOW_S + time)
        if node.tick(NOW_S + time) is not None:
            braked.append(time)
    assert braked == [pytest.approx(1.0)], "joint states ended 0.5 s before"


@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_in_silence_brakes_and_stops_wait_until_the_motion_arrives_again_or_for_a_second(node, reports, asked):
    move(node, 0.0, 0.5, reports=reports)
    own, tried, there = node.published.last, [], []
    node.pipeline.planner.arrives = lambda again: tried.append(again) or bool(there)
    assert node.stop(NOW_S + 0.6) is None if asked else node.tick(NOW_S + 0.6) is None
    assert all(node.tick(NOW_S + time) is None for time in np.arange(0.61, 0.93, 0.01)) and not tried
    assert all(node.tick(NOW_S + time) is None for time in np.arange(1.0, 1.48, 0.01)), "the network may stand still"
    assert {(one.motion, one.points, one.stamp_ns) == (own.motion, own.points, own.stamp_ns) for one in tried} == {True}
    if not asked:
        assert node.published.guard.kind is RejectionReason.STATE_TOO_OLD
        there.append(True)
    assert node.tick(NOW_S + (1.5 if asked else 1.48)) is not None


@pytest.mark.parametrize("asked", ["plan", "stop"])
def test_without_reports_nothing_is_sent_into_a_network_that_may_stand_still(node, asked):
    move(node, 0.0, 0.5)
    rows = node.commanded(NOW_S + 0.54)[0] + LINE
    made = node.send(rows, now=NOW_S + 0.54) if asked == "plan" else node.stop(NOW_S + 0.54)
    assert made is None and node.tick(NOW_S + 0.9) is None
    expected = node.commanded(NOW_S + 0.92)
    ((time, made),) = move(node, 0.9, 0.92)
    assert time == pytest.approx(0.9), "a joint state has come"
    np.testing.assert_allclose(at(made, NOW_S + 0.92), expected, atol=1e-6)


def test_a_stop_without_reports_waits_for_less_than_half_a_second_of_silence_and_may_be_lost(node):
    move(node, 0.0, 0.5)
    assert node.stop(NOW_S + 0.6) is None and node.tick(NOW_S + 0.93) is None
    assert node.tick(NOW_S + 0.95) is not None, "0.45 s after the last joint state"
    end = np.array([0.9, -0.1])
    for time in np.arange(1.5, 2.0, 0.01):
        node.measure(end, 0.0, now=NOW_S + time)
        node.tick(NOW_S + time)
    np.testing.assert_allclose(node.send(end + LINE, now=NOW_S + 2.0).motion.begin.position, end, atol=1e-9)


@pytest.mark.parametrize("joint", [0, 1])
def test_sequences_are_refused_while_it_moves_after_a_deviation(node, joint):
    move(node, 0.0, 0.5)
    held = np.arange(2) == joint
    for time in np.arange(0.5, 0.8, 0.01):
        node.measure(np.where(held, 0.24, node.commanded(NOW_S + time)[0]), 0.3 * ~held, now=NOW_S + time)
        node.tick(NOW_S + time)
    error = refused(node, 0.8)
    assert error.reason is RejectionReason.DEVIATION and f"{'ab'[joint]} gets 0.0" in error.message


@pytest.mark.parametrize("hold", [False, True])
def test_a_stop_brakes_at_once_and_sequences_wait_until_it_is_over(node, hold):
    move(node, 0.0, 0.5)
    brake = node.stop(NOW_S + 0.5, hold=hold)
    assert not brake.points.velocity[-1].any() and 0.02 < brake.motion.duration < 0.2
    assert node.tick(NOW_S + 0.51) is None
    assert refused(node, 0.52).reason is RejectionReason.STOPPED
    move(node, 0.51, 0.8)
    if hold:
        assert "until it is released" in refused(node, 0.8).message
        assert node.stop(NOW_S + 0.8) is None
    assert node.send(node.commanded(NOW_S + 0.8)[0] + LINE, now=NOW_S + 0.8) is not None


@pytest.mark.parametrize("called", [0.0, 0.05, 0.15])
@pytest.mark.parametrize("speed", [0.0, 0.5, 1.0])
def test_a_stop_on_the_way_to_the_first_point_is_known_before(speed: float, called: float):
    node = SimulatedNode(
        publish__start_moving=True,
    )
    node.measure(0.0, speed)
    node.send(LINE)
    called += NOW_S
    assert node.stop(called) is None, "it would be executed from its middle"
    expected = node.pipeline.planner.awaited_stop(round(called * 1e9))
    assert node.tick(expected.start_ns * 1e-9 - 1e-3) is None
    made = node.tick(expected.start_ns * 1e-9 + 1e-3)
    lasts = [stop.start_ns * 1e-9 - called + stop.motion.duration for stop in (expected, made)]
    assert lasts[0] == pytest.approx(lasts[1], rel=0.05)
    np.testing.assert_allclose(expected.motion.end.position, made.motion.end.position, atol=0.02)


class Stream(ArmLoop):
    """Chunks of velocities, or of positions from the joints' own, at 10 Hz; the first joint may meet a wall."""

    def __init__(self, wall: float) -> None:
        super().__init__(SimulatedNode(), lambda _, command: np.minimum(command, [self.wall, 1.0]))
        self.wall = wall

    def go(self, speed: float, seconds: float, by: ControlSpace = ControlSpace.POSITION) -> None:
        """Send chunks that move the first joint at a speed."""
        ways = speed * 0.04 * np.arange(1, 17)[:, None] * [1.0, 0.0]

        def send(time: float) -> None:
            rows = self.place + ways if by is ControlSpace.POSITION else np.broadcast_to([speed, 0.0], (8, 2))
            self.node.send(rows, space=by, dt=0.04, now=NOW_S + time)

        self.run(seconds, send)


@pytest.mark.parametrize("by", [ControlSpace.POSITION, ControlSpace.VELOCITY])
def test_what_is_in_the_way_is_met_gently_until_it_has_gone(by: ControlSpace):
    stream = Stream(wall=0.4)
    stream.go(0.8, 8.0, by)
    commands = np.array(stream.commands)[:, 0]
    first = int(np.argmax(commands > 0.41))
    assert 2 <= stream.node.published.guard.brakes <= 8 and commands.max() < 0.55
    assert np.abs(np.diff(commands[first + 100 :])).max() < 0.26 * 0.01, "0.25 rad/s"
    stream.wall = 2.0
    stream.go(0.8, 4.0, by)
    assert stream.place[0] > 1.9, "an obstacle that has gone is none"


@pytest.mark.parametrize("reports", [True, False])
def test_what_is_met_again_and_again_is_not_pressed_further_each_time(reports: bool):
    """The command stands ahead of the arm while it is held, which is no sag to be learned."""
    stream, ahead = Stream(wall=0.1), []
    stream.reports = reports
    while stream.time < 30.0:
        brakes, begin = stream.node.published.guard.brakes, len(stream.commands)
        while stream.node.published.guard.brakes == brakes and stream.time < 40.0:
            stream.go(0.5, 0.1, ControlSpace.VELOCITY)
        stream.run(1.5)
        ahead.append(np.max(stream.commands[begin:], axis=0)[0] - stream.wall)
    assert max(ahead) < ahead[0] + 1e-3, ahead

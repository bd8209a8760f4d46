"""Reports of the controller: restarts, late messages, silence, other speeds; and past commands."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import NOW_S, SimulatedNode, at, largest, ns, rejected

from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.governor.command import Command
from traj_integrator_ros.governor.controller_reports import ControllerReport, ControllerStatus
from traj_integrator_ros.requests.rejection import RejectionReason

LINE = 0.005 * np.arange(1, 101)[:, None] * np.ones(2)
"""Positions every 20 ms at 0.25 rad/s."""


@pytest.fixture
def node() -> SimulatedNode:
    """A node whose controller reports; it executes a line from 0 since NOW_S."""
    node = SimulatedNode()
    node.measure(0.0)
    node.report(0.0)
    assert status(node) is ControllerStatus.HOLDING
    node.send(LINE)
    return node


def status(node: SimulatedNode, now: float = NOW_S) -> ControllerStatus:
    return node.published.status(ns(now))


def follow(node: SimulatedNode, begin: float, end: float, late: float = 0.0) -> None:
    """Send joint states and reports at 100 Hz of a controller that executes the published motion."""
    for time in np.arange(begin, end, 0.01):
        position, velocity, _ = node.commanded(NOW_S + time - late)
        node.measure(position, velocity, now=NOW_S + time)
        node.report(position, velocity, now=NOW_S + time)


def refused(node: SimulatedNode, now: float) -> str:
    error = rejected(node.send, LINE, now=NOW_S + now)
    assert error.reason is RejectionReason.CONTROLLER_UNAVAILABLE
    return error.message


def test_a_hold_at_an_older_end_after_a_newer_motion_is_a_restart(node):
    follow(node, 0.03, 2.6)
    (end, *_), begin = node.commanded(NOW_S + 2.6), 2.6
    made = node.send(end + LINE, now=NOW_S + begin)
    node.report(end, now=NOW_S + begin + 0.03)
    assert status(node) is ControllerStatus.LATE, "the newer one is on its way"
    assert (node.commanded(NOW_S + begin + 0.2)[0] == end).all(), "and not what is commanded until a report shows it"
    for time in np.arange(begin + 0.04, begin + 0.3, 0.01):
        node.report(*at(made, NOW_S + time)[:2], now=NOW_S + time)
    node.report(end, now=NOW_S + begin + 0.31)
    assert status(node) is ControllerStatus.RESTARTED


@pytest.mark.parametrize("acceleration", [0.0, 1.0])
@pytest.mark.parametrize("age", [0.002, 0.03])
def test_a_stop_of_anothers_motion_begins_where_that_is_on_arrival(acceleration: float, age: float):
    """The only knowledge is a report that is some time old, as after a restart of the node."""
    node = SimulatedNode(limits__velocity=[2.0] * 2, limits__acceleration=[10.0] * 2, limits__jerk=[500.0] * 2)
    node.measure(0.0, 0.5)
    reference = State(np.zeros(2), np.full(2, 0.5), np.full(2, acceleration))
    node.pipeline.report(ControllerReport(ns(NOW_S), reference), ns(NOW_S + 1e-3))
    stop = node.stop(NOW_S + age)
    for time in np.linspace(age, age + 0.02, 5):
        expected = [0.5 * time + acceleration * time**2 / 2, 0.5 + acceleration * time, acceleration]
        np.testing.assert_allclose(at(stop, NOW_S + time)[:, 0], expected, atol=1e-9)
    assert stop.motion.ends_at_rest and largest(stop.motion)[1].max() <= 10.0 + 1e-6


def test_a_restart_is_seen_and_the_next_begins_at_the_new_reference(node):
    follow(node, 0.03, 0.5)
    node.report(0.1, now=NOW_S + 0.5)
    assert status(node) is ControllerStatus.RESTARTED
    trajectory = node.send(0.1 + LINE, now=NOW_S + 0.505)
    np.testing.assert_allclose(trajectory.motion.begin.position, 0.1)
    assert not trajectory.motion.begin.velocity.any() and trajectory.start_ns == ns(NOW_S + 0.505)


@pytest.mark.parametrize("says", [True, False], ids=["with velocities", "without"])
def test_a_restart_where_the_motion_just_passes_is_seen_by_the_velocity(node, says):
    follow(node, 0.03, 0.5)
    passed = node.commanded(NOW_S + 0.5)[0]
    node.report(passed, 0.0 if says else None, now=NOW_S + 0.5)
    assert status(node) is (ControllerStatus.RESTARTED if says else ControllerStatus.EXECUTING)


def test_a_restart_near_a_motion_that_still_creeps_is_seen(node):
    """It holds 5 urad beside the motion, which moves at 1e-4 rad/s: that is more than the tolerance of time allows."""
    follow(node, 0.03, 0.5)
    planned = node.published.at(ns(NOW_S + 0.5)).motion
    speeds = [(abs(planned.at(ns(t)).velocity[0]), t) for t in NOW_S + 0.5 + np.arange(0, 3, 1e-4)]
    speed, at = next(it for it in speeds if it[0] < 1e-4)
    assert speed > 0
    node.report(planned.at(ns(at)).position[0] + 5e-6, 0.0, now=at)
    assert status(node) is ControllerStatus.RESTARTED


def test_a_replacement_that_has_not_arrived_is_late_then_a_restart(node):
    follow(node, 0.03, 0.5)
    before = node.published.at(ns(NOW_S + 0.5))
    node.send(LINE[::-1] * 0.2, now=NOW_S + 0.5)
    # At first, both motions are the same.
    for time, expected in zip(
        (0.51, 0.7, 1.1), (ControllerStatus.EXECUTING, *[ControllerStatus.LATE] * 2), strict=True
    ):
        state = before.motion.at(ns(NOW_S + time))
        node.report(state.position, state.velocity, now=NOW_S + time)
        assert status(node) is expected
    node.measure(5.0, 0.3, now=NOW_S + 1.2)
    node.report(5.0, 0.3, now=NOW_S + 1.2)
    assert status(node) is ControllerStatus.OTHER
    assert "expected it at rest" in refused(node, 1.2)


def test_a_restart_at_an_earlier_end_is_late_while_messages_travel(node):
    """The controller has lost the newest motion, of 1.5 rad, and holds its beginning: the next motion begins there."""
    follow(node, 0.03, 2.5)
    held = node.commanded(NOW_S + 2.5)[0]
    node.send(held + 3 * LINE, now=NOW_S + 2.5)
    for time in np.arange(2.65, 5.0, 0.01):
        node.measure(held, now=NOW_S + time)
        node.report(held, now=NOW_S + time)
        if not 2.99 < time < 3.03:  # half a second after it was sent
            assert (status(node) is ControllerStatus.LATE) == (time < 3.0)
    assert status(node) in (ControllerStatus.RESTARTED, ControllerStatus.HOLDING)
    trajectory = node.send(held + LINE, now=NOW_S + 5.0)
    np.testing.assert_allclose(trajectory.motion.begin.position, held, atol=1e-9)


def test_a_silent_controller_refuses_until_it_reports_again(node):
    follow(node, 0.03, 0.5)
    assert "got none for 0.3" in refused(node, 0.8)
    assert status(node, NOW_S + 0.8) is ControllerStatus.SILENT
    follow(node, 0.8, 0.82)
    assert node.send(LINE + 0.2, now=NOW_S + 0.82) is not None


@pytest.mark.parametrize(("late", "waits"), [(0.015, False), (0.017, True)])
def test_a_sequence_waits_for_a_report_that_is_overdue(node, late, waits):
    """At 100 Hz: a fifth of a period, and 4 ms in which a thread comes to its turn."""
    follow(node, 0.03, 0.5)
    at = NOW_S + 0.49 + late
    assert (node.send(LINE + 0.1, now=at) is None) == waits
    follow(node, 0.49 + late, 0.495 + late)
    assert (node.tick(at + 1e-3) is not None) == waits


def test_another_speed_is_refused(node):
    follow(node, 0.03, 0.5)
    position, velocity, _ = node.commanded(NOW_S + 0.5)
    node.report(position, velocity, now=NOW_S + 0.5, speed_scaling=1.5)
    assert status(node) is ControllerStatus.FASTER and "expected at most 1, got 1.5" in refused(node, 0.5)


# Past commands and measurements


def test_what_was_executed_stays_known_and_nothing_else_stays(node):
    was = {}
    for time in np.arange(0.02, 3.0, 0.02):
        follow(node, time - 0.02, time)
        node.send(LINE + 0.25 * time, now=NOW_S + time, stamp=NOW_S + time)
        was[ns(NOW_S + time)] = node.published.commanded(ns(NOW_S + time)).position
    known = [node.published.commanded(time_ns).position for time_ns in was]
    np.testing.assert_allclose(known, [*was.values()], atol=1e-9)
    kept = *node.published._past, *node.published._own
    lasted = sorted(one.motion.duration for one in kept)
    assert len(lasted) > 100 and lasted[len(lasted) // 2] < 0.05, "the executed part of 2 s"


def test_what_is_forgotten_of_a_robot_leaves_no_controller_that_is_silent():
    command, second_ns = Command(), 1_000_000_000
    stands = State(*np.zeros((3, 1)))
    for stamp_ns in range(second_ns, 2 * second_ns, second_ns // 50):
        command.take_report(ControllerReport(stamp_ns, stands), stamp_ns)
    assert command.heard.is_silent(4 * second_ns)
    command.clear()
    assert not command.heard.is_silent(4 * second_ns) and command.at(4 * second_ns) is None

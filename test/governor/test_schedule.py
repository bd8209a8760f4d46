"""start_from = previous: trajectories on a schedule, that take over from each other without a seam."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import HELD, NOW_S, SimulatedNode, at, limits, ns, rejected

from traj_integrator_ros.execution.limits import Limits, extremes, worst_violation
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

LEAD = 0.02


def moving_node(**parameters: object) -> SimulatedNode:
    """A node whose robot moves at 1 rad/s, from 0 at NOW_S, for 2 s; joint states do not age."""
    settings = {"start_from": "previous", "limits__start_deviation": 0.0, "state_timeout": 0.0}
    node = SimulatedNode(**settings | parameters)
    node.measure(0.0, 1.0)
    lead = node.parameters.publish_lead_time
    node.send_from((np.full(2, lead), np.ones(2)), np.ones((40, 2)), space=ControlSpace.VELOCITY, dt=0.05, took=0.001)
    assert np.allclose(node.commanded(NOW_S + 1.0), [[1.0], [1.0], [0.0]], atol=1e-6)
    return node


def positions(begin: float, count: int, dt: float = 0.05, velocity: float = 1.0) -> np.ndarray:
    """Rows on a line that passes `begin` one step before its first row."""
    return begin + velocity * dt * np.arange(1, count + 1)[:, None] * np.ones(2)


def refused(reason: RejectionReason, node: SimulatedNode, *arguments: object, **options: object) -> str:
    before = node.commanded(NOW_S + 0.5)
    error = rejected(node.send, *arguments, **options)
    assert error.reason is reason, error
    assert (node.commanded(NOW_S + 0.5) == before).all(), "what was published goes on"
    return error.message


# The schedule


@pytest.mark.parametrize("space", [*HELD, ControlSpace.BSPLINE])
@pytest.mark.parametrize("start_from", ["measured", "previous"])
def test_state_and_motion_are_continuous_at_every_seam(space: ControlSpace, start_from: str) -> None:
    """A trajectory begins with the present command, and the plan is taken up later."""
    rng = np.random.default_rng(space.value)
    node = SimulatedNode(start_from=start_from, state_timeout=0.0)
    node.execute(0.0)
    node.measure(0.0)
    scale = 0.01 if space in (ControlSpace.POSITION, ControlSpace.BSPLINE) else 0.3
    for k in range(6):
        now = NOW_S + 0.1 * k + rng.uniform(0, 0.015)
        stamp = now - rng.uniform(0, 0.15) if k % 2 else 0.0
        expected = [node.commanded(now + ahead) for ahead in (0.0, LEAD)]
        trajectory = node.send(rng.normal(scale=scale, size=(16, 2)), space=space, dt=0.05, now=now, stamp=stamp)
        assert trajectory.start_ns == ns(now) and trajectory.due_ns == ns(now + LEAD)
        assert trajectory.points.time_ns[0] == 0 and np.abs(trajectory.points.time_ns - ns(LEAD)).min() <= 1
        kept = 2 if space is ControlSpace.ACCELERATION else 3
        seam = [at(trajectory, now + ahead) for ahead in (0.0, LEAD)]
        apart = np.abs(np.array(seam) - expected).max(axis=(0, 2))[:kept]
        assert (apart < [1e-9, 1e-7, 1e-5][:kept]).all(), "but for times in whole nanoseconds"


def test_a_plan_that_is_sent_again_while_it_is_joined_changes_nothing() -> None:
    node = SimulatedNode(limits__start_deviation=0.0, state_timeout=0.0)
    node.execute(0.0)
    node.measure(0.0)
    plan, times = positions(0.03, 30, velocity=0.2), NOW_S + np.arange(0.12, 0.8, 0.01)
    first, second = (node.send(plan[2 * k :], dt=0.05, now=NOW_S + 0.1 * k) for k in range(2))
    for time_s in times:
        apart = np.abs(np.array(at(second, time_s)[:2]) - at(first, time_s)[:2]).max(axis=1)
        assert (apart < [1e-3, 1e-2]).all()


def test_the_first_trajectory_waits_for_the_controller_to_arrive() -> None:
    node = SimulatedNode(publish__bridge_time=0.3)
    node.measure(0.3)
    first = node.send(positions(0.3, 8, velocity=0.1), dt=0.05)
    assert first.start_ns == ns(NOW_S + 0.3)
    assert np.allclose(np.stack(first.motion.begin)[:2], [[0.3], [0.0]])
    assert node.send(positions(0.3, 8, velocity=0.2), dt=0.05, now=NOW_S + 0.1, stamp=7.0) is None
    assert node.send(positions(0.3, 8, velocity=-0.1), dt=0.05, now=NOW_S + 0.2) is None
    assert node.refused == [(RejectionReason.SUPERSEDED, 7.0)]
    assert node.tick(NOW_S + 0.299) is None
    expected = node.commanded(NOW_S + 0.301)
    second = node.tick(NOW_S + 0.301)
    assert np.allclose(at(second, NOW_S + 0.301), expected, atol=1e-9) and second.motion.end.position.max() < 0.3
    assert node.tick(NOW_S + 0.31) is None


def test_a_chunk_over_before_any_controller_could_take_it_up_leads_nowhere() -> None:
    node = SimulatedNode(start_from="previous", publish__bridge_time=0.3)
    node.measure(0.3)
    told = rejected(node.send, positions(0.3, 4, velocity=0.1), dt=0.05, stamp=NOW_S - 0.19)
    assert told.reason is RejectionReason.STALE_SEQUENCE


def test_what_waits_is_refused_by_a_stop() -> None:
    node = SimulatedNode(publish__bridge_time=0.3)
    node.measure(0.3)
    node.send(positions(0.3, 8, velocity=0.1), dt=0.05)
    node.send(positions(0.3, 8, velocity=0.2), dt=0.05, now=NOW_S + 0.1, stamp=7.0)
    node.stop(NOW_S + 0.2)
    assert node.refused == [(RejectionReason.STOPPED, 7.0)]
    for ahead in (0.301, 0.35, 3.0):
        node.tick(NOW_S + ahead)
    assert (node.commanded(NOW_S + 5.0)[0] < 0.35).all(), "the first one, and not the second"


# Alignment by the sequence's stamp


def test_steps_that_are_over_are_dropped_and_the_rest_of_one_counts() -> None:
    node = moving_node()
    stamp = NOW_S + 0.37
    trajectory = node.send(positions(0.37, 16), dt=0.05, now=NOW_S + 0.5, stamp=stamp)
    assert trajectory.dropped == 3, "0.15 s of steps are over 0.15 s after the stamp"
    trajectory = node.send(positions(0.38, 16), dt=0.05, now=NOW_S + 0.51, stamp=NOW_S + 0.39)
    assert trajectory.dropped == 2
    rest = trajectory.points.time_ns - ns(LEAD + 0.01)
    assert np.abs(rest).min() <= 10, "of the third step"


@pytest.mark.parametrize("space", HELD)
def test_the_rest_of_a_sequence_is_what_is_left_of_the_whole(space: ControlSpace) -> None:
    """A late sequence with its own start goes where it would have gone in time."""
    rng = np.random.default_rng(5)
    start, actions = rng.normal(scale=0.1, size=(3, 2)), 0.05 * np.sin(0.3 * np.arange(32).reshape(16, 2))
    options = {"start_from": "previous", "limits__start_deviation": 0.0, "publish__bandwidth": 10.0}
    fresh, late = (SimulatedNode(**options) for _ in range(2))
    for node, now in ((fresh, NOW_S - LEAD), (late, NOW_S + 0.23)):
        node.measure(start[0], start[1], now=now)
        node.execute(*start, at=now + LEAD)
    options = {"space": space, "dt": 0.05, "start": tuple(start), "stamp": NOW_S}
    whole = fresh.send(actions, now=NOW_S - LEAD, **options)
    rest = late.send(actions, now=NOW_S + 0.23, **options)
    assert rest.dropped == 5
    for time_s in (0.7, 0.71, 0.79):
        assert np.allclose(at(rest, NOW_S + time_s), at(whole, NOW_S + time_s), rtol=1e-3, atol=1e-4)


STALE, FUTURE = RejectionReason.STALE_SEQUENCE, RejectionReason.FUTURE_SEQUENCE


@pytest.mark.parametrize(
    ("count", "stamp", "options", "reason", "told"),
    [
        (4, 0.25, {}, STALE, ("all 4 steps are over", "0.250 s ago", "0.070 s before")),
        (4, 0.5, {"publish__lead_time": 0.3}, STALE, ("in 0.300 s, parameter publish.lead_time",)),
        (4, 1.6, {}, FUTURE, ("at most 1 s ahead", "got 1.100 s")),
    ],
    ids=["over", "lead time longer than the chunk", "too far ahead"],
)
def test_a_sequence_that_is_over_or_far_ahead_is_refused_with_its_ages(count, stamp, options, reason, told) -> None:
    node = moving_node(**options)
    message = refused(reason, node, positions(0.0, count), dt=0.05, now=NOW_S + 0.5, stamp=NOW_S + stamp)
    assert all(part in message for part in told)


def test_until_a_stamp_in_the_future_the_robot_continues_as_before() -> None:
    node = moving_node()
    before = [node.commanded(NOW_S + t) for t in (0.55, 0.7, 0.79)]
    trajectory = node.send(positions(0.8, 8), dt=0.05, now=NOW_S + 0.5, stamp=NOW_S + 0.8)
    for time_s, state in zip((0.55, 0.7, 0.79), before, strict=True):
        assert np.allclose(at(trajectory, NOW_S + time_s), state, atol=1e-8)
    assert np.allclose(at(trajectory, NOW_S + 1.0)[0], 1.0, atol=1e-5)


def test_a_chunk_that_began_before_the_present_one_is_refused() -> None:
    node = moving_node()
    node.send(positions(0.4, 16), dt=0.05, now=NOW_S + 0.5, stamp=NOW_S + 0.4)
    older = {"dt": 0.05, "now": NOW_S + 0.52, "stamp": NOW_S + 0.3}
    told, message = (refused(STALE, node, positions(0.3, 16), **older, only_checked=only) for only in (True, False))
    assert told == message and "began 0.220 s ago, before the sequence in execution" in message
    assert node.published.executed.report().out_of_order == 1
    assert node.send(positions(0.4, 16), dt=0.05, now=NOW_S + 0.53, stamp=NOW_S + 0.4) is not None, "the same one again"


# The difference fades


@pytest.mark.parametrize("dt", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("behind", [0.0, 0.04])
def test_a_difference_from_rows_that_are_over_fades(dt: float, behind: float) -> None:
    """A late sequence without a start is followed as if it had come at its stamp."""
    node, ago = moving_node(), 2 * dt
    stamp = NOW_S + 0.5 - ago
    trajectory = node.send(positions(0.5 - ago - behind, round(0.8 / dt), dt), dt=dt, now=NOW_S + 0.5, stamp=stamp)
    assert np.allclose(at(trajectory, NOW_S + 0.52), [[0.52], [1.0], [0.0]], atol=1e-5)
    assert np.allclose(trajectory.seam_offset[0], behind, atol=1e-5)
    for faded in np.arange(0.0, 0.5, 0.01):  # as three critically damped poles, 2 % for intervals of constant jerk
        left = behind * (1 + 5 * np.pi * faded + (5 * np.pi * faded) ** 2 / 2) * np.exp(-5 * np.pi * faded)
        time_s = NOW_S + 0.52 + faded
        assert np.allclose(at(trajectory, time_s)[0], time_s - NOW_S - behind + left, atol=1e-5 + 0.03 * behind)
    speed = trajectory.motion.states_at(np.linspace(0, 0.5, 1000))[1]
    assert speed.min() > 0.5, "slower, but never backwards"


@pytest.mark.parametrize(("bandwidth", "acceleration"), [(2.5, 25.0), (2.5, 5.0), (10.0, 25.0)])
def test_a_faster_plan_is_joined_within_the_limits_however_long_that_takes(
    bandwidth: float, acceleration: float
) -> None:
    given = {"velocity": np.full(2, 4.0), "acceleration": np.full(2, acceleration), "jerk": np.full(2, 500.0)}
    node = moving_node(publish__bandwidth=bandwidth, **limits(**given))
    faster = positions(0.52, 30, velocity=3.0)  # to take up 2 rad/s in 0.2 s needs 39 rad/s^2
    trajectory = node.send(faster, dt=0.05, now=NOW_S + 0.5)
    assert worst_violation(trajectory.motion, Limits(**given)) is None
    assert np.allclose(at(trajectory, NOW_S + 0.52 + 29 * 0.05)[0], faster[28], atol=1e-5), "then the plan is followed"


# Messages and counts


def test_what_happens_at_replacements_is_reported() -> None:
    node = moving_node()
    node.published.executed.report()
    chunk = positions(0.4, 16), NOW_S + 0.45
    node.send(chunk[0], dt=0.05, now=NOW_S + 0.5, stamp=chunk[1], took=0.005)
    node.send(chunk[0], dt=0.05, now=NOW_S + 0.6, stamp=chunk[1], took=0.030)
    report = node.published.executed.report()
    assert report.seam_offset[0] == pytest.approx(0.05, abs=1e-3)
    assert (report.late, report.starved, report.brakes, report.dropped_steps) == (1, 0, 0, 4)
    assert report.lead_margin_least_s == pytest.approx(-0.010) and report.lead_margin_median_s == pytest.approx(0.0025)
    assert node.published.executed.report().seam_offset == (0.0, 0.0, 0.0), "since the report before"


def test_brakes_and_chunks_that_come_too_late_for_them_are_counted() -> None:
    node = moving_node()
    node.published.executed.observe(node.published.last, ns(NOW_S + 1.9))
    assert node.published.executed.report().brakes == 0
    node.published.executed.observe(node.published.last, ns(NOW_S + 2.06))
    assert (node.published.executed.report().brakes, node.published.executed.report().starved) == (1, 0)
    trajectory = node.send(positions(2.08, 8), dt=0.05, now=NOW_S + 2.06)
    assert (node.published.executed.report().brakes, node.published.executed.report().starved) == (1, 1)
    assert trajectory.motion.begin.velocity.min() > 0.1, "the brake is taken back where it has come to"


# Clocks


@pytest.mark.parametrize("back", [0.006, 0.05, 0.3, 100.0])
def test_a_clock_that_jumps_back_is_reported_and_forgets_the_motion(back: float) -> None:
    """After a short jump of the clock, the joint state is too old, but the published motion is not."""
    node = moving_node(publish__start_moving=True)
    node.send(positions(0.5, 16), dt=0.05, now=NOW_S + 0.5)
    error = rejected(node.send, positions(0.5 - back, 16), dt=0.05, now=NOW_S + 0.5 - back)
    assert error.reason is RejectionReason.CLOCK_JUMPED_BACK
    node.measure(0.5, 1.0, now=NOW_S + 0.5 - back)
    trajectory = node.send(positions(0.52, 16), dt=0.05, now=NOW_S + 0.5 - back)
    assert np.allclose(np.stack(trajectory.motion.begin)[:2], [[0.5 + 0.2], [1.0]]), "where it will be"


@settings(max_examples=25)
@given(jumps=st.lists(st.floats(-0.5, 1.0), min_size=1, max_size=6))
def test_for_any_jump_of_the_clock_the_last_trajectory_ends_at_rest(jumps: list[float]) -> None:
    node = moving_node()
    now = NOW_S + 0.3
    for jump in jumps:
        now += jump
        state = node.published.commanded(ns(now))
        position = 0.0 if state is None else state.position
        try:
            node.measure(position, now=now)
            trajectory = node.send(positions(float(np.max(position)), 8), dt=0.05, now=now, stamp=now - 0.1)
        except Rejected as refusal:
            assert refusal.reason in (RejectionReason.CLOCK_JUMPED_BACK, RejectionReason.STALE_SEQUENCE)
            continue
        if trajectory is None:  # the controller is on its way to the first point
            continue
        assert not trajectory.points.velocity[-1].any()
        assert trajectory.start_ns >= ns(now)


def test_velocities_are_stopped_before_a_limit_they_lead_to() -> None:
    """From a faster command, the rows are passed a little beyond."""
    given = limits(velocity=2.0, acceleration=10.0, jerk=200.0, position_max=0.545, position_min=-5.0)
    node = SimulatedNode(start_from="previous", **given)
    node.execute(0.0, 0.7, lasts=0.5)
    node.measure(0.0, 0.7)
    trajectory = node.send(np.full((10, 2), 0.5), space=ControlSpace.VELOCITY, dt=0.1)
    assert trajectory.points.position[-1] == pytest.approx([0.545] * 2, abs=1e-6)
    assert extremes(trajectory.motion)[1, 0].max() <= 0.545 + 1e-6

"""Joint states are believed where joints can have come from the last ones; contradictions are named, and stop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import NOW_S, SimulatedNode, rejected

from traj_integrator_ros.requests.rejection import RejectionReason

GIVEN = {"limits__velocity": [2.0, 2.0], "limits__acceleration": [10.0, 10.0], "limits__jerk": [200.0, 200.0]}


def moving(**parameters: object) -> SimulatedNode:
    """A node whose robot moves at 0.5 rad/s from NOW_S on, for 4 s."""
    node = SimulatedNode(**GIVEN, **parameters)
    node.measure(0.0, now=NOW_S - 0.02)
    node.plan([0.5, 4.0, 4.5], np.array([[0.1], [1.85], [2.0]]) * np.ones(2))
    return node


def command(node: SimulatedNode, now: float) -> np.ndarray:
    """Commanded position and velocity, `[2, dof]`; at rest before the motion begins."""
    state = node.published.commanded(round(now * 1e9))
    return np.zeros((2, 2)) if state is None else np.stack(state[:2])


def measured(node: SimulatedNode, position: object, now: float, publisher: int = 0) -> RejectionReason | None:
    """Why a joint state is not believed."""
    told = len(node.warnings)
    node.measure(position, now=now, publisher=publisher)
    return node.warnings[told].reason if len(node.warnings) > told else None


@settings(max_examples=8, deadline=None)
@given(st.floats(0.2, 3.0), st.sampled_from([-1.0, 1.0]), st.integers(0, 1), st.integers(50, 200))
def test_one_impossible_state_is_told_and_brakes_nothing(size: float, sign: float, joint: int, at: int) -> None:
    node = moving()
    for tick in range(250):
        now = NOW_S + 0.01 * tick
        wrong = sign * size * (np.arange(2) == joint) * (tick == at)
        reason = measured(node, command(node, now)[0] + wrong, now)
        assert (reason is RejectionReason.CONTRADICTORY_STATE) == (tick == at)
        assert node.tick(now) is None
    assert not node.published.guard.brakes


def test_a_second_state_that_agrees_with_an_impossible_one_is_braked_for() -> None:
    node, braked = moving(), []
    for tick in range(120):
        now = NOW_S + 0.01 * tick
        measured(node, command(node, now)[0] + 0.3 * (tick >= 100), now)
        if node.tick(now) is not None:
            braked.append(tick)
    assert braked == [101] and node.published.guard.kind is RejectionReason.DEVIATION


@settings(max_examples=10, deadline=None)
@given(st.floats(-3.0, 3.0), st.sampled_from([1, 2, 3, 10]), st.booleans(), st.integers(1, 2))
def test_publishers_that_contradict_each_other_stop_the_motion(
    place: float, every: int, reports: bool, second: int
) -> None:
    """A relay may forward the states of two robots, as one publisher."""
    node, ways = moving(), []
    for tick in range(300):
        now = NOW_S + 0.01 * tick
        position, velocity = command(node, now)
        measured(node, position, now, 1)
        if tick >= 100 and tick % every == 0:
            measured(node, place, now + 0.003, second)
        if reports and tick % 2 == 0:
            node.report(position, velocity, now=now)
        node.tick(now + 0.005)
        ways.append(position)
    if np.abs(np.array(ways)[100:] - place).min() > 0.1:
        error = rejected(node.send, ways[-1] + np.zeros((10, 2)), now=now + 0.006)
        assert error.reason is RejectionReason.CONTRADICTORY_STATE and "two publishers" in error.message
        assert np.ptp(np.array(ways)[150:], axis=0).max() < 1e-9, "it stands"


@settings(max_examples=6, deadline=None)
@given(st.floats(0.3, 3.0), st.integers(2, 20), st.integers(0, 2**16))
def test_a_second_publisher_that_is_faster_is_never_believed(place: float, times: int, seed: int) -> None:
    node, random, told = moving(), np.random.default_rng(seed), set()
    period = 0.02
    for tick in range(60):
        now = NOW_S + period * tick
        measured(node, command(node, now)[0], now, 1)
        for at in now + period * np.sort(random.uniform(0.02, 0.98, times if tick >= 40 else 0)):
            told.add(measured(node, place, at, 2))
            node.tick(at)
    assert told == {RejectionReason.CONTRADICTORY_STATE}
    assert node.published.guard.kind is RejectionReason.CONTRADICTORY_STATE and node.published.guard.brakes == 1


@pytest.mark.parametrize("count", [2, 5])
def test_a_relay_of_two_robots_is_named_however_fast_the_second_is(count: int) -> None:
    node, told = moving(), []
    for tick in range(60):
        now = NOW_S + 0.02 * tick
        measured(node, command(node, now)[0], now, 1)
        for at in now + 0.02 * np.linspace(0.1, 0.9, count if tick >= 40 else 0):
            measured(node, 1.5, at, 1)
            told.append(node.tick(at))
    assert "two publishers" in rejected(node.pipeline.joint_states.latest, round(now * 1e9), 0.0).message
    assert any(told) and node.published.guard.kind is RejectionReason.CONTRADICTORY_STATE


@pytest.mark.parametrize("away", [0.15, 0.6, -1.5])
@pytest.mark.parametrize("gap", [0.02, 0.4, 1.5])
@pytest.mark.parametrize("reports", [False, True])
def test_where_a_driver_is_started_again_elsewhere_the_next_plan_begins(away: float, gap: float, reports: bool) -> None:
    node = moving(start_from="previous")
    for tick in range(600):
        now, ended = NOW_S + 0.01 * tick, 1.0
        position, velocity = command(node, min(now, NOW_S + ended))
        if now - NOW_S < ended or now - NOW_S > ended + gap:
            restarted = now - NOW_S > ended
            measured(node, position + away * restarted, now, 1 + restarted)
        if reports and now - NOW_S < ended:
            node.report(position, velocity, now=now)
        elif reports and now - NOW_S > ended + gap:
            node.report(position + away, now=now)
        node.tick(now)
    there = position + away
    assert not node.published.guard.reason
    assert node.send(there + np.zeros((10, 2)), now=now, stamp=now) is not None
    for tick in range(100):
        assert measured(node, there, now + 0.01 * tick, 2) is None
        assert node.tick(now + 0.01 * tick) is None, "nothing brakes"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.01, 0.02, 0.037, 0.05]), min_size=10, max_size=30), st.sampled_from([1, -1]))
def test_a_joint_that_a_hand_leads_on_is_no_second_publisher(steps: list[float], sign: int) -> None:
    node, place = SimulatedNode(**GIVEN), 0.0
    for tick, step in enumerate([0.0] * 60 + steps):
        place, now = place + sign * step, NOW_S + 0.01 * tick
        node.measure([place, 0.3], now=now)
        assert node.pipeline.joint_states.believed.contradiction(round(now * 1e9)) is None


@pytest.mark.parametrize("count", [2, 3, 4, 5, 20])
@pytest.mark.parametrize("first", [0, 1])
def test_no_first_motion_begins_on_states_that_contradict_each_other(count: int, first: int) -> None:
    node = SimulatedNode(**GIVEN)
    for k in range(count):
        measured(node, 0.8 * ((k + first) % 2), NOW_S + 0.005 * k)
    error = rejected(node.send, 0.8 + np.zeros((10, 2)), now=NOW_S + 0.005 * count)
    assert error.reason is RejectionReason.CONTRADICTORY_STATE


def test_a_continuous_joint_that_passes_pi_is_believed() -> None:
    node = SimulatedNode(**GIVEN, limits__continuous=["a"])
    for tick in range(200):
        angle = 3.0 + 0.005 * tick
        wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
        assert measured(node, [wrapped, 0.0], NOW_S + 0.01 * tick) is None
    told = [measured(node, position, NOW_S + 2.0) for position in ([wrapped + 2.0, 0.0], [wrapped, 2 * np.pi])]
    assert told == [RejectionReason.CONTRADICTORY_STATE] * 2, "a joint that is not continuous has no turns"

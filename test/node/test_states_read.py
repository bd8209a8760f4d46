"""Which joint states a node reads: few of them suffice to supervise the robot, and to tell two publishers apart."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.governor.measured import JointStates
from traj_integrator_ros.node.states import worth_reading

pytestmark = pytest.mark.ros
BEGIN_NS, SECOND, LASTS_S, JOINS_S = 10**9, 1e9, 1.2, 0.6
ROBOT, OTHER = (bytes([number]) * 16 for number in (1, 2))


def arrivals(period_s: float, after_s: float, place: float, sender: bytes, random: np.random.Generator) -> list[tuple]:
    """Times of arrival, ns, positions and senders of a publisher whose states are late by up to 0.2 ms."""
    times = np.arange(after_s, LASTS_S, period_s) + random.uniform(
        0.0, 2e-4, len(np.arange(after_s, LASTS_S, period_s))
    )
    return [(BEGIN_NS + round(time * SECOND), place, sender) for time in times]


def read(messages: list[tuple], poll_s: float, states: JointStates) -> tuple[list[int], list[str]]:
    """Read messages as a node that looks every `poll_s`; returns when each arrived that was read, and what was told."""
    messages, read_ns, taken, told, now_ns = sorted(messages), {}, [], [], BEGIN_NS
    while messages:
        now_ns += round(poll_s * SECOND)
        waiting = [one for one in messages if one[0] <= now_ns]
        messages = messages[len(waiting) :]
        informed = [
            ((place, sender), {"publisher_gid": {"data": list(sender)}, "received_timestamp": at_ns})
            for at_ns, place, sender in waiting
        ]
        for (place, sender), info in worth_reading(informed, read_ns, partial(states.believed.doubts, now_ns)):
            at_ns = info["received_timestamp"]
            states.update(["a"], np.array([place]), np.zeros(1), at_ns, now_ns, hash(sender))
            taken.append(at_ns)
            told += [states.doubted.message] if states.doubted else []
    return taken, told


def believing() -> JointStates:
    states = JointStates(("a",))
    states.believed.configure(np.array([2.0]), np.ones(1), np.zeros(1, bool))
    return states


PERIODS = st.sampled_from([0.001, 0.002, 0.004, 0.008, 0.01, 0.0125, 0.02])


@settings(max_examples=40, deadline=None)
@given(PERIODS, PERIODS, st.floats(0.0, 1.0), st.sampled_from([0.01, 0.05]), st.integers(0, 2**16))
def test_a_second_publisher_is_recognized_though_not_all_states_are_read(
    period_s: float, other_s: float, phase: float, poll_s: float, seed: int
) -> None:
    states, random = believing(), np.random.default_rng(seed)
    robot = arrivals(period_s, 0.0, 0.5, ROBOT, random)
    other = arrivals(other_s, JOINS_S + phase * period_s, 0.0, OTHER, random)
    _, told = read(robot + other, poll_s, states)
    assert {one.position[0] for one in states.recent} == {0.5}
    assert "has two publishers" in told[-1]


@settings(max_examples=20, deadline=None)
@given(PERIODS, st.sampled_from([0.01, 0.05]), st.integers(0, 2**16))
def test_states_are_read_10_ms_apart_and_the_newest_at_once(period_s: float, poll_s: float, seed: int) -> None:
    sent = arrivals(period_s, 0.0, 0.5, ROBOT, np.random.default_rng(seed))
    times = np.array(read(sent, poll_s, believing())[0]) / SECOND
    assert np.diff(times).max() <= 0.01 + period_s + 2e-4
    assert len(times) <= LASTS_S / max(period_s, 0.01) + LASTS_S / poll_s + 1
    assert times[-1] == sent[-1][0] / SECOND

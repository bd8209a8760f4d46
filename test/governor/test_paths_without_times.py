"""Paths without times, from rest and from motion, timed in threads."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import largest_jumps
from pipelines import NOW_S, Later, SimulatedNode, largest, limits, ns


@pytest.fixture
def node() -> SimulatedNode:
    """A node whose threads finish when a test says so, with a robot at rest."""
    given = limits(velocity=1.0, acceleration=8.0, jerk=80.0)
    made = SimulatedNode(**given, limits__start_deviation=0.0, position_trajectory__without_times="path")
    made.seek_in(Later())
    made.execute(0.0)
    made.measure(0.0)
    return made


WAY = np.array([[0.2, 0.0], [0.4, -0.3], [0.1, -0.1]])


def along(node: SimulatedNode, now: float) -> None:
    """Send a path that waits for its thread."""
    assert node.plan(np.zeros(len(WAY)), WAY, now=now) is None


@pytest.mark.parametrize("late", [0.01, 0.5])
def test_a_path_from_rest_is_timed_once_however_long_that_takes(node: SimulatedNode, late: float) -> None:
    along(node, NOW_S)
    threads = node.threads
    threads.work()
    made = node.tick(NOW_S + late)
    assert made is not None and not threads.submitted
    assert made.due_ns >= ns(NOW_S + late) and not made.motion.begin.velocity.any()
    np.testing.assert_allclose(made.motion.end.position, WAY[-1], atol=1e-9)


@pytest.mark.parametrize("speed", [0.0, 0.3, -0.8])
def test_a_path_begins_where_a_moving_robot_can_be_stopped(node: SimulatedNode, speed: float) -> None:
    node.execute([0.0, 0.0], [speed, 0.5 * speed], lasts=2.0)
    along(node, NOW_S)
    made, now = None, NOW_S
    while made is None and now < NOW_S + 1:
        node.threads.work()
        made, now = node.tick(now), now + 0.01
    assert (
        largest_jumps(made.motion)[:2].max() < 1e-6
        and (largest(made.motion) <= np.array([[1.0], [8.0], [80.0]]) * 1.001).all()
    )
    times = np.linspace(0, made.motion.duration, 4000)
    position, velocity = made.motion.states_at(times, 2)
    rests = np.flatnonzero(np.abs(velocity).max(axis=1) < 1e-3)
    assert speed == 0 or rests[0] < len(times) - 1, "it is stopped first"
    for row in WAY:
        assert np.abs(position - row).max(axis=1).min() < 2e-3, row

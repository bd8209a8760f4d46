"""Streams that lead a joint to a limit of its position and back, and hold it there, beside a joint that goes on."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import NOW_S, ArmLoop, SimulatedNode, rejected

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.requests.rejection import RejectionReason

LIMIT_SLACK = 1e-7
"""Slack for rounding, rad or m."""


def minimum_jerk(time: np.ndarray, duration: float) -> np.ndarray:
    """Minimum-jerk share of a way from rest to rest."""
    share = np.clip(time / duration, 0.0, 1.0)
    return 10 * share**3 - 15 * share**4 + 6 * share**5


def limited(low: float, high: float) -> SimulatedNode:
    """A node for an arm's joint and a joint with this range beside it."""
    size = high - low
    return SimulatedNode(
        2,
        start_from="previous",
        limits__velocity=[2.0, 4.0 * size],
        limits__acceleration=[10.0, 40.0 * size],
        limits__jerk=[500.0, 2000.0 * size],
        limits__position_min=[-2.9, low],
        limits__position_max=[2.9, high],
    )


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.04), (-2.9, 2.9)])
@pytest.mark.parametrize("dt", [0.02, 0.05])
@pytest.mark.parametrize("opens", [True, False])
def test_a_joint_that_comes_to_rest_at_its_limit_disturbs_no_chunk(
    low: float, high: float, dt: float, opens: bool
) -> None:
    begin, end = (low, high) if opens else (high, low)

    def plan(times: np.ndarray) -> np.ndarray:
        there = minimum_jerk(times - 0.2, 0.9) - minimum_jerk(times - 1.6, 0.9)
        return np.stack([0.8 * minimum_jerk(times, 2.5), begin + (end - begin) * there], -1)

    arm = ArmLoop(limited(low, high))
    arm.held, ahead = plan(np.zeros(1))[0], dt * np.arange(1, 25)
    arm.run(3.0, lambda time: arm.node.send(plan(time + ahead), dt=dt, now=NOW_S + time, stamp=NOW_S + time))
    commanded = np.array(arm.commands)
    meant = plan(0.01 * np.arange(len(commanded)))
    assert not arm.refused, arm.refused[0]
    assert (commanded[:, 1] >= low - LIMIT_SLACK).all() and (commanded[:, 1] <= high + LIMIT_SLACK).all()
    off = np.abs(commanded - meant)[20:].max(axis=0)
    assert off[0] < 1e-3 and off[1] < 5e-3 * (high - low)


@pytest.mark.parametrize("beyond", [0.001, 0.1])
def test_rows_beyond_a_limit_are_refused_in_proportion_to_the_range(beyond: float) -> None:
    """Up to three hundredths of the travel, the joint stays at its limit; 40 um and 4 mm of a finger."""
    node = limited(0.0, 0.04)
    node.report([0.0, 0.02]), node.measure([0.0, 0.02])
    rows = 0.02 + (0.02 + 0.04 * beyond) * minimum_jerk(0.04 * np.arange(1, 25), 0.8)
    if beyond < 0.03:
        assert extremes(node.send(np.stack([0 * rows, rows], -1), dt=0.04).motion)[1, 0, 1] <= 0.04 + LIMIT_SLACK
        return
    error = rejected(node.send, np.stack([0 * rows, rows], -1), dt=0.04)
    assert error.reason is RejectionReason.LIMITS and "position of b exceeds its limit" in error.message

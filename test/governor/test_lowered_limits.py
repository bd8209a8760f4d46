"""Limits that change in motion hold at once: the motion in execution is slowed, or else stopped."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import NOW_S, SimulatedNode, largest, limits

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.governor.executable import ExecutableTrajectory

GIVEN = limits(velocity=2.0, acceleration=8.0, jerk=80.0, position_max=5.0) | {"start_from": "previous"}
STEPS = np.arange(1, 101)[:, None] / 100
GOAL = np.array([1.6, 0.2])
PLAN = (10 * STEPS**3 - 15 * STEPS**4 + 6 * STEPS**5) * GOAL
"""The plan lasts 2 s, with up to 1.5 rad/s, 2.3 rad/s^2 and 12 rad/s^3."""
JOINED_RAD = 2e-4
"""Distance of each joint from the straight line while it joins the first row by itself."""
KEPT = 1 + 1e-3
"""The limits with the node's tolerance, 0.1 %."""


def lowered(into: float, ends: str = "stop", **changes: object) -> tuple[ExecutableTrajectory | None, SimulatedNode]:
    """The trajectory that is published when parameters change `into` s after the beginning of `PLAN`."""
    node = SimulatedNode(**GIVEN, publish__end=ends)
    node.measure(0.0)
    node.execute(0.0)
    assert node.send(PLAN, dt=0.02, stamp=NOW_S + 0.02)
    now = NOW_S + 0.02 + into
    node.measure(*node.commanded(now)[:2], now=now)
    assert node.tick(now) is None
    node.pipeline.reconfigure(SimulatedNode(**GIVEN | changes).parameters)
    return node.tick(now), node


@pytest.mark.parametrize("into", [0.1, 0.2])
@pytest.mark.parametrize(
    "changed",
    [{"velocity": 1.2}, {"acceleration": 2.0}, {"velocity": 0.9, "acceleration": 4.0, "jerk": 60.0}, {"jerk": 11.0}],
    ids=lambda changed: " ".join(changed),
)
def test_a_motion_that_would_exceed_them_later_is_slowed_along_its_path(into: float, changed: dict) -> None:
    within, _ = lowered(into, **limits(**changed))
    assert within is not None and within.delay > 0 and not within.topic
    taken_up = within.motion.from_time((within.due_ns - within.start_ns) * 1e-9)
    asked = dict(zip(("velocity", "acceleration", "jerk"), largest(taken_up).max(axis=1), strict=True))
    assert all(asked[name] <= value * KEPT for name, value in changed.items()), asked
    np.testing.assert_allclose(within.motion.end.position, GOAL, atol=1e-6)
    positions = within.motion.states_at(np.linspace(0, within.motion.duration, 500))[0]
    np.testing.assert_allclose(positions[:, 1], positions[:, 0] * GOAL[1] / GOAL[0], atol=JOINED_RAD)


@pytest.mark.parametrize("velocity", [1.2, 0.1])
def test_a_robot_that_is_too_fast_is_stopped(velocity: float) -> None:
    within, node = lowered(1.0, **limits(velocity=velocity))
    stop = node.stop(within.start_ns * 1e-9)
    assert within.delay == 0.0 and within.motion.ends_at_rest
    assert within.motion.duration == pytest.approx(stop.motion.duration, abs=1e-6), "as fast as it may"
    speeds = np.abs(within.motion.states_at(np.linspace(0.05, within.motion.duration, 200))[1])
    assert (np.diff(speeds.max(axis=1)) <= 1e-9).all()


def test_a_robot_stays_within_a_limit_of_positions_that_comes_before_it() -> None:
    within, _ = lowered(0.6, **limits(position_max=0.8))
    assert extremes(within.motion)[1, 0].max() <= 0.8


@pytest.mark.parametrize(
    "changes",
    [
        limits(velocity=1.6),
        limits(velocity=3.0, jerk=100.0),
        limits(velocity=1.0) | {"limits__action": "warn"},
        {"publish__lead_time": 0.05},
        limits(position_max=1.7),
    ],
    ids=["kept", "raised", "warn", "another parameter", "further than it goes"],
)
def test_a_motion_that_keeps_them_or_need_not_goes_on(changes: dict) -> None:
    assert lowered(0.7, **changes)[0] is None


def test_a_stream_goes_on_within_them() -> None:
    node = SimulatedNode(**GIVEN)
    node.measure(0.0)
    node.execute(0.0)
    speeds, refused = [], 0
    for cycle in range(160):
        now = NOW_S + 0.02 * cycle
        node.measure(*node.commanded(now)[:2], now=now)
        if cycle == 60:
            node.pipeline.reconfigure(SimulatedNode(**GIVEN | limits(velocity=0.5)).parameters)
        node.tick(now)
        if cycle % 5 == 0:
            times = 0.02 * np.arange(cycle + 1, cycle + 31)[:, None]
            rows = (times - 0.5 * np.minimum(times, 1.0) * (2 - np.minimum(times, 1.0))) * [1.0, 0.2]
            try:
                node.send(rows, now=now, stamp=now)
            except Exception as error:
                assert "limits_violated" in str(error)
                refused += 1
        speeds.append(np.abs(node.commanded(now + 0.019)[1]).max())
    assert max(speeds[50:60]) > 0.9 and max(speeds[75:]) <= 0.5 * KEPT
    assert max(speeds[-20:]) > 0.4 and refused <= 3, "while it is too fast"

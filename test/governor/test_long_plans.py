"""Plans of thousands of points: those within limits pass, noise is taken out, and the others are slowed."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import NOW_S, SimulatedNode, rejected
from plans_within_limits import GIVEN, GOAL_RAD, ORDERS, SLACK, VALUES, limits, played

from traj_integrator_ros.execution.bounds import Bounds
from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.governor.executable import ExecutableTrajectory

DENSE = {300: 6.0, 2000: 2.0}
"""Duration, s, by the number of points."""
FIELDS = {"positions": (), "velocities": (1,), "accelerations": (1, 2)}
NOISE_RAD, QUANTUM_RAD = 1e-4, 2e-4
MOVED_RAD = 5e-3


def smooth_plan(count: int, duration: float, way: float) -> tuple[np.ndarray, ...]:
    """Times, positions, velocities and accelerations of a quintic from rest to rest, one row a step."""
    share = np.arange(1, count + 1) / count
    parts = (
        10 * share**3 - 15 * share**4 + 6 * share**5,
        (30 * share**2 - 60 * share**3 + 30 * share**4) / duration,
        (60 * share - 180 * share**2 + 120 * share**3) / duration**2,
    )
    return share * duration, *(np.outer(part, [way, -way / 2]) for part in parts)


def planned(times: np.ndarray, rows: np.ndarray, **rates: np.ndarray) -> ExecutableTrajectory:
    node = SimulatedNode(2, **limits(GIVEN["complete"], 2))
    node.measure(0.0)
    return node.plan(times, rows, **rates)


def assert_within_limits(trajectory: ExecutableTrajectory) -> None:
    reached = np.abs(extremes(played(trajectory))).max(axis=0).max(axis=1)
    for name, order in ORDERS.items():
        assert reached[order] <= VALUES[name] * (1 + 10 * SLACK), name


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("count", DENSE)
def test_dense_plans_within_limits_pass_and_others_are_slowed(count: int, fields: str) -> None:
    rates = ("velocities", "accelerations")
    times, rows, *parts = smooth_plan(count, DENSE[count], 0.4)
    passed = planned(times, rows, **{rates[k - 1]: parts[k - 1] for k in FIELDS[fields]})
    assert passed.delay == 0 and len(passed.points.time_ns) == count + 1
    np.testing.assert_allclose(passed.points.position[1:], rows, atol=GOAL_RAD)
    times, rows, *parts = smooth_plan(count, DENSE[count] / 2, 4 * DENSE[count] ** 0.5)
    slowed = planned(times, rows.clip(-3, 3), **{rates[k - 1]: parts[k - 1] for k in FIELDS[fields]})
    assert slowed.delay > 0
    np.testing.assert_allclose(slowed.points.position[-1], rows[-1].clip(-3, 3), atol=GOAL_RAD)
    assert_within_limits(slowed)


@pytest.mark.parametrize("kind", ["noise", "an encoder", "float32"])
@pytest.mark.parametrize("count", DENSE)
def test_noisy_recordings_are_passed_in_time(count: int, kind: str) -> None:
    times, rows, *_ = smooth_plan(count, DENSE[count], 0.4)
    noisy = {
        "noise": rows + NOISE_RAD * np.random.default_rng(0).normal(size=rows.shape),
        "an encoder": np.rint(rows / QUANTUM_RAD) * QUANTUM_RAD,
        "float32": rows.astype(np.float32).astype(float),
    }[kind]
    noisy[-1] = rows[-1]
    trajectory = planned(times, noisy)
    assert trajectory.delay == 0
    assert_within_limits(trajectory)
    np.testing.assert_allclose(trajectory.points.position[-1], rows[-1], atol=GOAL_RAD)
    away = played(trajectory).states_at(times * (1 - 1e-12), 1)[0] - noisy
    assert np.abs(away).max() <= 2 * MOVED_RAD


def test_a_stop_looks_at_no_more_than_the_next_pieces_of_a_long_motion(monkeypatch: pytest.MonkeyPatch) -> None:
    node, looked, raised_to = SimulatedNode(2, **limits(GIVEN["complete"], 2)), [], Bounds.raised_to
    node.measure(0.0)
    times, rows, *_ = smooth_plan(4000, 4.0, 0.4)
    node.plan(times, rows)

    def watched(bounds: Bounds, motion: Motion, *share: float) -> Bounds:
        looked.append(len(motion.steps))
        return raised_to(bounds, motion, *share)

    monkeypatch.setattr(Bounds, "raised_to", watched)
    assert node.stop(NOW_S + 1.0) and max(looked) <= 1000


def test_a_plan_of_more_points_than_are_accepted_says_how_many_those_are() -> None:
    node = SimulatedNode(2, position_trajectory__max_points=299, **limits(GIVEN["complete"], 2))
    node.measure(0.0)
    times, rows, *_ = smooth_plan(300, 6.0, 0.4)
    told = str(rejected(node.plan, times, rows))
    assert "points: expected 1 to 299" in told and "position_trajectory.max_points" in told

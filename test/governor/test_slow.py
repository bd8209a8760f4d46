"""limits.action: retime. Plans that exceed limits are slowed along their paths, from the present command on."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from execution_cases import cubic_spline
from pipelines import GIVEN, LIMITS, NOW_S, SimulatedNode, largest, limits, ratio

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.governor.slow import slow
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.rejection import Rejected

KEPT = 1 + 1e-3
"""Limits are kept to 0.1 %."""
LEAST_JUMP = 2e-6 * LIMITS[2].max()
"""Jump of an acceleration where a piece shorter than a microsecond is left out."""
STEPS = np.arange(1, 51)[:, None] / 50
SHAPE = 10 * STEPS**3 - 15 * STEPS**4 + 6 * STEPS**5
"""From rest to rest in 50 steps."""


def limited(action: str = "", **parameters: object) -> SimulatedNode:
    """Plans are slowed by default."""
    node = SimulatedNode(**limits(**GIVEN) | ({"limits__action": action} if action else {}) | parameters)
    node.measure(0.0)
    node.execute(0.0)
    return node


def largest_jump(motion: Motion) -> float:
    """Largest jump of the acceleration from one piece to the next."""
    powers = np.arange(motion.coefficients.shape[1])
    last = (powers * (powers - 1) * motion.steps[:-1, None] ** np.maximum(powers - 2, 0))[..., None]
    ends = (last * motion.coefficients[:-1]).sum(axis=1)
    return float(np.abs(ends - 2 * motion.coefficients[1:, 2]).max())


def away(motion: Motion, rows: np.ndarray) -> float:
    """Largest distance of a motion from any of these rows, rad."""
    positions = motion.states_at(np.linspace(0, motion.duration, 10_001))[0]
    return max(float(np.abs(positions - row).max(axis=1).min()) for row in rows)


def test_a_plan_is_slowed_a_thousandfold_at_most() -> None:
    motion = cubic_spline(np.full(50, 0.01), np.pad(SHAPE, ((1, 0), (0, 0))), np.zeros(1), ends_at_rest=True)
    slower = [largest(motion) / by ** np.array([[1.0], [2.0], [3.0]]) for by in (900.0, 1100.0)]
    assert slow(motion, slower[0]).motion.duration == pytest.approx(900 * motion.duration, rel=0.1)
    with pytest.raises(Rejected, match="it would stand still"):
        slow(motion, slower[1])


@pytest.mark.parametrize(("size", "most_delay"), [(1.5, 0.2), (2.0, 0.5)])
def test_a_plan_is_slowed_along_its_path_where_it_exceeds_a_limit(size: float, most_delay: float) -> None:
    rows = SHAPE * [size, 0.2]
    with pytest.raises(Rejected, match="velocity of a exceeds its limit"):
        limited("reject").send(rows)
    node = limited()
    trajectory = node.send(rows)
    assert 0 < trajectory.delay < most_delay < size * 1.875 / 2 - 0.99, "less than slowed as a whole"
    assert 0.99 < ratio(trajectory.motion) <= KEPT and largest_jump(trajectory.motion) < 1e-6
    assert away(trajectory.motion, rows) < 1e-3
    np.testing.assert_allclose(trajectory.motion.end.position, rows[-1], atol=1e-9)
    assert node.published.executed.report().slowed == 1 and not node.warnings


@pytest.mark.parametrize("action", ["reject", "retime"])
def test_a_chunk_little_beyond_limits_is_followed_near_its_path_in_time(action: str) -> None:
    rows = SHAPE * [1.07, 0.2]
    trajectory = limited(action).send(rows)
    assert not trajectory.delay and ratio(trajectory.motion) <= KEPT
    assert 1e-5 < away(trajectory.motion, rows) < 0.03
    np.testing.assert_allclose(trajectory.motion.end.position, rows[-1], atol=1e-9)


def test_a_plan_without_jerk_limits_is_slowed_too() -> None:
    node = limited(limits__jerk=[], limits__acceleration=[])
    trajectory = node.send(SHAPE * [2.0, 0.2])
    assert largest(trajectory.motion)[0].max() <= 2.0 * KEPT and largest_jump(trajectory.motion) < 1e-6


def test_held_accelerations_are_slowed_where_jerk_is_not_limited() -> None:
    node = limited(limits__jerk=[], publish__end="as_planned")
    accelerations = np.repeat([[6.0, 0.5], [-6.0, -0.5]], 25, axis=0)
    trajectory = node.send(accelerations, space=ControlSpace.ACCELERATION)
    assert trajectory.delay > 0 and trajectory.points.acceleration is None
    assert (largest(trajectory.motion)[:2, 0] <= np.array([2.0, 8.0]) * KEPT).all()
    with pytest.raises(Rejected, match="limits_violated"):
        limited().send(accelerations, space=ControlSpace.ACCELERATION)


def test_a_robot_beyond_a_position_limit_may_go_no_further_out() -> None:
    node = limited(limits__position_max=[-0.1, 1.0])
    assert node.send(np.zeros((3, 2))).motion.end.position[0] == 0.0
    node = limited(limits__position_max=[-0.1, 1.0])
    assert node.plan([0.0, 1.0], [[0.0, 0.0], [-0.2, 0.0]]).motion.end.position[0] == pytest.approx(-0.2, abs=1e-9)
    node = limited(limits__position_max=[-0.1, 1.0])
    with pytest.raises(Rejected, match=r"limits_violated: position of a exceeds its limit by 0\.01 "):
        node.plan([0.0, 1.0], [[0.0, 0.0], [0.01, 0.0]])


@pytest.mark.parametrize("size", [1.0, 1.3, 2.0])
def test_a_stream_of_chunks_beyond_limits_is_one_motion_within_them(size: float) -> None:
    node, plan = limited(start_from="previous"), SHAPE * [1.1 * size, 0.3]
    plan = np.vstack([plan, np.repeat(plan[-1:], 40, axis=0)])
    commanded, slowed = [], 0
    for cycle in range(120):
        now = NOW_S + 0.02 * cycle
        node.measure(*node.commanded(now)[:2], now=now)
        if cycle % 10 == 0 and cycle <= 60:
            trajectory = node.send(plan[cycle : cycle + 30], dt=0.02, now=now, stamp=NOW_S + 0.02 * cycle + 0.02)
            assert ratio(trajectory.motion) <= KEPT and largest_jump(trajectory.motion) < LEAST_JUMP
            slowed += trajectory.delay > 0
        commanded += [node.commanded(now + 1e-3 * step) for step in range(20)]
    states = np.array(commanded)
    assert slowed or size < 1.2
    assert (np.abs(np.diff(states[:, 2], axis=0)) / 1e-3 <= LIMITS[2] * 1.01).all(), "of what is commanded at 1 kHz"
    assert (np.abs(states[:, 1]) <= LIMITS[0] * KEPT).all() and (np.abs(states[:, 2]) <= LIMITS[1] * KEPT).all()
    np.testing.assert_allclose(states[-1, 0], plan[-1], atol=1e-4)


def test_what_is_assumed_does_not_grow_with_each_chunk_that_is_slowed() -> None:
    """Only velocities are limited, as in most URDFs; each message once got half as much again as the previous one."""
    node = limited(limits__jerk=[], limits__acceleration=[], start_from="previous")
    plan, asked = SHAPE * [2.5, 0.3], []
    for cycle in range(0, 40, 4):
        now = NOW_S + 0.02 * cycle
        node.measure(*node.commanded(now)[:2], now=now)
        with suppress(Rejected):  # the motion in execution goes on
            motion = node.send(plan[cycle : cycle + 30], dt=0.02, now=now, stamp=now + 0.02).motion
            asked.append(largest(motion)[1:].max(axis=1))
    assert len(asked) > 2
    assert (np.array(asked) <= 1.2 * asked[0]).all()


def test_velocities_after_slowed_ones_lead_on_from_where_the_robot_is() -> None:
    node, rate = limited(start_from="previous"), 0.02
    speed = 3.0 * np.sin(np.linspace(0, np.pi, 60))[:, None] * [1.0, 0.2]  # limits: 2 and 1
    commanded = []
    for cycle in range(90):
        now = NOW_S + rate * cycle
        node.measure(*node.commanded(now)[:2], now=now)
        if cycle % 15 == 0 and cycle < 60:
            node.send(speed[cycle:], dt=rate, now=now, stamp=now, space=ControlSpace.VELOCITY)
        commanded += [node.commanded(now + 1e-3 * step)[0] for step in range(20)]
    assert node.published.executed.report().slowed >= 1
    assert np.diff(commanded, axis=0).min() > -1e-6, "never back"


def test_a_slowed_motion_begins_in_its_state_or_is_not_found() -> None:
    """Where all joints would have to turn at once, their accelerations could take either sign."""
    begun = 0
    for seed in range(80):
        random = np.random.default_rng(seed)
        moving = np.array([1.0, 1.0, 0.0])
        rows = np.vstack([np.zeros(3), random.normal(size=(8, 3)).cumsum(axis=0).cumsum(axis=0) * 0.01 * moving])
        velocity = random.normal(size=3) * 0.3 * (seed % 2) * moving
        motion = cubic_spline(np.full(8, 0.05), rows, velocity, ends_at_rest=True)
        most = np.maximum(np.abs(extremes(motion)).max(axis=0)[1:] * [[1.0], [0.8], [0.6]], 1.0 - moving)
        most[1] = np.maximum(most[1], 1.2 * np.abs(motion.begin.acceleration))
        with suppress(Rejected):
            found = slow(motion, most, from_state=True)
            begun += 1
            assert (np.abs(found.motion.begin.beyond(motion.begin)) <= [[1e-9], [1e-6], [1e-3]]).all(), seed
    assert begun > 20


def test_a_plan_with_a_kink_is_slowed_from_a_motion() -> None:
    dof, count, most = 7, 80, np.array([[1.0], [5.0], [100.0]])
    kinds = ("velocity", "acceleration", "jerk")
    many = {f"limits__{kind}": [float(value)] * dof for kind, value in zip(kinds, most[:, 0], strict=True)}
    node = SimulatedNode(dof=dof, start_from="previous", state_timeout=0.0, limits__start_deviation=0.0, **many)
    node.measure(0.0)
    slowed = 0
    for begin in (0.5, 0.6, 0.7, 0.8, 0.84, 0.88, 0.9, 0.92):
        times = begin + 0.02 * np.arange(1, count + 1)[:, None]
        rows = 1.3 * np.sin(times * (1 + 0.1 * np.arange(dof))) * np.minimum(times, 1.0) ** 3
        made = node.send(rows, now=NOW_S + begin, stamp=NOW_S + begin)  # None: it waits
        slowed += made is not None and made.delay > 0
        assert made is None or (largest(made.motion) <= KEPT * most).all()
    assert slowed >= 4

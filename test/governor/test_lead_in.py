"""publish.lead_in: trajectories begin with the motion in execution until their plan is taken up."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import GIVEN, HELD, NOW_S, SimulatedNode, at, limits

from traj_integrator_ros.execution.limits import Limits, worst_violations
from traj_integrator_ros.execution.rows import motion_of_points
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.rejection import Rejected

VELOCITY_AND_ACCELERATION = {name: GIVEN[name] for name in ("velocity", "acceleration")}
MOST = Limits(**{name: np.array(values) for name, values in VELOCITY_AND_ACCELERATION.items()})


@pytest.mark.parametrize("ahead", [-0.03, 0.25], ids=["stamp in the past", "stamp in the future"])
@pytest.mark.parametrize("space", HELD)
def test_it_repeats_what_was_published_and_changes_nothing_afterwards(space, ahead):
    random = np.random.default_rng(space.value)
    first, second = (random.normal(scale=0.1, size=(20, 2)) for _ in range(2))
    nodes = [
        SimulatedNode(start_from="previous", limits__start_deviation=0.0, publish__lead_in=on) for on in (False, True)
    ]
    now, trajectories = NOW_S + 0.4, []
    for node in nodes:
        node.measure(0.0)
        before = node.send(first, space=space, dt=0.05, stamp=NOW_S)
        trajectories.append(node.send(second, space=space, dt=0.05, now=now, stamp=now + ahead, took=0.004))
    plain, begun = trajectories
    assert plain.start_ns == plain.due_ns == round((now + max(ahead, 0.02)) * 1e9)
    assert (begun.start_ns, begun.due_ns, begun.dropped) == (round(now * 1e9), plain.start_ns, plain.dropped)
    assert begun.points.time_ns[0] == 0
    earlier_s = (plain.start_ns - begun.start_ns) * 1e-9
    assert begun.motion.plan_until == pytest.approx(plain.motion.plan_until + earlier_s, abs=1e-8)
    for time in now + np.linspace(0.0001, 0.0199, 9):
        np.testing.assert_allclose(at(begun, time)[:2], at(before, time)[:2], rtol=0, atol=1e-7)
    for time in plain.start_ns * 1e-9 + np.linspace(0.0001, 0.9, 50):
        np.testing.assert_allclose(at(begun, time)[:2], at(plain, time)[:2], rtol=0, atol=1e-7)
    report = nodes[1].published.executed.report()
    assert report.lead_margin_least_s == pytest.approx(begun.due_ns * 1e-9 - now - 0.004, abs=1e-6) and not report.late


def test_a_trajectory_that_has_not_begun_yet_is_led_in_with_its_beginning():
    """Two chunks at once, for a robot at rest: the first is taken up after `publish.lead_time`, the second before."""
    node = SimulatedNode(1, start_from="previous", limits__start_deviation=0.0)
    node.measure(0.0)
    node.execute(0.0)
    rows = 0.1 * np.sin(np.arange(1, 21) * 0.1)[:, None]
    first = node.send(rows, dt=0.05, stamp=NOW_S)
    second = node.send(rows, dt=0.05, now=NOW_S + 0.008, stamp=NOW_S)
    assert first.start_ns < second.start_ns < first.due_ns < second.due_ns
    for time in NOW_S + np.linspace(0.009, 0.0279, 20):
        np.testing.assert_allclose(at(second, time)[:2], at(first, time)[:2], rtol=0, atol=1e-9)
    assert np.abs(second.motion.states_at(np.arange(0, 1, 1e-3))[2]).max() < 15, "no acceleration jumps"


@pytest.mark.parametrize("off_ns", [0, 1, -400, 1500, -30_000])
@pytest.mark.parametrize("action", ["reject", "retime"])
def test_with_its_lead_in_a_trajectory_keeps_limits_as_played(action, off_ns):
    """Plans with and without accelerations in their points take turns, cut near their rows and between them."""
    random = np.random.default_rng([off_ns + 30_000, action == "retime"])
    node = SimulatedNode(start_from="previous", limits__action=action, **limits(**VELOCITY_AND_ACCELERATION))
    node.execute(0.0)
    made, row = [], 0
    for _ in range(24):
        row += int(random.integers(1, 4))
        now = NOW_S + row * 0.05 + random.choice([0.0, 0.013, 1e-9 * off_ns])
        position, velocity, _ = node.commanded(now)
        node.measure(position, velocity, now=now)
        rate, phase = random.uniform(1.0, 4.0, 2), random.uniform(0.0, 2 * np.pi, 2)
        turn = rate * np.arange(1, 17)[:, None] * 0.05 + phase
        size = random.uniform(0.1, 0.6) * MOST.acceleration
        space = HELD[random.integers(len(HELD))]
        actions = (
            position + size / rate**2 * (np.sin(turn) - np.sin(phase)),
            size / rate * np.cos(turn),
            -size * np.sin(turn),
            -size * rate * np.cos(turn),
        )
        try:
            stamp = now + 1e-9 * off_ns
            trajectory = node.send(actions[HELD.index(space)], space=space, dt=0.05, now=now, stamp=stamp)
        except Rejected:  # limits that a random plan exceeds by itself
            continue
        made.append((space, trajectory))
        found = worst_violations(motion_of_points(trajectory.points), MOST)
        assert not found, f"after {made[-2:]}: {found}"
    assert {space is ControlSpace.ACCELERATION for space, _ in made} == {True, False}
    assert any(t.points.acceleration is None for _, t in made) and any(t.due_ns > t.start_ns for _, t in made)


@pytest.mark.parametrize("extra_ns", [1, 999])
@pytest.mark.parametrize("row", [1, 12])
def test_steps_shorter_than_a_microsecond_lead_no_plan_beyond_its_limits(row, extra_ns):
    """The steps are removed after the last check of limits."""
    node = SimulatedNode(start_from="previous", **limits(**VELOCITY_AND_ACCELERATION))
    node.execute(0.0)
    node.measure(0.0)
    times = np.insert(np.full(12, 0.05), row, 1e-9 * extra_ns).cumsum()
    trajectory = node.plan(times, 0.5 * MOST.acceleration / 9 * (1 - np.cos(3 * times[:, None])))
    assert trajectory.motion.steps.min() >= 1e-6 * (1 - 1e-9)
    assert not worst_violations(motion_of_points(trajectory.points), MOST)

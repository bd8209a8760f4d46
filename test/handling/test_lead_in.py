"""publish.lead_in: trajectories begin with what is in execution until their plan is taken up."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import HELD, NOW_S, SimulatedNode, at


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
    assert begun.brakes_at == pytest.approx(plain.brakes_at + (plain.start_ns - begun.start_ns) * 1e-9, abs=1e-8)
    for time in now + np.linspace(0.0001, 0.0199, 9):
        np.testing.assert_allclose(at(begun, time)[:2], at(before, time)[:2], rtol=0, atol=1e-7)
    for time in plain.start_ns * 1e-9 + np.linspace(0.0001, 0.9, 50):
        np.testing.assert_allclose(at(begun, time)[:2], at(plain, time)[:2], rtol=0, atol=1e-7)
    report = nodes[1].published.report()
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


@pytest.mark.parametrize("seed", range(3))
def test_sequences_of_all_kinds_every_few_milliseconds_become_finite_motions_of_few_points(seed):
    random = np.random.default_rng(seed)
    node = SimulatedNode(start_from="measured", limits__start_deviation=0.0, supervision__deviation=0.0)
    node.execute(0.0)
    scales = dict(zip(HELD, (0.01, 0.5, 1.0, 5.0), strict=True))
    now = NOW_S
    for _ in range(150):
        now += random.exponential(4e-4) + 1e-4
        node.measure(0.0, now=now)
        space = HELD[random.integers(len(HELD))]
        actions = scales[space] * random.uniform(-1, 1, (16, 2)).cumsum(axis=0)
        trajectory = node.send(actions, space=space, dt=0.01, now=now)
        if trajectory is not None:
            assert np.isfinite(trajectory.motion.coefficients).all()
            assert (np.diff(trajectory.points.time_ns) > 0).all() and len(trajectory.points.time_ns) < 400

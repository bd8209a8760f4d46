"""chunks.ensemble = weighted: positions of chunks that cover a time are averaged, as ACT's temporal ensembling does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pipelines import NOW_S, SimulatedNode, ns

from traj_integrator_ros.governor.chunks import ChunkMemory
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.kernels import MAPS, ControlSpace
from traj_integrator_ros.requests.plan import Plan
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

DT, HORIZON = 0.05, 12


def policy_node(velocity: float = 0.0, **parameters: object) -> SimulatedNode:
    """A node that averages, whose controller executes a motion through 0; joint states do not age."""
    settings = {"start_from": "previous", "limits__start_deviation": 0.0, "state_timeout": 0.0}
    node = SimulatedNode(**settings | {"chunks__ensemble": "weighted"} | parameters)
    node.measure(0.0)
    node.execute(0.0, velocity)
    return node


def planned(trajectory: ExecutableTrajectory, time_s: float) -> np.ndarray:
    """Position, velocity and acceleration of the plan that a trajectory leads to, `[3, dof]`."""
    return np.stack(trajectory.planned.state_at(ns(time_s)))


def acts_actions(chunks: np.ndarray, decay: float, heaviest: str) -> np.ndarray:
    """The actions that ACT executes, given one chunk for each step `[T, H, dof]`, as its evaluation loop does it."""
    count, horizon, dof = chunks.shape
    all_time_actions = np.full((count, count + horizon, dof), np.nan)
    executed = []
    for t in range(count):
        all_time_actions[t, t : t + horizon] = chunks[t]
        populated = all_time_actions[: t + 1, t]
        populated = populated[~np.isnan(populated[:, 0])]
        weights = np.exp(-decay * np.arange(len(populated)))
        weights /= weights.sum()
        executed.append(((weights if heaviest == "oldest" else weights[::-1])[:, None] * populated).sum(axis=0))
    return np.array(executed)


def test_chunks_are_ranked_by_their_observations_and_not_by_their_arrival() -> None:
    first, second = (
        Plan(MAPS["clique"], np.full(4, DT), np.full((4, 1), value), None, ns(NOW_S + k * DT))
        for k, value in ((0, 1.0), (1, 2.0))
    )
    for newest_first, weights in ((True, [np.exp(-1), 1.0]), (False, [1.0, np.exp(-1)])):
        memory = ChunkMemory()
        memory.take(second, ns(NOW_S))
        averaged = memory.averaged(first, 1.0, newest_first=newest_first).actions[:, 0]
        assert np.allclose(averaged, [1.0, *[np.average([1.0, 2.0], weights=weights)] * 3])
        again = replace(second, actions=second.actions + 1)
        assert memory.averaged(again, 1.0, newest_first=newest_first) is again, "it replaces the one before"


@pytest.mark.parametrize("heaviest", ["oldest", "newest"])
@pytest.mark.parametrize("decay", [0.0, 0.01, 0.8])
def test_what_is_executed_is_acts_temporal_ensemble(decay: float, heaviest: str) -> None:
    node = policy_node(chunks__decay=decay, chunks__heaviest=heaviest)
    waves = np.random.default_rng(1).uniform(-2, 2, (20, 1, 2))
    chunks = 0.01 * np.sin(waves + 0.1 * np.arange(1, HORIZON + 1)[:, None])
    expected = acts_actions(chunks.astype(np.float32).astype(float), decay, heaviest)
    for step, chunk in enumerate(chunks):
        stamp = NOW_S + step * DT
        node.measure(0.0, now=stamp)
        trajectory = node.send(chunk, dt=DT, now=stamp, stamp=stamp)
        assert np.allclose(planned(trajectory, stamp + DT)[0], expected[step], rtol=0, atol=4e-3), step
    report = node.published.report()
    assert (report.chunks_averaged, report.chunks_forgotten) == (HORIZON, 0)
    assert node.published.report().chunks_averaged == 0, "since the report before"


def test_only_the_latest_chunk_is_used_by_default() -> None:
    node = policy_node(chunks__ensemble="latest")
    node.send(np.zeros((HORIZON, 2)), dt=DT, stamp=NOW_S)
    trajectory = node.send(np.full((HORIZON, 2), 0.01), dt=DT, now=NOW_S + 0.1, stamp=NOW_S + 0.1)
    assert np.allclose(planned(trajectory, NOW_S + 0.3)[0], 0.01, atol=1e-8)


def wave(time: np.ndarray) -> np.ndarray:
    """A wave of at most 0.4 rad/s^2."""
    return 0.1 * np.sin(2 * time)[:, None] * np.ones(2)


def test_chunks_of_other_steps_count_by_what_they_say_at_the_time() -> None:
    node = policy_node(chunks__decay=0.0)
    for k, (dt, offset) in enumerate(((0.05, 0.0), (0.02, 0.004), (0.03, 0.008))):
        stamp = NOW_S + 0.037 * k
        rows = dt * np.arange(1, 30)
        trajectory = node.send(wave(stamp - NOW_S + rows) + offset, dt=dt, now=stamp, stamp=stamp)
    rows = stamp + 0.03 * np.arange(4, 15)
    states = np.array([planned(trajectory, time)[0] for time in rows])
    # All three cover these times: they say 0, 4 and 8 mrad more than the wave.
    assert np.allclose(states, wave(rows - NOW_S) + 0.004, atol=5e-6)


def test_a_start_that_chunks_bring_does_not_bend_the_average() -> None:
    results = []
    for with_start in (False, True):
        node = policy_node(0.2)
        for k in range(2):
            stamp = NOW_S + 0.1 * k
            start = (wave(np.array([0.1 * k]))[0] + 0.01 * k, [0.2, 0.2]) if with_start else ()
            rows = wave(stamp - NOW_S + DT * np.arange(1, HORIZON + 1)) + 0.01 * k
            trajectory = node.send(rows, dt=DT, now=stamp, stamp=stamp, start=start)
        results.append([planned(trajectory, time)[0] for time in stamp + DT * np.arange(1, HORIZON)])
    assert np.allclose(*results, rtol=0, atol=1e-6)


def test_ages_are_of_observations_and_a_repeated_chunk_replaces_itself() -> None:
    weights = {"chunks__decay": 1.0, "chunks__heaviest": "newest"}
    results = []
    for order in ((0, 1, 2), (0, 1, 1, 2)):
        node = policy_node(**weights)
        for k in order:
            rows = np.full((HORIZON, 2), 0.01 * k)
            trajectory = node.send(rows, dt=DT, now=NOW_S + 0.1, stamp=NOW_S + 0.02 * k)
        results.append(planned(trajectory, NOW_S + 0.34)[0])
    share = np.exp(-np.arange(3.0))
    assert np.allclose(results, (0.01 * np.array([2, 1, 0]) * share).sum() / share.sum(), atol=1e-8)


def test_what_was_refused_is_not_averaged() -> None:
    node = policy_node(limits__position_max=[0.5, 0.5], limits__action="reject")
    node.send(np.zeros((HORIZON, 2)), dt=DT, stamp=NOW_S)
    with pytest.raises(Rejected) as caught:
        node.send(np.full((HORIZON, 2), 5.0), dt=DT, now=NOW_S + 0.05, stamp=NOW_S + 0.05)
    assert caught.value.reason is RejectionReason.LIMITS
    trajectory = node.send(np.zeros((HORIZON, 2)), dt=DT, now=NOW_S + 0.1, stamp=NOW_S + 0.1)
    assert np.allclose(planned(trajectory, NOW_S + 0.4)[0], 0.0, atol=1e-9)


def unstamped(node: SimulatedNode, now: float) -> None:
    node.send(np.zeros((HORIZON, 2)), dt=DT, now=now)


def of_velocities(node: SimulatedNode, now: float) -> None:
    node.send(np.zeros((HORIZON, 2)), space=ControlSpace.VELOCITY, dt=DT, now=now, stamp=now)


def position_trajectory(node: SimulatedNode, now: float) -> None:
    node.plan([0.1, 0.2], np.zeros((2, 1)), names="b", now=now)


@pytest.mark.parametrize("something_else", [unstamped, of_velocities, position_trajectory])
def test_something_else_makes_the_node_forget_the_chunks_and_count_them(something_else) -> None:
    node = policy_node()
    for k in range(3):
        node.send(np.full((HORIZON, 2), 0.01), dt=DT, now=NOW_S + 0.05 * k, stamp=NOW_S + 0.05 * k)
    something_else(node, NOW_S + 0.15)
    assert node.published.report().chunks_forgotten == 3
    trajectory = node.send(np.zeros((HORIZON, 2)), dt=DT, now=NOW_S + 0.2, stamp=NOW_S + 0.2)
    assert np.allclose(planned(trajectory, NOW_S + 0.5)[0], 0.0, atol=1e-9)
    assert node.published.report().chunks_averaged == 1


def test_chunks_that_are_over_are_not_counted_as_forgotten() -> None:
    node = policy_node()
    node.send(np.zeros((4, 2)), dt=DT, stamp=NOW_S)
    node.measure(0.0, now=NOW_S + 5)
    unstamped(node, NOW_S + 5)
    assert node.published.report().chunks_forgotten == 0


def test_no_more_than_128_chunks_are_kept() -> None:
    node = policy_node(max_horizon=256, chunks__decay=0.0)
    for k in range(130):
        stamp = NOW_S + 0.001 * k
        node.send(np.zeros((50, 2)), dt=DT, now=stamp, stamp=stamp)
    report = node.published.report()
    assert (report.chunks_averaged, report.chunks_forgotten) == (129, 2)


def test_a_chunk_of_one_action_is_averaged_too() -> None:
    node = policy_node(chunks__decay=0.0)
    node.send(np.full((1, 2), 0.02), dt=0.4, stamp=NOW_S)
    trajectory = node.send(np.zeros((1, 2)), dt=0.3, now=NOW_S + 0.1, stamp=NOW_S + 0.1)
    assert np.allclose(planned(trajectory, NOW_S + 0.4)[0], 0.01, atol=1e-3)


def test_a_clock_that_jumps_back_forgets_the_chunks() -> None:
    node = policy_node()
    node.send(np.full((HORIZON, 2), 0.01), dt=DT, stamp=NOW_S)
    node.published.check_clock(round((NOW_S - 10) * 1e9))
    node.measure(0.0, now=NOW_S)
    trajectory = node.send(np.zeros((HORIZON, 2)), dt=DT, now=NOW_S, stamp=NOW_S - 0.01)
    assert np.allclose(planned(trajectory, NOW_S + 0.4)[0], 0.0, atol=1e-9)

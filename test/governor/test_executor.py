"""A loop without ROS samples the executor: its commands are smooth and within limits, wherever it begins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.governor.executor import Actions, Executor, NodeParameters, Positions
from traj_integrator_ros.governor.rehearsal import rehearse
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

SECOND, CYCLE_NS, NAMES = 10**9, 10**6, ["a", "b"]
LIMITS = {"limits__velocity": [2.0, 1.0], "limits__acceleration": [8.0, 4.0], "limits__jerk": [80.0, 60.0]}
USUAL = {"device": "cpu", "start_from": "previous", **LIMITS}
STEP = 0.05


class Loop:
    """A loop of 1 kHz that samples an executor, and an arm that follows each command one cycle later."""

    def __init__(self, **parameters: object) -> None:
        self.executor = Executor(NodeParameters.of(NAMES, **{**USUAL, **parameters}))
        self.now_ns, self.commands = 1000 * SECOND, [np.zeros((3, 2))]

    def run(
        self, seconds: float, every: float = 0.1, plan: Callable[[float], Actions | Positions] | None = None
    ) -> None:
        """Run cycles; execute plans periodically, made for the time since the beginning, s."""
        for cycle in range(round(seconds / 1e-3)):
            executor, now_ns = self.executor, self.now_ns
            executor.joint_state(*self.commands[-1][:2], now_ns)
            if cycle % 10 == 0:
                executor.tick(now_ns)
            if plan is not None and cycle % round(every / 1e-3) == 0:
                executor.execute(plan((now_ns - 1000 * SECOND) / SECOND), now_ns)
            self.commands.append(np.stack(executor.sample(now_ns)))
            self.now_ns += CYCLE_NS

    def assert_smooth(self) -> None:
        """Check that differences of the commanded positions keep the limits, so that nothing jumps."""
        positions = np.array(self.commands[1:])[:, 0]
        for order, name in enumerate(("velocity", "acceleration"), 1):
            largest = np.abs(np.diff(positions, order, axis=0)).max(axis=0) * 1e3**order
            assert (largest <= np.array(LIMITS[f"limits__{name}"]) * 1.001 + 1e-3).all(), (name, largest)


def wave(time: float | np.ndarray) -> np.ndarray:
    """A motion of both joints that uses about half of their limits."""
    return np.outer(0.5 * (1 - np.cos(1.5 * np.asarray(time))), [1.0, -0.6])


def chunk(seconds: float, space: ControlSpace = ControlSpace.POSITION) -> Actions:
    """The wave from a time on, as a chunk."""
    rows = wave(seconds + STEP * np.arange(17))
    data = rows[1:] if space is ControlSpace.POSITION else np.diff(rows, axis=0) / STEP
    return Actions(1000 * SECOND + round(seconds * SECOND), space, STEP, data)


@pytest.mark.parametrize("space", [ControlSpace.POSITION, ControlSpace.VELOCITY])
def test_chunks_are_commanded_without_a_jump_and_to_a_stop(space: ControlSpace) -> None:
    loop = Loop()
    loop.run(2.0, plan=lambda seconds: chunk(seconds, space))
    expected = wave(1.999 - (STEP / 2 if space is ControlSpace.VELOCITY else 0.0))[0]
    assert np.abs(loop.commands[-1][0] - expected).max() < 0.03
    loop.executor.stop(loop.now_ns)
    loop.run(1.0)
    loop.assert_smooth()
    assert not loop.commands[-1][1:].any(), "it stands"


def test_a_plan_ends_exactly_at_its_goal() -> None:
    loop, goal = Loop(), np.array([0.4, -0.2])
    loop.run(0.05)
    loop.executor.execute(Positions(0, [2.0], goal[None], end="goal"), loop.now_ns)
    loop.run(3.0)
    loop.assert_smooth()
    np.testing.assert_allclose(loop.commands[-1][0], goal, atol=1e-9)


def test_the_position_measured_last_is_held_until_a_motion_begins() -> None:
    executor = Executor(NodeParameters.of(NAMES, **USUAL))
    with pytest.raises(Rejected) as caught:
        executor.sample(SECOND)
    assert caught.value.reason is RejectionReason.NO_JOINT_STATE
    executor.joint_state(np.array([0.3, 0.1]), np.zeros(2), 2 * SECOND)
    for position in ([0.3, 0.1], [0.2, 0.1]):  # it sags
        executor.joint_state(np.array(position), np.zeros(2), 3 * SECOND)
        held = executor.sample(3 * SECOND)
        assert held.position.tolist() == [0.3, 0.1] and not held.velocity.any() and not held.acceleration.any()


def test_a_robot_that_is_not_sampled_any_more_counts_as_off() -> None:
    loop = Loop()
    loop.run(0.5, plan=chunk)
    later_ns = loop.now_ns + SECOND
    loop.executor.joint_state(*loop.commands[-1][:2], later_ns)
    with pytest.raises(Rejected) as caught:
        loop.executor.execute(chunk(1.5), later_ns)
    assert caught.value.reason is RejectionReason.CONTROLLER_UNAVAILABLE


def test_another_thread_may_sample_while_plans_are_executed() -> None:
    loop, over, jumps = Loop(), threading.Event(), []

    def sample() -> None:
        last = loop.executor.sample(loop.now_ns).position
        while not over.is_set():
            time_ns = loop.now_ns
            command = loop.executor.sample(time_ns)
            jumps.append(np.abs(command.position - last).max())
            last = command.position
            time.sleep(1e-4)

    loop.run(0.01)
    driver = threading.Thread(target=sample)
    driver.start()
    loop.run(1.0, every=0.02, plan=chunk)
    over.set()
    driver.join()
    loop.assert_smooth()
    assert len(jumps) > 10 and max(jumps) < 0.5, "it saw motions of this stream only"


@pytest.mark.parametrize("seed", range(3))
def test_a_motion_waits_for_a_loop_that_is_held_up_whoever_goes_on_first(seed: int) -> None:
    loop, random = Loop(), np.random.default_rng(seed)
    executor, goal = loop.executor, np.array([0.9, -0.5])
    loop.run(0.05)
    executor.execute(Positions(0, [2.0], goal[None], end="goal"), loop.now_ns)
    for _ in range(8):
        loop.run(random.uniform(0.01, 0.2))
        loop.commands.append(np.stack(executor.sample(loop.now_ns)))  # nobody has looked at it when the machine stands
        loop.now_ns += round(random.uniform(0.02, 0.3) * SECOND)
        for _ in range(random.integers(3)):
            executor.tick(loop.now_ns)
            executor.joint_state(*loop.commands[-1][:2], loop.now_ns)
            loop.now_ns += round(random.uniform(0.0, 0.02) * SECOND)
    loop.run(0.05)
    executor.execute(Positions(0, [1.0], goal[None], end="goal"), loop.now_ns)
    loop.run(3.0)
    loop.assert_smooth()
    np.testing.assert_allclose(loop.commands[-1][0], goal, atol=1e-9)


def test_a_rehearsal_joins_slows_and_stops_motions_in_the_middle_of_the_ranges() -> None:
    ranges = {"limits__position_min": [1.0, -0.5], "limits__position_max": [2.0, 0.5]}
    made = rehearse(NodeParameters.of(NAMES, **USUAL, **ranges))
    assert [one.topic for one in made] == 5 * ["action_sequence"] + ["position_trajectory", ""]
    assert [one.seam_offset is not None for one in made] == [False] + 6 * [True]
    assert [one.delay > 0 for one in made[:5]] == [False, False, False, True, False]
    np.testing.assert_allclose(made[0].motion.begin.position, [1.5, 0.0])
    np.testing.assert_allclose(made[3].motion.end.position, [1.7, 0.16], atol=1e-6)
    for one in made:
        (least, most), largest = extremes(one.motion)[:, 0], np.abs(extremes(one.motion)[:, 1:]).max(axis=0)
        assert (least >= [1.4, -0.1]).all() and (most <= [1.9, 0.35]).all()
        assert (largest <= np.array(list(LIMITS.values())) * 1.001).all()

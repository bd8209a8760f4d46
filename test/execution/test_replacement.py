"""Chunks that replace each other on a schedule, played at 1 kHz: no seam, for any jitter, inference and lag."""

from __future__ import annotations

import numpy as np
import pytest

from traj_integrator_ros.execution.brake import brake
from traj_integrator_ros.execution.fade import join
from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.execution.points import points_of
from traj_integrator_ros.execution.rows import motion_of_positions
from traj_integrator_ros.execution.spline import cubic_spline

LEAD_TIME, FADE_TIME, LAG = 0.02, 0.2, 0.04
MEANT_ACCELERATION, MEANT_JERK = 2.0, 4.0
JOINTS = ["a", "b"]


def plan(time: np.ndarray | float) -> np.ndarray:
    """Monotonous: at least 0.5 rad/s, at most 2 rad/s^2 and 4 rad/s^3."""
    position = 1.5 * time - np.cos(2 * np.asarray(time)) / 2
    return np.stack([position, -position], axis=-1)


def plan_velocity(time: float) -> np.ndarray:
    return (1.5 + np.sin(2 * time)) * np.array([1.0, -1.0])


def its_own_way(steps: np.ndarray, positions: np.ndarray) -> Motion:
    """A plan of positions that knows nothing of the robot: where its first step began is seen from behind."""
    p, v, bend, _ = cubic_spline(steps[1:], positions).coefficients[0]
    before = p - v * steps[0] + bend * steps[0] ** 2
    return cubic_spline(steps, np.vstack([before, positions]))


class Sender:
    """What a node does: it schedules each chunk ahead, aligns it by its stamp and fades the difference."""

    def __init__(self) -> None:
        self.motion: Motion | None = None
        self.begin = 0.0

    def chunk(self, now: float, stamp: float, dt: float, positions: np.ndarray, measured: State) -> None:
        first = self.motion is None
        steps = np.full(len(positions), dt)
        begin = max(now + LEAD_TIME, stamp)
        begin = round(begin * 1e9) * 1e-9
        if first:
            self.motion, self.begin = motion_of_positions(steps, positions, measured), now
        else:
            state = self.motion.state_at(begin - self.begin)
            self.motion, self.begin = (
                join(its_own_way(steps, positions).from_time(begin - stamp), state, FADE_TIME),
                begin,
            )
        end = brake(self.motion.end, dt, acceleration=np.full(2, 10.0), jerk=np.full(2, 100.0))
        self.motion = self.motion.then(end)


def commanded(
    jtc, period: float, dt: float, jitter: float, inference: float, *, until: float = 2.5, offset: float = 0.0
):
    """Acceleration, jerk and velocity `[T, D]` from when the third chunk plays until the end of the plan."""
    random = np.random.default_rng(round(1000 * (period + jitter + inference)))
    controller = jtc.Controller(JOINTS, rate=1000, hard_replacement=True)
    begin = State(plan(10.0), plan_velocity(10.0), np.array([2.0, -2.0]) * np.cos(20.0))
    controller.set_state(*begin)
    sender, deliveries, history = Sender(), [], []
    horizon = int(np.ceil((inference + LEAD_TIME + jitter + 3 * period + FADE_TIME) / dt))
    for index, stamp in enumerate(np.arange(10.0, 10.0 + until, period)):
        now = stamp if index == 0 else stamp + inference + random.uniform(0, jitter)
        drawn = random.uniform(-offset, offset, 2)
        positions = plan(stamp + dt * np.arange(1, horizon + 1)) + drawn
        lagging = State(plan(stamp - LAG), plan_velocity(stamp - LAG))
        sender.chunk(now, stamp, dt, positions, begin if index == 0 else lagging)
        arrival = now + random.uniform(0.0005, max(jitter, 0.001))
        deliveries.append((arrival, sender.begin, points_of(sender.motion)))
    for cycle in range(round((until - 0.2) * 1000)):
        now = 10.0 + cycle * 0.001
        while deliveries and deliveries[0][0] <= now:
            _, start, points = deliveries.pop(0)
            arrays = points.position, points.velocity, points.acceleration
            assert controller.receive(JOINTS, points.time_ns, *arrays, now=now, stamp=start), controller.refusal
        history.append(controller.update(now))
    position, velocity, acceleration = np.array(history[round(1000 * max(0.3, 2 * period)) :]).transpose(1, 0, 2)
    return position, velocity, acceleration, np.diff(acceleration, axis=0) * 1000


@pytest.mark.parametrize("inference", [0.0, 0.15])
@pytest.mark.parametrize("jitter", [0.0, 0.015])
@pytest.mark.parametrize(("period", "dt"), [(0.1, 0.02), (0.04, 0.02), (0.1, 0.05)])
def test_chunks_of_one_plan_are_commanded_as_the_plan(jtc, period, dt, jitter, inference):
    _, velocity, acceleration, jerk = commanded(jtc, period, dt, jitter, inference)
    assert np.abs(acceleration).max() <= 1.05 * MEANT_ACCELERATION
    assert np.abs(jerk).max() <= 2 * MEANT_JERK
    assert velocity[:, 0].min() > 0 > velocity[:, 1].max()


@pytest.mark.parametrize("jitter", [0.0, 0.015])
def test_chunks_that_contradict_each_other_meet_without_a_jump(jtc, jitter):
    """Each is off by up to 5 mrad: a fade of d over T accelerates by at most 5.8 d / T^2, and does not turn back."""
    _, velocity, acceleration, _ = commanded(jtc, 0.1, 0.02, jitter, 0.1, offset=0.005)
    differences = 3 * 0.01  # of a chunk and of those before it that have not faded
    assert np.abs(acceleration).max() <= MEANT_ACCELERATION + 5.8 * differences / FADE_TIME**2
    assert velocity[:, 0].min() > 0 > velocity[:, 1].max()

"""Arms with usual tracking errors are not braked; a standing joint is noticed in proportion to its range and speed."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
from pipelines import NOW_S, ArmLoop, SimulatedNode, ns


class Arm:
    """Joints behind their command, 1 ms at a time: a delay, or a second order, a droop, an encoder; at last they stand.

    Args:
        lag: s.
        order: 0: exactly so late; 2: critically damped, so late at a constant speed.
        droop: rad.
        noise: rad.

    """

    def __init__(self, lag: float = 0.0, order: int = 0, droop: float = 0.0, noise: float = 0.0) -> None:
        self.lag, self.order, self.droop, self.noise = lag, order, droop, noise
        self.random, self.place, self.speed = np.random.default_rng(1), None, np.zeros(1)

    def read(self, command: Callable[[float], np.ndarray], time: float) -> np.ndarray:
        """Positions of the joints that are read at a time, s, `[dof]`, 1 ms after the last reading."""
        if self.place is None:
            self.place = command(time - self.lag)[0]
        if self.order == 0:
            self.place = command(time - self.lag)[0]
        else:
            rate = 2 / self.lag
            self.speed = self.speed + 1e-3 * (rate**2 * (command(time)[0] - self.place) - 2 * rate * self.speed)
            self.place = self.place + 1e-3 * self.speed
        return self.place + self.droop + self.random.normal(scale=self.noise, size=self.place.shape)


def supervised(
    arm: Arm,
    way: float,
    speed: float,
    *,
    rate: float = 100.0,
    delay: float = 0.0,
    stands_at: float = np.inf,
    **parameters: object,
) -> tuple[float | None, float, str]:
    """Move between 0 and `way`, rad, to and fro, at up to a speed.

    Returns when it was braked, s; how far the command was ahead of where the joints stood; and why.
    """
    given = {"limits__velocity": [10.0], "limits__acceleration": [40.0], "limits__jerk": [2000.0]}
    node = SimulatedNode(1, max_horizon=3000, **given, **parameters)
    duration = 1.875 * way / speed
    pairs = max(round(6.0 / duration), 2) // 2 * 2
    grid = np.arange(round(pairs * duration / 0.02)) * 0.02
    share = np.abs((grid / duration + 1) % 2 - 1)
    rows = way * (10 * share**3 - 15 * share**4 + 6 * share**5)
    node.report(0.0), node.measure(arm.droop)
    node.plan(0.02 * np.arange(1, len(rows) + 1), rows[:, None])
    held, waiting, last = None, [], 0.0

    def command(time: float) -> np.ndarray:
        state = node.published.commanded(ns(NOW_S + max(time, 0.0)))
        return np.zeros((2, 1)) if state is None else np.array(state[:2])

    for tick in range(round(grid[-1] * 1e3)):
        time = 1e-3 * tick
        read = arm.read(command, time)
        if time >= stands_at:
            read = held = read if held is None else held
        if time - last >= 1 / rate - 1e-9:
            waiting.append((time + delay, time, read))
            last = time
        while waiting and waiting[0][0] <= time:
            _, stamp, there = waiting.pop(0)
            node.pipeline.joint_state(there, np.ones(1), ns(NOW_S + time), ns(NOW_S + stamp), ("a",))
        if tick % 20 == 0:
            node.report(*command(time), now=NOW_S + time)
        if tick % 10 == 0 and node.tick(NOW_S + time) is not None:
            end = command(time + 1.0)[0]
            ahead = 0.0 if held is None else float(np.abs(end - held + arm.droop)[0])
            return time, ahead, node.published.guard.reason
    return None, 0.0, ""


@pytest.mark.parametrize("speed", [0.05, 1.8])
@pytest.mark.parametrize(
    "arm",
    [
        Arm(),
        Arm(lag=0.1, droop=-0.02),
        Arm(lag=0.08, order=2, droop=0.02, noise=2e-4),
    ],
    ids=["exact", "late and low", "soft, low and noisy"],
)
@pytest.mark.parametrize(("rate", "delay"), [(250.0, 0.0), (20.0, 0.05)], ids=["250 Hz", "20 Hz, 50 ms late"])
def test_arms_that_follow_as_arms_do_are_not_braked(arm: Arm, speed: float, rate: float, delay: float) -> None:
    braked, _, why = supervised(copy.deepcopy(arm), max(1.2 * speed, 0.1), speed, rate=rate, delay=delay)
    assert braked is None, why


@pytest.mark.parametrize("travel", [6.0, 0.04], ids=["arm", "finger"])
@pytest.mark.parametrize("speed", [0.05, 0.5, 1.5])
@pytest.mark.parametrize(("lag", "droop"), [(0.0, 0.0), (0.06, -0.3)])
def test_a_standing_joint_is_noticed_within_a_tenth_of_a_second(
    travel: float, speed: float, lag: float, droop: float
) -> None:
    """Speeds and droops are in proportion to the travel, as is the allowance."""
    size = min(travel, 1.0)
    arm = Arm(lag=lag, droop=0.05 * droop * size)
    duration = 1.875 * 0.9 / speed * min(1.0, speed)
    way = 0.9 * size * min(1.0, speed)
    stands = 2.5 * duration  # the fastest moment of the second way out, after a motion to and fro
    braked, ahead, why = supervised(
        arm,
        way,
        speed * size,
        rate=250.0,
        stands_at=stands,
        limits__position_min=[-0.1 * size],
        limits__position_max=[travel - 0.1 * size],
    )
    noticed = max(0.1, 0.25 * 0.05 / speed) + 0.02  # and a margin for a lag that is hardly known
    assert braked is not None and stands < braked < stands + noticed + 0.01, "0.01 s: a period of the supervision"
    assert "a " in why and ahead < (0.3 * speed + 0.02) * size


@pytest.mark.parametrize("reports", [True, False])
def test_a_stream_does_not_creep_away_from_an_arm_that_stands(reports: bool) -> None:
    node = SimulatedNode(1, limits__assumed_velocity=2.0)
    arm = ArmLoop(node, lambda arm, command: command if arm.time < 1.5 else arm.place, reports)
    arm.run(4.0, lambda time: node.send(0.2 * (time + 0.05 * np.arange(1, 17))[:, None], dt=0.05, now=NOW_S + time))
    assert node.published.guard.brakes == 1
    assert np.ptp(np.array(arm.commands[260 if reports else 180 :])) < 1e-9, "0.3 s after it stood, or was let go"
    assert not reports or abs(arm.commands[-1] - arm.place) < 16e-3, "nothing presses on"

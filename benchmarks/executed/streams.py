"""Robots that execute streams of trajectories: chunks of recordings, and of a policy that follows a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicSpline

from soak.streams.policies import POSITION
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.requests.inputs import Actions

from .motions import RAMP_S, plan, plan_state
from .playing import Commanded, Controller, Node, RowsAsPoints, Sender

BEGIN_NS = 1_000_000_000_000
_STEP_S = 0.02
_HORIZON, _SHORTEST = 16, 4
"""Length of chunks of recordings; at the end they become shorter."""
_LAG_S = 0.04
"""Lag of measured states behind commands, s."""
_BRAKE_ACCELERATION, _BRAKE_JERK = 10.0, 100.0
_START_S = 0.25
"""Time, s, at the start that is not judged: the robot moves already, with an unknown acceleration."""
_MOVES = 0.01
"""Share of the largest acceleration below which a joint of a recording does not count as moving."""


def every(step: float) -> float:
    """Time between the chunks of a recording, s."""
    return max(round(0.1 / step), 1) * step


def of_recording(step: float, rows: np.ndarray, sender: Sender) -> float:
    """Acceleration commanded for chunks of a recording, over the acceleration of the spline through all its rows."""
    spline = CubicSpline(step * np.arange(len(rows)), rows)
    robot = _Robot(_sender(sender, rows.shape[1]), lambda into: State(*(spline(into, n) for n in range(3))))
    for first in range(0, len(rows) - _SHORTEST, round(every(step) / step)):
        into = first * step
        robot.send(rows[first + 1 : first + 1 + _HORIZON], step, into, into, into + 0.001 * (first > 0))
    end = (len(rows) - 1) * step
    robot.controller.run(_ns(end))
    meant = np.abs(spline(np.arange(0, end, 1e-3), 2)).max(axis=0)
    commanded = np.abs(robot.controller.commanded().differences(2)[round(1000 * _START_S) :]).max(axis=0)
    moving = meant > _MOVES * meant.max()
    return float((commanded / meant)[moving].max())


def streams(period: float, conditions: list, sender: Sender) -> list[Commanded]:
    """The commands of streams, after the plan has accelerated."""
    chunks = round((RAMP_S + 2.5) / period)
    commands = [
        _stream(_sender(sender, publish__lead_in=False), period, *each, chunks=chunks)[0] for each in conditions
    ]
    return [command.part(slice(round(1000 * RAMP_S) + 300, None)) for command in commands]


@lru_cache(maxsize=4)
def stopped(stops: tuple[tuple[float, int], ...], sender: Sender) -> dict[str, float]:
    """The worst figures of streams that stop after different times."""
    worst: dict[str, float] = defaultdict(float)
    limits = {"limits__acceleration": [_BRAKE_ACCELERATION] * 2, "limits__jerk": [_BRAKE_JERK] * 2}
    for period, index in stops:
        chunks = round((RAMP_S + 0.3 * (index + 1)) / period)
        node = _sender(sender, **limits)
        command, last = _stream(node, period, 0.015, 0.1, index, chunks=chunks, seconds_after=2.0)
        ending = command.part(slice(last, None))
        speed = ending.differences(1)
        figures = {
            "acceleration / limit": np.abs(ending.differences(2)).max() / _BRAKE_ACCELERATION,
            "jerk / limit": np.abs(ending.differences(3)).max() / _BRAKE_JERK,
            "velocity left, rad/s": np.abs(speed[-1]).max(),
            "backwards, rad/s": np.maximum(-speed * [1.0, -1.0], 0).max(),
        }
        for figure, value in figures.items():
            worst[figure] = max(worst[figure], float(value))
    return worst


def _sender(sender: Sender, dof: int = 2, **parameters: object) -> Node | RowsAsPoints:
    return sender(dof, start_from="previous", limits__start_deviation=0.0, **parameters)


def _stream(
    node: Node | RowsAsPoints,
    period: float,
    jitter: float,
    inference: float,
    seed: int,
    *,
    chunks: int,
    seconds_after: float = 0.0,
) -> tuple[Commanded, int]:
    """The commands to a robot while a policy sends chunks of the plan, and the cycle of the last chunk's arrival."""
    random, robot = np.random.default_rng(seed), _Robot(node, plan_state)
    horizon = int(np.ceil((inference + 2 * jitter + 3 * period + 0.25) / _STEP_S))
    arrival = 0.0
    for index in range(chunks):
        stamp = index * period
        now = stamp + (inference + random.uniform(0, jitter)) * (index > 0)
        arrival = max(arrival, now + random.uniform(0.0005, max(jitter, 0.001)) * (index > 0))
        robot.send(plan(stamp + _STEP_S * np.arange(1, horizon + 1)), _STEP_S, stamp, now, arrival)
    robot.controller.run(_ns(arrival + seconds_after))
    return robot.controller.commanded(), round(arrival / 1e-3)


class _Robot:
    """A robot that begins with the plan, its controller, and the node that sends to it; times are s."""

    def __init__(self, node: Node | RowsAsPoints, plan_at: Callable[[float], State]) -> None:
        self.controller = Controller(plan_at(0.0), BEGIN_NS)
        self._node, self._plan_at = node, plan_at

    def send(self, rows: np.ndarray, step: float, stamp: float, now: float, arrival: float) -> None:
        """Give the node a joint state and a chunk, and the controller the node's trajectory."""
        tell, lag = (self._node.measure, _LAG_S) if stamp else (self._node.begin, 0.0)
        tell(self._plan_at(max(now - lag, 0.0)), _ns(now))
        message = self._node.answer(Actions(_ns(stamp), POSITION, step, rows), _ns(now))
        self.controller.receive(message, _ns(arrival))


def _ns(seconds: float) -> int:
    return BEGIN_NS + round(seconds * 1e9)

"""Robots that execute streams of trajectories: chunks of recordings, and of a policy that follows a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicSpline

from traj_integrator_ros.execution.motion import State

from .controller import Commanded, Controller
from .motions import RAMP_S, plan, plan_state
from .senders import Node, RowsAsPoints

BEGIN_NS = 1_000_000_000_000
Sender = type[Node] | type[RowsAsPoints]
MakeController = Callable[..., Controller]
"""Of a start state and the time of the first cycle, ns."""
_STEP_S = 0.02
_HORIZON, _SHORTEST = 16, 4
"""Length of chunks of recordings; at the end they become shorter."""
_LAG_S = 0.04
"""Lag of measured states behind commands."""
_BRAKE_ACCELERATION, _BRAKE_JERK = 10.0, 100.0
_START_S = 0.25
"""In which a robot that moves already, as in the middle of a recording, is taken over: its acceleration is unknown."""
_MOVES = 0.01
"""Share of the largest acceleration below which a joint of a recording does not count as moving."""


def every(step: float) -> float:
    """Time between the chunks of a recording, s."""
    return max(round(0.1 / step), 1) * step


def of_recording(step: float, rows: np.ndarray, sender: Sender) -> float:
    """Acceleration commanded for chunks of a recording, of that of the spline through all its rows."""
    spline = CubicSpline(step * np.arange(len(rows)), rows)
    start = State(*(spline(0.0, order) for order in range(3)))
    node = sender(rows.shape[1], start_from="previous", limits__start_deviation=0.0)
    controller = Controller(start, BEGIN_NS)
    for first in range(0, len(rows) - _SHORTEST, round(every(step) / step)):
        stamp_ns, into = BEGIN_NS + _ns(first * step), first * step
        if first == 0:
            node.begin(start, stamp_ns)
        else:
            node.measure(State(*(spline(max(into - _LAG_S, 0), order) for order in range(3))), stamp_ns)
        message = node.send(rows[first + 1 : first + 1 + _HORIZON], dt=step, now_ns=stamp_ns, stamp_ns=stamp_ns)
        controller.receive(message, stamp_ns + 1_000_000 * (first > 0))
    end = (len(rows) - 1) * step
    controller.run(BEGIN_NS + _ns(end))
    meant = np.abs(spline(np.arange(0, end, 1e-3), 2)).max(axis=0)
    commanded = np.abs(controller.commanded().acceleration[round(1000 * _START_S) :]).max(axis=0)
    moving = meant > _MOVES * meant.max()
    return float((commanded / meant)[moving].max())


def streams(
    make: MakeController, period: float, conditions: list, sender: Sender, *, lead_in: bool = False
) -> list[Commanded]:
    """The commands of streams, once the plan is on its way."""
    commands = []
    for jitter, inference, seed in conditions:
        node = sender(2, start_from="previous", limits__start_deviation=0.0, publish__lead_in=lead_in)
        chunks = round((RAMP_S + 2.5) / period)
        commands.append(_stream(make, node, period, jitter, inference, seed, chunks=chunks)[0])
    return [command.part(slice(round(1000 * RAMP_S) + 300, None)) for command in commands]


@lru_cache(maxsize=4)
def stopped(stops: tuple[tuple[float, int], ...], sender: Sender) -> dict[str, float]:
    """The worst of streams that stop, sooner or later."""
    worst: dict[str, float] = defaultdict(float)
    limits = {"limits__acceleration": [_BRAKE_ACCELERATION] * 2, "limits__jerk": [_BRAKE_JERK] * 2}
    for period, index in stops:
        node = sender(2, start_from="previous", limits__start_deviation=0.0, **limits)
        chunks = round((RAMP_S + 0.3 * (index + 1)) / period)
        command, last = _stream(Controller, node, period, 0.015, 0.1, index, chunks=chunks, seconds_after=2.0)
        ending = command.part(slice(last, None))
        speed = np.diff(ending.position, axis=0) * 1e3
        figures = {
            "acceleration / limit": np.abs(ending.acceleration).max() / _BRAKE_ACCELERATION,
            "jerk / limit": np.abs(ending.jerk).max() / _BRAKE_JERK,
            "velocity left, rad/s": np.abs(speed[-1]).max(),
            "backwards, rad/s": np.maximum(-speed * [1.0, -1.0], 0).max(),
        }
        for figure, value in figures.items():
            worst[figure] = max(worst[figure], float(value))
    return worst


def _stream(
    make: MakeController,
    node: Node | RowsAsPoints,
    period: float,
    jitter: float,
    inference: float,
    seed: int,
    *,
    chunks: int,
    seconds_after: float = 0.0,
) -> tuple[Commanded, int]:
    """The commands to a robot while a policy sends chunks of the plan, and the cycle at which the last one arrived."""
    random = np.random.default_rng(seed)
    begin_s = BEGIN_NS * 1e-9
    controller = make(plan_state(0.0), BEGIN_NS)
    horizon = int(np.ceil((inference + 2 * jitter + 3 * period + 0.25) / _STEP_S))
    arrivals, arrival = [], 0.0
    for index in range(chunks):
        stamp = index * period
        now = stamp + (inference + random.uniform(0, jitter)) * (index > 0)
        observed = plan_state(now - _LAG_S * (index > 0))
        (node.measure if index else node.begin)(observed, _ns(begin_s + now))
        rows = plan(stamp + _STEP_S * np.arange(1, horizon + 1))
        message = node.send(rows, dt=_STEP_S, now_ns=_ns(begin_s + now), stamp_ns=_ns(begin_s + stamp))
        arrival = max(arrival, now + random.uniform(0.0005, max(jitter, 0.001)) * (index > 0))
        arrivals.append((arrival, message))
    for arrival, message in arrivals:
        controller.receive(message, _ns(begin_s + arrival))
    controller.run(_ns(begin_s + arrival + seconds_after))
    return controller.commanded(), round(arrival / 1e-3)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)

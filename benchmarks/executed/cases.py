"""The requirements on the command, item by item: each measured with the node and with rows as points."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline

from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.kernels import ControlSpace

from .controller import Commanded, Controller
from .motions import (
    ACCELERATION,
    JERK,
    PLAN_ACCELERATION,
    RAMP_S,
    actions_of,
    jerk_limited,
    plan,
    plan_state,
    recorded,
)
from .senders import Node, RowsAsPoints

Sender = type[Node] | type[RowsAsPoints]
MakeController = Callable[..., Controller]
"""Of a start state and the time of the first cycle, ns."""

_BEGIN_NS = 1_000_000_000_000
_HOLDS = {
    ControlSpace.POSITION: 2.0,
    ControlSpace.VELOCITY: 2.0,
    ControlSpace.ACCELERATION: np.inf,
    ControlSpace.JERK: 1.5,
}
"""Largest allowed ratio of jerk to the intended jerk."""
_STEPS = {0.02: 1.05, 0.05: 1.25, 0.1: 1.25}
"""Largest allowed ratio of acceleration to the intended acceleration."""
_HORIZON, _SHORTEST = 16, 4
"""Length of chunks; at the end of a recording they become shorter."""
_LAG_S = 0.04
"""Lag of measured states behind commands."""
_JITTERS_S, _INFERENCES_S = (0.0, 0.015), (0.0, 0.15)
_DIRECTIONS = np.array([1.0, -1.0])
"""Of the plan's joints."""
_JOINED_ELSEWHERE = {
    "interpolate_from_desired_state": {"from_desired": True},
    "a robot that lags by 40 ms": {"lag": _LAG_S},
    "both": {"from_desired": True, "lag": _LAG_S},
}
"""Settings with which the controller joins trajectories from states other than the command."""
_GENTLE = 0.75
"""Assumed limit of velocity with which stops are as gentle as the motions: acceleration 6 rad/s^2, jerk 48 rad/s^3."""
_BRAKE_ACCELERATION, _BRAKE_JERK = 10.0, 100.0
_START_S = 0.25
"""In which a robot that moves already, as in the middle of a recording, is taken over: its acceleration is unknown."""
_MOVES = 0.01
"""Share of the largest acceleration below which a joint of a recording does not count as moving."""
_BACKWARDS = 5e-6
"""rad/s against its direction up to which a joint does not turn back: whole nanoseconds lead 1e-9 rad back."""


@dataclass(frozen=True)
class Item:
    """One line of the table; `measure` gives its figure for a sender."""

    what: str
    figure: str
    bound: float
    measure: Callable[[Sender], float]


def items(folder: Path | None, blending: MakeController | None, *, quick: bool = False) -> Iterator[Item]:
    """All lines.

    Args:
        folder: of recordings; None: a planned motion stands for them.
        blending: a controller that blends trajectories; None: those lines are left out.
        quick: fewer seeds.

    """
    seeds = range(2 if quick else 12)
    for space, (dt, most) in product(_HOLDS, _STEPS.items()):
        what = f"jerk-limited motions, {space.name.lower()}, dt {dt:g}"
        yield Item(what, "acceleration / meant", most, partial(_alone, space, dt, seeds, 2, ACCELERATION))
        if np.isfinite(_HOLDS[space]):
            yield Item(what, "jerk / meant", _HOLDS[space], partial(_alone, space, dt, seeds, 3, JERK))
    for name, step, rows in recorded(folder):
        what = f"{name}: chunks every {_every(step):.2g} s"
        yield Item(what, "acceleration / spline's", 1.25, partial(_recording, step, rows))
    controllers: dict[str, MakeController] = {"": Controller}
    if blending is not None:
        controllers[", blending"] = blending
    conditions = list(product(_JITTERS_S, _INFERENCES_S, range(1 if quick else 3)))
    for period, (name, make) in product((0.1, 0.04), controllers.items()):
        streams = partial(_streams, make, period, conditions)
        what = f"chunks at {1 / period:.0f} Hz{name}"
        if make is Controller:
            yield Item(what, "acceleration / plan's", 1.5, lambda sender, s=streams: _at_seams(s(sender), None))
        else:
            yield Item(what, "acceleration / plan's", 1.5, lambda sender, s=streams: _at_seams(s(sender), False))
            yield Item(
                f"{what}: the controller's own way to the start",
                "acceleration / plan's",
                np.inf,
                lambda sender, s=streams: _at_seams(s(sender), True),
            )
        yield Item(what, "backwards, rad/s", 0.0, lambda sender, s=streams: _backwards(s(sender)))
    for (name, settings), lead_in in product(_JOINED_ELSEWHERE.items(), (False, True)):
        streams = partial(_streams, partial(Controller, **settings), 0.1, conditions, lead_in=lead_in)
        yield Item(
            f"chunks at 10 Hz, {name}" + (", publish.lead_in" if lead_in else ""),
            "acceleration / plan's",
            1.5 if lead_in else np.inf,
            lambda sender, s=streams: _at_seams(s(sender), None),
        )
    stops = tuple(product((0.1, 0.04), range(2 if quick else 12)))
    for figure, bound in (
        ("acceleration / limit", 1.0),
        ("jerk / limit", 1.0),
        ("velocity left, rad/s", 0.0),
        ("backwards, rad/s", 0.0),
    ):
        yield Item("a stream that stops", figure, bound, lambda sender, f=figure: _stopped(stops, sender)[f])
    yield Item("a chunk that ends while it moves", "backwards, rad/s", 0.0, partial(_cut, seeds))
    yield Item("noise of 1e-4 rad in positions", "acceleration / spline's", 1.0, partial(_noise, seeds))
    for kind in ("position", "velocity"):
        yield Item(f"a step of {kind} in the plan", "overshoot / step", 0.15, partial(_step, kind, 0.0))
        yield Item(f"a step of {kind} in the plan", "left after 6 rows / step", 0.01, partial(_step, kind, 6.0))


def met(item: Item, measured: float) -> bool:
    """Whether a figure keeps its bound, except for rounding of float32 numbers and of differences of the command."""
    slack = _BACKWARDS if item.bound == 0 else 2e-3 * item.bound
    return measured <= item.bound + slack


# One trajectory


def _alone(space: ControlSpace, dt: float, seeds: range, order: int, meant: float, sender: Sender) -> float:
    worst = 0.0
    for seed in seeds:
        states = jerk_limited(seed, dt)
        start = State(*states[:, 0].astype(np.float32).astype(float))
        node = sender(states.shape[2], publish__lead_time=0.0, limits__assumed_velocity=_GENTLE)
        node.begin(start, _BEGIN_NS)
        message = node.send(actions_of(states, space, dt), dt=dt, now_ns=_BEGIN_NS, space=space, start=start)
        command = _played(message, start)
        values = command.acceleration if order == 2 else command.jerk
        worst = max(worst, float(np.abs(values).max()) / (np.abs(states[2]).max() if order == 2 else meant))
    return worst


def _played(message, start: State) -> Commanded:
    controller = Controller(start, _BEGIN_NS)
    controller.receive(message, _BEGIN_NS)
    controller.run(_BEGIN_NS + int(message.points.time_ns[-1]) - 1_000_000)
    return controller.commanded()


def _cut(seeds: range, sender: Sender) -> float:
    """Largest speed against the direction at the end, where the plan stops in the middle of its motion."""
    worst = 0.0
    for seed, count in product(seeds, (4, 9, 17, 25, 33)):
        space, states = ControlSpace.JERK, jerk_limited(seed, 0.02)[:, : count + 1]
        start, end = State(*states[:, 0].astype(np.float32).astype(float)), states[:, -1]
        limits = {"limits__acceleration": [2 * ACCELERATION] * 7, "limits__jerk": [JERK] * 7, "limits__action": "warn"}
        node = sender(7, publish__lead_time=0.0, **limits)
        node.begin(start, _BEGIN_NS)
        message = node.send(actions_of(states, space, 0.02), dt=0.02, now_ns=_BEGIN_NS, space=space, start=start)
        velocity = _played(message, start).velocity
        velocity = velocity[min(round(1000 * 0.02 * count), len(velocity) - 1) :]
        direction = np.sign(velocity[0])
        # Only joints that can stop within the jerk limit without reversing, or have left their plan in order not to.
        can = (end[1] + end[2] * np.abs(end[2]) / (2 * JERK)) * direction > 0
        can |= np.abs(velocity[0] - end[1]) > 0.01
        worst = max(worst, float((-direction * velocity).max(axis=0, initial=0, where=can[None]).max()))
    return worst


def _noise(seeds: range, sender: Sender) -> float:
    worst = 0.0
    for seed in seeds:
        random = np.random.default_rng(seed)
        states = jerk_limited(seed, 0.02)
        states = states[:, : 2 + states.shape[1] // 2]
        noisy = (states[0] + random.normal(scale=1e-4, size=states[0].shape)).astype(np.float32).astype(float)
        start = State(noisy[0], *states[1:, 0])
        node = sender(7, publish__end="as_planned", publish__lead_time=0.0)
        node.begin(start, _BEGIN_NS)
        message = node.send(noisy[1:], dt=0.02, now_ns=_BEGIN_NS, start=start._replace(acceleration=None))
        times = 0.02 * np.arange(len(noisy))
        spline = CubicSpline(times, noisy, bc_type=((1, start.velocity), (2, np.zeros(7))))
        largest = max(np.abs(spline(times, 2)).max(), np.abs(start.acceleration).max())
        worst = max(worst, float(np.abs(_played(message, start).acceleration).max()) / largest)
    return worst


def _step(kind: str, rows_later: float, sender: Sender) -> float:
    """Of the velocity where that steps: the share of the step that is overshot, from some rows after it on."""
    rows, dt = np.arange(40), 0.02
    if kind == "position":
        positions, step = np.where(rows < 20, 0.0, 0.1), 0.1
    else:
        positions, step = np.maximum(rows - 20, 0) * dt * 0.5, 0.5
    start = State(*np.zeros((3, 2)))
    node = sender(2, publish__end="as_planned", publish__lead_time=0.0)
    node.begin(start, _BEGIN_NS)
    message = node.send(positions[:, None] * np.ones(2), dt=dt, now_ns=_BEGIN_NS, start=start)
    command = _played(message, start)
    values = (command.position if kind == "position" else command.velocity)[:, 0]
    times = 1e-3 * np.arange(len(values))
    into = (times - dt * (20.5 if kind == "position" else 21)) / dt  # rows from the middle of the step
    beyond = np.maximum(values - step, -values)
    if rows_later:
        beyond = np.abs(values - np.where(into > 0, step, 0.0))
    return float(beyond[np.abs(into) >= rows_later + 0.5 * (rows_later > 0)].max(initial=0.0)) / step


# Streams


def _every(step: float) -> float:
    """Time between the chunks of a recording, s."""
    return max(round(0.1 / step), 1) * step


def _recording(step: float, rows: np.ndarray, sender: Sender) -> float:
    spline = CubicSpline(step * np.arange(len(rows)), rows)
    start = State(*(spline(0.0, order) for order in range(3)))
    dof = rows.shape[1]
    node = sender(dof, start_from="previous", limits__start_deviation=0.0)
    controller = Controller(start, _BEGIN_NS)
    stride = round(_every(step) / step)
    for first in range(0, len(rows) - _SHORTEST, stride):
        stamp_ns = _BEGIN_NS + round(first * step * 1e9)
        into = first * step
        if first == 0:
            node.begin(start, stamp_ns)
        else:
            node.measure(State(*(spline(max(into - _LAG_S, 0), order) for order in range(3))), stamp_ns)
        message = node.send(rows[first + 1 : first + 1 + _HORIZON], dt=step, now_ns=stamp_ns, stamp_ns=stamp_ns)
        controller.receive(message, stamp_ns + 1_000_000 * (first > 0))
    end = (len(rows) - 1) * step
    controller.run(_BEGIN_NS + round(end * 1e9))
    times = np.arange(0, end, 1e-3)
    meant = np.abs(spline(times, 2)).max(axis=0)
    commanded = np.abs(controller.commanded().acceleration[round(1000 * _START_S) :]).max(axis=0)
    moving = meant > _MOVES * meant.max()
    return float((commanded / meant)[moving].max())


def _stream(
    make: MakeController,
    node: Node | RowsAsPoints,
    period: float,
    jitter: float,
    inference: float,
    seed: int,
    *,
    chunks: int,
    dt: float = 0.02,
    seconds_after: float = 0.0,
) -> tuple[Commanded, int]:
    """The commands to a robot while a policy sends chunks of the plan, and the cycle at which the last one arrived."""
    random = np.random.default_rng(seed)
    begin_s = _BEGIN_NS * 1e-9
    controller = make(plan_state(0.0), _BEGIN_NS)
    horizon = int(np.ceil((inference + 2 * jitter + 3 * period + 0.25) / dt))
    arrivals, arrival = [], 0.0
    for index in range(chunks):
        stamp = index * period
        now = stamp + (inference + random.uniform(0, jitter)) * (index > 0)
        observed = plan_state(now - _LAG_S * (index > 0))
        (node.measure if index else node.begin)(observed, _ns(begin_s + now))
        rows = plan(stamp + dt * np.arange(1, horizon + 1))
        message = node.send(rows, dt=dt, now_ns=_ns(begin_s + now), stamp_ns=_ns(begin_s + stamp))
        arrival = max(arrival, now + random.uniform(0.0005, max(jitter, 0.001)) * (index > 0))
        arrivals.append((arrival, message))
    for arrival, message in arrivals:
        controller.receive(message, _ns(begin_s + arrival))
    controller.run(_ns(begin_s + arrival + seconds_after))
    return controller.commanded(), round(arrival / 1e-3)


def _streams(
    make: MakeController, period: float, conditions: list, sender: Sender, *, lead_in: bool = False
) -> list[Commanded]:
    """The commands of streams, once the plan is on its way."""
    commands = []
    for jitter, inference, seed in conditions:
        node = sender(2, start_from="previous", limits__start_deviation=0.0, publish__lead_in=lead_in)
        chunks = round((RAMP_S + 2.5) / period)
        commands.append(_stream(make, node, period, jitter, inference, seed, chunks=chunks)[0])
    return [command.part(slice(round(1000 * RAMP_S) + 300, None)) for command in commands]


def _at_seams(commands: list[Commanded], joining: bool | None) -> float:
    """Largest acceleration; None: wherever it is."""
    ways = (False, True) if joining is None else (joining,)
    return max(c.largest_acceleration(joining=way) for c in commands for way in ways) / PLAN_ACCELERATION


def _backwards(commands: list[Commanded]) -> float:
    return max(float(np.maximum(-np.diff(c.position, axis=0) * _DIRECTIONS * 1e3, 0).max()) for c in commands)


@lru_cache(maxsize=4)
def _stopped(stops: tuple[tuple[float, int], ...], sender: Sender) -> dict[str, float]:
    """The worst of streams that stop, sooner or later."""
    worst: dict[str, float] = defaultdict(float)
    for period, index in stops:
        limits = {"limits__acceleration": [_BRAKE_ACCELERATION] * 2, "limits__jerk": [_BRAKE_JERK] * 2}
        node = sender(2, start_from="previous", limits__start_deviation=0.0, **limits)
        chunks = round((RAMP_S + 0.3 * (index + 1)) / period)
        command, last = _stream(Controller, node, period, 0.015, 0.1, index, chunks=chunks, seconds_after=2.0)
        ending = command.part(slice(last, None))
        speed = np.diff(ending.position, axis=0) * 1e3
        figures = {
            "acceleration / limit": np.abs(ending.acceleration).max() / _BRAKE_ACCELERATION,
            "jerk / limit": np.abs(ending.jerk).max() / _BRAKE_JERK,
            "velocity left, rad/s": np.abs(speed[-1]).max(),
            "backwards, rad/s": np.maximum(-speed * _DIRECTIONS, 0).max(),
        }
        for figure, value in figures.items():
            worst[figure] = max(worst[figure], float(value))
    return worst


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)

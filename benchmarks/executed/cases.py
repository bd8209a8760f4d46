"""The requirements on the command, each measured with the node and with rows sent as points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline

from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.inputs import Actions

from .motions import JERK, PLAN_ACCELERATION, actions_of, jerk_limited, recorded
from .playing import Commanded, Controller, Sender
from .streams import BEGIN_NS, every, of_recording, stopped, streams

_HOLDS = {
    ControlSpace.POSITION: 2.0,
    ControlSpace.VELOCITY: 2.0,
    ControlSpace.ACCELERATION: np.inf,
    ControlSpace.JERK: 1.5,
}
"""Largest allowed ratio of jerk to the intended jerk."""
_STEPS = {0.02: 1.05, 0.05: 1.25, 0.1: 1.25}
"""Largest allowed ratio of acceleration to the intended acceleration."""
_JITTERS_S, _INFERENCES_S = (0.0, 0.015), (0.0, 0.15)
_DIRECTIONS = np.array([1.0, -1.0])
"""Directions of the plan's joints."""
_GENTLE = 0.75
"""Assumed velocity limit, rad/s, for stops as smooth as the motions: it means 6 rad/s^2 and 48 rad/s^3."""
_LEFT = 0.05
"""Share of a step that may remain 6 rows later: within the assumed limits alone, a step of 0.1 rad takes 8.5 rows."""
_BACKWARDS = 5e-6
"""Speed against its direction, rad/s, up to which a joint does not count as turning back: rounding to nanoseconds."""


@dataclass(frozen=True)
class Item:
    """One line of the table; `measure` gives its figure for a sender."""

    what: str
    figure: str
    bound: float
    measure: Callable[[Sender], float]


def items(folder: Path | None, *, quick: bool = False) -> Iterator[Item]:
    """All lines of the table, for the recordings in a folder or for a planned motion; `quick` takes fewer seeds."""
    seeds = range(2 if quick else 12)
    for space, (dt, most) in product(_HOLDS, _STEPS.items()):
        what = f"jerk-limited motions, {space.name.lower()}, dt {dt:g}"
        yield Item(what, "acceleration / meant", most, partial(_alone, space, dt, seeds, 2))
        if np.isfinite(_HOLDS[space]):
            yield Item(what, "jerk / meant", _HOLDS[space], partial(_alone, space, dt, seeds, 3))
    for name, step, rows in recorded(folder):
        what = f"{name}: chunks every {every(step):.2g} s"
        yield Item(what, "acceleration / spline's", 1.25, partial(of_recording, step, rows))
    conditions = list(product(_JITTERS_S, _INFERENCES_S, range(1 if quick else 3)))
    for period in (0.1, 0.04):
        what = f"chunks at {1 / period:.0f} Hz"
        commands = cache(partial(streams, period, conditions))
        yield Item(what, "acceleration / plan's", 1.5, partial(_largest_acceleration, commands))
        yield Item(what, "backwards, rad/s", 0.0, partial(_backwards, commands))
    stops = tuple(product((0.1, 0.04), range(2 if quick else 12)))
    bounds = {"acceleration / limit": 1.0, "jerk / limit": 1.0, "velocity left, rad/s": 0.0, "backwards, rad/s": 0.0}
    for figure, bound in bounds.items():
        yield Item("a stream that stops", figure, bound, lambda sender, f=figure: stopped(stops, sender)[f])
    yield Item("noise of 1e-4 rad in positions", "acceleration / spline's", 1.0, partial(_noise, seeds))
    for kind in ("position", "velocity"):
        yield Item(f"a step of {kind} in the plan", "overshoot / step", 0.15, partial(_step, kind, 0.0))
        yield Item(f"a step of {kind} in the plan", "left after 6 rows / step", _LEFT, partial(_step, kind, 6.0))


def met(item: Item, measured: float) -> bool:
    """Return whether a figure keeps its bound, up to rounding of float32 numbers and of differences."""
    slack = _BACKWARDS if item.bound == 0 else 2e-3 * item.bound
    return measured <= item.bound + slack


# Streams


def _largest_acceleration(commands: Callable[[Sender], list[Commanded]], sender: Sender) -> float:
    """Return the largest acceleration on the trajectories, and on the controller's own motions to them."""
    return max(float(np.abs(c.differences(2)).max()) for c in commands(sender)) / PLAN_ACCELERATION


def _backwards(commands: Callable[[Sender], list[Commanded]], sender: Sender) -> float:
    return max(float(np.maximum(-c.differences(1) * _DIRECTIONS, 0).max()) for c in commands(sender))


# One trajectory


def _commanded(
    sender: Sender,
    start: State,
    actions: np.ndarray,
    dt: float,
    space: ControlSpace = ControlSpace.POSITION,
    sent: State | None = None,
    **parameters: object,
) -> Commanded:
    """The commands for one trajectory from a start to its end; `sent` is the start in the message, if different."""
    node = sender(actions.shape[1], publish__lead_time=0.0, **parameters)
    node.begin(start, BEGIN_NS)
    given = [np.asarray(row, np.float32) for row in sent or start if row is not None]
    message = node.answer(Actions(0, space.value, dt, actions, given), BEGIN_NS)
    controller = Controller(start, BEGIN_NS)
    controller.receive(message, BEGIN_NS)
    controller.run(BEGIN_NS + int(message.points.time_ns[-1]) - 1_000_000)
    return controller.commanded()


def _first(states: np.ndarray) -> State:
    return State(*states[:, 0].astype(np.float32).astype(float))


def _alone(space: ControlSpace, dt: float, seeds: range, order: int, sender: Sender) -> float:
    worst = 0.0
    for seed in seeds:
        states = jerk_limited(seed, dt)
        actions = actions_of(states, space, dt)
        command = _commanded(sender, _first(states), actions, dt, space, limits__assumed_velocity=_GENTLE)
        meant = np.abs(states[2]).max() if order == 2 else JERK
        worst = max(worst, float(np.abs(command.differences(order)).max() / meant))
    return worst


def _noise(seeds: range, sender: Sender) -> float:
    worst, dt = 0.0, 0.02
    for seed in seeds:
        random = np.random.default_rng(seed)
        states = jerk_limited(seed, dt)
        states = states[:, : 2 + states.shape[1] // 2]
        noisy = (states[0] + random.normal(scale=1e-4, size=states[0].shape)).astype(np.float32).astype(float)
        velocity, acceleration = states[1:, 0]
        start = State(noisy[0], velocity, acceleration)
        sent = start._replace(acceleration=None)
        command = _commanded(sender, start, noisy[1:], dt, sent=sent, publish__end="as_planned")
        times = dt * np.arange(len(noisy))
        spline = CubicSpline(times, noisy, bc_type=((1, velocity), (2, np.zeros(7))))
        largest = max(np.abs(spline(times, 2)).max(), np.abs(acceleration).max())
        worst = max(worst, float(np.abs(command.differences(2)).max()) / largest)
    return worst


def _step(kind: str, rows_later: float, sender: Sender) -> float:
    """Return the overshoot, as a share of a step of velocity, from some rows after the step on."""
    rows, dt = np.arange(40), 0.02
    if kind == "position":
        positions, step = np.where(rows < 20, 0.0, 0.1), 0.1
    else:
        positions, step = np.maximum(rows - 20, 0) * dt * 0.5, 0.5
    start = State(*np.zeros((3, 2)))
    command = _commanded(sender, start, positions[:, None] * np.ones(2), dt, publish__end="as_planned")
    values = command.states[int(kind == "velocity"), :, 0]
    times = 1e-3 * np.arange(len(values))
    into = (times - dt * (20.5 if kind == "position" else 21)) / dt  # rows from the middle of the step
    beyond = np.maximum(values - step, -values)
    if rows_later:
        beyond = np.abs(values - np.where(into > 0, step, 0.0))
    return float(beyond[np.abs(into) >= rows_later + 0.5 * (rows_later > 0)].max(initial=0.0)) / step

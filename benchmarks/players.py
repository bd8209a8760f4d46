"""What robots are given today for a policy's chunks: each peer's commands at 1 kHz.

All peers know a chunk from its arrival on, and all but joint_trajectory_controller are written here from their
documentation. Where a peer commands more seldom than at 1 kHz, the command goes there in a straight line until its next
command, or as its velocities say if it has some: what joint_trajectory_controller makes of single points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version

import numpy as np
from ruckig import InputParameter, OutputParameter, Ruckig, Synchronization
from scipy.interpolate import CubicHermiteSpline, CubicSpline, make_interp_spline

from kit.arm import Robot
from kit.controller import SECOND
from rig.player import Player

from .chunks import CYCLE_S, DOF, Chunk, Stream

SERVO_S = 0.01
"""Default of MoveIt Servo's publish_period, s."""
COEFFICIENT = 1.5
"""Default of MoveIt's butterworth_filter_coeff."""
SHARE = 0.3
"""Weight of the new action in an exponential filter; no documentation gives one."""
DECAY = 0.01
"""Exponent m of ACT's weights exp(-m i)."""


def controller(stream: Stream, *, velocities: bool = False, **options: object) -> np.ndarray:
    """Command as joint_trajectory_controller does for rows as points, with the velocities of their spline if asked."""
    joints = [f"joint{i}" for i in range(DOF)]
    robot = Robot(joints, lag=stream.lag, allow_nonzero_velocity_at_trajectory_end=True, **options)
    robot.set_state(stream.start)
    player, arrivals = Player(robot, SECOND), stream.arrivals(CYCLE_S)

    def send() -> None:
        now, arrived = next(arrivals)
        if arrived:
            points = points_ahead(arrived[-1].times(stream.dt) - now, arrived[-1].rows, velocities=velocities)
            if not robot.receive(joints, *points, now_ns=SECOND + round(now * SECOND)):
                raise RuntimeError(robot.refusal)

    player.go(stream.seconds, CYCLE_S, send)
    return np.concatenate([stream.start[None], player.played()[1]])[:-1]


def points_ahead(
    ahead: np.ndarray, rows: np.ndarray, *, velocities: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return points for rows from a step ahead on: times, ns, positions, velocities; `ahead`, s, is of all rows."""
    kept = ahead >= ahead[1] - ahead[0]
    rates = CubicSpline(ahead, rows)(ahead, 1)[kept] if velocities else None
    return np.rint(ahead[kept] * SECOND).astype(np.int64), rows[kept], rates


def online(stream: Stream) -> np.ndarray:
    """Command as ruckig: in each cycle to rest at the next row of the newest chunk, each joint by itself.

    Velocities of the rows, joints that wait for each other, and rows that are further ahead make it no better.
    """
    otg, given, made = Ruckig(DOF, CYCLE_S), InputParameter(DOF), OutputParameter(DOF)
    given.current_position = given.target_position = stream.start.tolist()
    for name in ("velocity", "acceleration", "jerk"):
        setattr(given, f"max_{name}", stream.limits[name])
    given.synchronization = Synchronization.No
    commands, chunk = [stream.start], None
    for now, arrived in stream.arrivals(CYCLE_S):
        chunk = arrived[-1] if arrived else chunk
        if chunk is not None:
            row = min(int((now - chunk.observed) / stream.dt), len(chunk.rows) - 1)
            given.target_position = chunk.rows[row].tolist()
        otg.update(given, made)
        made.pass_to_input(given)
        commands.append(made.new_position)
    return np.array(commands[:-1])


def exponential(stream: Stream, *, share: float) -> np.ndarray:
    """Command the newest chunk's action for each step, mixed with the command before; 1.0: the action as it is."""
    commands = [stream.start]
    for target in _newest(stream, stream.dt):
        commands.append(commands[-1] + share * (target - commands[-1]))
    return _straight(stream.dt, commands, stream)


def ensembled(stream: Stream) -> np.ndarray:
    """Command as ACT's temporal ensembling: the mean of all chunks' actions for a step; the oldest has weight 1."""
    commands, known = [stream.start], []
    for now, arrived in stream.arrivals(stream.dt):
        known = sorted([*known, *arrived], key=lambda chunk: chunk.observed)
        known = [chunk for chunk in known if chunk.times(stream.dt)[-1] >= now + stream.dt]
        actions = [_at(chunk, stream.dt, now + stream.dt) for chunk in known]
        weights = np.exp(-DECAY * np.arange(len(actions)))
        commands.append(np.average(actions, axis=0, weights=weights) if actions else commands[-1])
    return _straight(stream.dt, commands, stream)


def butterworth(stream: Stream) -> np.ndarray:
    """Command as MoveIt Servo's ButterworthFilterPlugin, which is of first order, for the newest chunk."""
    commands, before = [stream.start], stream.start
    for target in _newest(stream, SERVO_S):
        commands.append((before + target - (1 - COEFFICIENT) * commands[-1]) / (1 + COEFFICIENT))
        before = target
    return _with_velocities(commands, stream)


def acceleration_limited(stream: Stream) -> np.ndarray:
    """Command as MoveIt Servo's AccelerationLimitedPlugin: straight towards the newest chunk, as far as limits allow.

    Where no part of the way is possible, all joints brake together.
    """
    commands, velocity, most = [stream.start], np.zeros(DOF), np.array(stream.limits["acceleration"]) * SERVO_S
    for target in _newest(stream, SERVO_S):
        way = (target - commands[-1]) / SERVO_S
        moves = np.abs(way) > 1e-12
        bounds = np.sort([(velocity - most)[moves] / way[moves], (velocity + most)[moves] / way[moves]], axis=0)
        least, largest = bounds[0].max(initial=0.0), bounds[1].min(initial=1.0)
        if least <= largest and (np.abs(velocity) <= most)[~moves].all():
            velocity = largest * way
        else:
            velocity = velocity * (1 - min(1.0, *most / np.maximum(np.abs(velocity), 1e-12)))
        commands.append(commands[-1] + velocity * SERVO_S)
    return _with_velocities(commands, stream)


CONTROLLER = "joint_trajectory_controller 6.9.0, positions"
UPSAMPLING = "joint_trajectory_controller after 6.9.0, `positions_upsampling`"
ENSEMBLING = f"ACT's temporal ensembling, m = {DECAY:g}"
PEERS: dict[str, Callable[[Stream], np.ndarray]] = {
    CONTROLLER: partial(controller, hard_replacement=True),
    f"{CONTROLLER} and velocities": partial(controller, velocities=True, hard_replacement=True),
    UPSAMPLING: partial(controller, upsampling=0.0),
    f"ruckig {version('ruckig')}, to the next row": online,
    f"exponential filter, share {SHARE:g}": partial(exponential, share=SHARE),
    "LeRobot 0.6.1, `ActionInterpolator`": partial(exponential, share=1.0),
    ENSEMBLING: ensembled,
    f"MoveIt Servo 2.14, Butterworth, {COEFFICIENT:g}": butterworth,
    "MoveIt Servo 2.14, acceleration-limited": acceleration_limited,
}
"""Peers by name and version, with the settings that their documentation recommends: commands `[cycles, DOF]`."""


def _newest(stream: Stream, step: float) -> Iterator[np.ndarray]:
    """Yield for each time of a grid the newest chunk's position for the next one; the start before there is a chunk."""
    chunk = None
    for now, arrived in stream.arrivals(step):
        chunk = arrived[-1] if arrived else chunk
        yield stream.start if chunk is None else _at(chunk, stream.dt, now + step)


def _at(chunk: Chunk, dt: float, time: float) -> np.ndarray:
    """Return a chunk's position at a time, s, in a straight line between its rows."""
    place = np.clip((time - chunk.observed) / dt - 1, 0, len(chunk.rows) - 1)
    first = min(int(place), len(chunk.rows) - 2)
    return chunk.rows[first] + (place - first) * (chunk.rows[first + 1] - chunk.rows[first])


def _straight(step: float, commands: list[np.ndarray], stream: Stream) -> np.ndarray:
    """Return commands at 1 kHz in straight lines between those of a grid."""
    return make_interp_spline(step * np.arange(len(commands)), commands, k=1)(_times(stream))


def _with_velocities(commands: list[np.ndarray], stream: Stream) -> np.ndarray:
    """Return commands at 1 kHz on cubics between those of Servo, which come with velocities."""
    velocities = np.diff(commands, axis=0, prepend=commands[:1]) / SERVO_S
    return CubicHermiteSpline(SERVO_S * np.arange(len(commands)), commands, velocities)(_times(stream))


def _times(stream: Stream) -> np.ndarray:
    return CYCLE_S * np.arange(round(stream.seconds / CYCLE_S))

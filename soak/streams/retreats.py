"""How far the command may go back in a forward stream: what plans and their beginnings ask for themselves."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline

from .core import Message
from .plans import Bounds, retreat, sampled, spline_through, stopping_way
from .policies import JERK, POSITION, VELOCITY, Chunk
from .scenes import DEAD, FREEZE
from .simulation import SECOND, Refusal, Run

DEVIATION = 0.05
"""Default of the node: deviation of the robot from its command, rad, beyond which it begins where the robot is."""
HELD_RAD = 1e-3
"""A joint whose rows differ by less is told to hold."""
_RESTS = 0.01
"""Default of the node: speed at which a plan ends at rest, rad/s."""


def measured_off(run: Run) -> np.ndarray:
    """How far plans that begin where the robot is measured begin from its command `[D]`."""
    scene = run.scene
    return (np.abs(scene.droop) + 5 * scene.noise + scene.quantization) * bool(run.policy.anchors)


def begun_otherwise(run: Run) -> np.ndarray:
    """How far splines of chunks go back that begin with the command, or with the plan before, wherever that is `[D]`.

    Those without a stamp begin with the command that they meet, those of velocities with a stamp with the plan before;
    each is executed until the next one is met.
    """
    scene, most = run.scene, np.zeros(run.scene.dof)
    before: tuple[float, float, CubicSpline] | None = None
    for it in run.answers:
        chunk, met = it.chunk, run.met(it)
        relative = chunk.space == VELOCITY
        if chunk.space == JERK or not isinstance(it.answer, Message) or not (relative or not chunk.stamp_ns):
            continue
        if met >= len(run.off):
            break
        at = run.time(met)
        begin = chunk.stamp_ns / SECOND if chunk.stamp_ns else at
        position, velocity, _ = run.commands[:, run.cycle(begin)]
        if np.isnan(position).any():  # there was no controller
            before = None
            continue
        spline = _spline(chunk, position, velocity)
        ways = [sampled(spline, at - begin)]
        if before is not None and relative:
            begun, met_before, last = before
            into = np.clip(begin - begun, 0.0, last.x[-1])
            follows = _spline(chunk, last(into), last(into, 1) * (into < last.x[-1]))
            ways.append(np.vstack([sampled(last, met_before - begun, at - begun), sampled(follows, at - begin)]))
        is_ahead = scene.forward * (spline(spline.x[1]) - position) >= -1e-12
        for way in ways:
            most = np.maximum(most, np.where(is_ahead, retreat(scene.forward * way), 0.0))
        before = begin, at, spline
    return most


def begun_behind(run: Run, bounds: Bounds, way: np.ndarray, low: int, restarted: bool) -> np.ndarray:
    """How far ahead of a plan its command is met, where such a plan may lead back `[D]`.

    Of one that was begun anew from what was measured, by the policy or, after a deviation, by the node; which is
    older where the robot stood still or its states had ended; until it is there, the robot goes on. Of one without
    a stamp, which nobody can tell from the newest, that comes after a newer one and ends before the robot can stop.
    Of one that ends at rest, or hardly moves, after one that was over before, or shorter than a stop: the robot was
    stopping then, and nobody could know how near the end was. And of the first one after the controller was restarted,
    which holds where an arm hangs, if none of its rows is there.
    """
    scene, ahead, newest, over, refused = run.scene, np.zeros(way.shape[1]), 0, np.inf, False
    anchors = list(run.policy.anchors)
    late = scene.transport[1] + 2 / scene.joint_rate + scene.lag
    for it in run.answers:
        if not isinstance(it.answer, Message):
            refused |= isinstance(it.answer, Refusal) and it.answer.reason == "deviation"
            continue
        met, chunk = run.met(it), it.chunk
        behind, at = None, it.arrived_ns / SECOND
        is_in_segment = low <= met < low + len(way)
        if is_anchor := bool(anchors) and chunk.observed_ns >= anchors[0] * SECOND - 1:
            at = anchors.pop(0)
        unseen = [d.begin for d in scene.disturbances if d.kind in (DEAD, FREEZE) and d.begin < at < d.end + late]
        if unseen and is_in_segment:  # it may begin where the robot is without having refused anything before
            refused |= bool((np.abs(it.answer.points.position[0] - run.commands[0, met]) > DEVIATION).any())
        if is_anchor or refused:
            seen, refused = run.cycle((unseen or [at])[-1] - scene.lag), False
            behind = way[seen - low] if low <= seen < low + len(way) else None
        elif not chunk.stamp_ns and chunk.observed_ns < newest:
            behind = scene.forward * chunk.position[-1]
        elif over <= met:
            holds = _ends_at_rest(chunk) | (np.ptp(chunk.position, axis=0) <= HELD_RAD)
            behind = np.where(holds, (scene.forward * chunk.position).max(axis=0), np.inf)
        elif restarted and is_in_segment:
            behind = (scene.forward * chunk.position).max(axis=0)
        restarted &= not is_in_segment
        newest = max(newest, chunk.observed_ns)
        lasts_ns = len(chunk.data) * chunk.dt * SECOND
        over = run.cycle_at(chunk.end_ns) if chunk.stamp_ns else met + lasts_ns / run.period_ns
        if not is_in_segment:
            continue
        stops, stops_s = stopping_way(scene.forward * run.commands[:, met], bounds)
        if behind is not None:
            ahead = np.maximum(ahead, way[met - low] - behind + 1.5 * stops)
        if over - met < stops_s.max() * SECOND / run.period_ns:  # it began to stop at once
            over = met
    return ahead


def _ends_at_rest(chunk: Chunk) -> np.ndarray:
    """Joints that a chunk leaves at rest, bool `[D]`."""
    return np.abs(chunk.position[-1] - chunk.position[-2]) < _RESTS * chunk.dt


def _spline(chunk: Chunk, position: np.ndarray, velocity: np.ndarray) -> CubicSpline:
    """The spline of a chunk from a state."""
    rows = chunk.data if chunk.space == POSITION else position + (chunk.dt * chunk.data).cumsum(axis=0)
    rows = np.vstack([position, rows])
    last = np.zeros_like(velocity) if chunk.rests else (rows[-1] - rows[-2]) / chunk.dt
    return spline_through(chunk.dt, rows, velocity, last)

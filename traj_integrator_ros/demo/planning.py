"""From a recording to the motion that a planner sends: without repeated frames and noise, at equal steps. Knows no ROS.

A frame that a driver repeats claims that the robot stood still; noise over the square of a step is an acceleration.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..execution.rows import Points, motion_of_points
from ..motions.samples import QUANTITIES
from .motion import Motion

STEP = 0.01
"""s, of what is planned; what was measured more slowly keeps its own mean step, unless LEAST_STEPS are too few then."""
LEAST_STEPS = 32
FILTER_SPAN = 0.07
"""Half width of the filter, s: measured joint states are fitted over about twice that."""
LARGEST_DISAGREEMENT = 0.25
"""Largest RMS difference of velocities from the slopes of positions, as a share of the velocities' RMS."""


def plan_on(recording: Motion) -> Motion:
    """The motion at equal steps, with accelerations: where it has none, filtered. Its notes say what was done."""
    cleaned = clean(recording)
    motion, step = cleaned, STEP
    if motion.acceleration is None:
        motion, step = filtered(motion), max(STEP, min(motion.step, motion.duration / LEAST_STEPS))
    error, speed = velocity_disagreement(cleaned), float(np.sqrt(np.mean(cleaned.velocity**2)))
    if error > LARGEST_DISAGREEMENT * speed:
        told = f"velocities ({speed:.3f} rad/s RMS) are {error:.3f} rad/s RMS away from the slopes of positions"
        motion = motion.with_note(f"{told}: check units, joint order and stamps")
    time = np.arange(int(motion.duration / step + 1e-9) + 1) * step
    points = Points(np.rint(motion.time * 1e9).astype(np.int64), motion.position, motion.velocity, motion.acceleration)
    between = motion_of_points(points)
    states = between.states_at(time)[:3]
    states[:, time >= between.knots[-1]] = np.stack(between.end)[:, None]
    return dataclasses.replace(motion, time=time, **dict(zip(QUANTITIES, states, strict=False)))


def clean(recording: Motion) -> Motion:
    """The recording without its repeated frames, with its stamps or evenly timed, whichever agrees with its velocities.

    Of a stream on a faster grid, nothing is lost at a repeated frame; else its neighbours are two steps apart.
    """
    if not recording.repeated.any():
        return recording
    kept = recording.rows(~recording.repeated)
    evenly = dataclasses.replace(kept, time=np.linspace(0.0, kept.duration, kept.samples))
    is_even = velocity_disagreement(evenly) < velocity_disagreement(kept)
    how = "the rest timed evenly, as its velocities say" if is_even else "recorded stamps kept"
    return (evenly if is_even else kept).with_note(f"{recording.repeated.sum()} repeated frames dropped, {how}")


def velocity_disagreement(motion: Motion) -> float:
    """RMS of the slopes between neighbouring positions against the means of their velocities, rad/s."""
    slope = np.diff(motion.position, axis=0) / np.diff(motion.time)[:, None]
    return float(np.sqrt(np.mean((slope - (motion.velocity[1:] + motion.velocity[:-1]) / 2) ** 2)))


def filtered(motion: Motion) -> Motion:
    """Positions, velocities and accelerations of the least-squares parabola around each sample.

    Velocities weigh as much as the positions they move in one mean step. Windows end at the ends of the motion.
    """
    step, half = motion.step, max(1, min(25, round(FILTER_SPAN / motion.step)))
    index = np.arange(motion.samples)[:, None] + np.arange(-half, half + 1)
    inside = ((index >= 0) & (index < motion.samples)).astype(float)[..., None]
    index = np.clip(index, 0, motion.samples - 1)
    s = (motion.time[index] - motion.time[:, None]) / step
    one, zero = np.ones_like(s), np.zeros_like(s)
    of_position, of_velocity = np.stack([one, s, s * s], axis=-1), np.stack([zero, one, 2 * s], axis=-1)
    design = np.concatenate([of_position * inside, of_velocity * inside], axis=1)
    measured = np.concatenate([motion.position[index] * inside, motion.velocity[index] * step * inside], axis=1)
    transposed = design.transpose(0, 2, 1)
    fitted = np.linalg.solve(transposed @ design, transposed @ measured)
    moved = 1e3 * np.abs(fitted[:, 0] - motion.position).max()
    told = f"planned on a filtered motion (parabola through {2 * half + 1} states), at most {moved:.1f} mrad away"
    states = fitted[:, 0], fitted[:, 1] / step, 2 * fitted[:, 2] / step**2
    return motion.with_note(told, **dict(zip(QUANTITIES, states, strict=False)))

"""From a recording to a motion that a planner can use: repeated frames, jittering stamps, measurement noise.

A robot's joint states pass through buffers and drivers. A frame that repeats the previous one with a new stamp claims
that the robot stood still for a step, although its velocity contradicts this; a planner that used it would command a
stop.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..motions.samples import QUANTITIES
from .motion import VELOCITY_BOUNDS, Motion, accelerations

FILTER_SPAN = 0.07
"""Half width of the planner's filter [s]; measured joint states are fitted over about twice that."""


def clean(recording: Motion) -> Motion:
    """The recording without its repeated frames, with its stamps or evenly timed, whichever agrees with its velocities.

    If a stream was resampled onto a faster grid, nothing is lost at a repeated frame, and the remaining samples are
    evenly spaced; if a frame is really missing, its neighbours are two steps apart. The velocities distinguish the two
    cases.
    """
    count = int(recording.repeated.sum())
    if count == 0:
        return recording
    kept = recording.rows(~recording.repeated)
    evenly = dataclasses.replace(kept, time=np.linspace(0.0, kept.duration, kept.samples))
    error_kept, error_evenly = velocity_disagreement(kept), velocity_disagreement(evenly)
    if error_evenly < error_kept:
        return evenly.with_note(
            f"{count} repeated frames dropped and the rest timed evenly: positions and velocities then agree to "
            f"{error_evenly:.4f} rad/s RMS (on the recorded stamps: {error_kept:.4f})"
        )
    return kept.with_note(f"{count} repeated frames dropped, recorded stamps kept")


def plan_on(cleaned: Motion) -> Motion:
    """The motion that the planner sends, at the samples of the cleaned one, with states that match its positions.

    Set points and plans, recognized by their accelerations, are sent unchanged; if their velocities contradict their
    positions, trajectories start with velocities from the positions. Measured joint states are filtered first.
    Otherwise both contradictions would cause accelerations: noise divided by dt², and an error of the start velocity
    divided by dt.
    """
    if cleaned.acceleration is None:
        return filter_states(cleaned)
    if velocity_disagreement(cleaned) > VELOCITY_BOUNDS[cleaned.nature]:
        return states_of_positions(cleaned)
    return cleaned


def velocity_disagreement(motion: Motion) -> float:
    """RMS [rad/s] of the slope between neighbouring positions against the mean of their recorded velocities."""
    slope = np.diff(motion.position, axis=0) / np.diff(motion.time)[:, None]
    middle = (motion.velocity[1:] + motion.velocity[:-1]) / 2
    return float(np.sqrt(np.mean((slope - middle) ** 2)))


def filter_states(motion: Motion) -> Motion:
    """Positions, velocities and accelerations of a parabola fitted to the recorded states around each sample."""
    states = dict(zip(QUANTITIES, fit_parabolas(motion), strict=False))
    moved = float(np.abs(states["position"] - motion.position).max())
    return motion.with_note(
        f"planned on a filtered motion (parabola through {2 * _half_width(motion) + 1} measured states), at most "
        f"{1000 * moved:.1f} mrad from the recorded positions; errors are against the recorded velocities",
        **states,
    )


def states_of_positions(motion: Motion) -> Motion:
    """The motion with the velocities and accelerations of parabolas through its positions; its ends are unchanged."""
    steps = np.diff(motion.time)[:, None]
    slopes = np.diff(motion.position, axis=0) / steps
    velocity = motion.velocity.copy()
    velocity[1:-1] = np.gradient(motion.position, motion.time, axis=0)[1:-1]
    acceleration = accelerations(motion).copy()
    acceleration[1:-1] = 2 * (slopes[1:] - slopes[:-1]) / (steps[1:] + steps[:-1])
    return motion.with_note(
        f"its velocities disagree with its positions by {velocity_disagreement(motion):.4f} rad/s RMS: trajectories "
        "start with differences of its positions; errors are against its own",
        velocity=velocity,
        acceleration=acceleration,
    )


def fit_parabolas(motion: Motion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, velocity and acceleration, each [N, D], of the least-squares parabola around each sample.

    Velocities weigh as much as the positions they move in one mean step. Windows end at the ends of the motion.
    """
    half, step = _half_width(motion), motion.step
    index = np.arange(motion.samples)[:, None] + np.arange(-half, half + 1)
    inside = ((index >= 0) & (index < motion.samples)).astype(float)[..., None]
    index = np.clip(index, 0, motion.samples - 1)
    s = (motion.time[index] - motion.time[:, None]) / step
    one, zero = np.ones_like(s), np.zeros_like(s)
    design = np.concatenate(
        [np.stack([one, s, s * s], axis=-1) * inside, np.stack([zero, one, 2 * s], axis=-1) * inside], axis=1
    )
    measured = np.concatenate([motion.position[index] * inside, motion.velocity[index] * step * inside], axis=1)
    transposed = design.transpose(0, 2, 1)
    fitted = np.linalg.solve(transposed @ design, transposed @ measured)
    return fitted[:, 0], fitted[:, 1] / step, 2 * fitted[:, 2] / step**2


def _half_width(motion: Motion) -> int:
    return max(1, min(25, round(FILTER_SPAN / motion.step)))

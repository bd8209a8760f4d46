"""B-splines for the tool `integrate`: control points for a recorded motion."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import torch

from ..execution.motion import Motion
from ..kernels import BsplineLayout, SplineForm, fit_bspline
from ..motions.samples import RecordingError, Samples
from ..motions.units import JointUnits
from .integration_input import BSPLINE, STATE, Sequence, derivatives_at, sequence_of_states
from .integration_motion import motions_of, request_of


def fit(samples: Samples, points: int, said: Mapping[str, int | str], units: JointUnits) -> Sequence:
    """The control points that come closest to a motion, from its first state to its last; `said`: of their form.

    The motion is interpolated between its samples (by the C2 cubic spline through them), at no fewer rows than it has
    samples. In the layout "curobo" the goal is the state a segment before the end, where such splines reach it.

    Raises RecordingError for a motion that is too short.
    """
    count = len(samples.time)
    if not 1 <= points <= count:
        raise RecordingError(f"--fit: expected 1 to {count} (the samples) control points, got {points}")
    recorded = sequence_of_states(samples, "position")
    (motion,) = motions_of(recorded, request_of(recorded, 0.0))
    form = SplineForm(**said)
    segments = form.segments(points)
    length = samples.duration / segments
    fine = max(form.steps, -(-(count - 1) // segments))
    wanted = motion.states_at(np.linspace(0.0, samples.duration, segments * fine + 1))[0]
    wanted[-1] = samples.position[-1]
    goal = _passed(samples, motion, length, form)
    control_points = fit_bspline(
        torch.from_numpy(wanted)[None],
        *(_tensor(recorded.start[name]) for name in STATE),
        **{f"goal_{name}": _tensor(rows) for name, rows in goal.items()},
        dt=length / fine,
        degree=form.degree,
        steps=fine,
        layout=form.layout,
    )
    fitted = dataclasses.replace(
        recorded,
        control_space=BSPLINE,
        actions=control_points.numpy(),
        dt=np.array([length / form.steps]),
        goal=goal,
        degree=form.degree,
        steps=form.steps,
        layout=form.layout.value,
    )
    return dataclasses.replace(fitted, fitted=_told_residual(fitted, samples, units))


def _passed(samples: Samples, motion: Motion, length: float, form: SplineForm) -> dict[str, np.ndarray]:
    """The state at the spline's goal: that at the end, or a segment before it."""
    if form.layout is not BsplineLayout.CUROBO:
        return dict(zip(STATE, (samples.position[-1:], *derivatives_at(samples, -1)), strict=True))
    time = np.array([samples.duration - length])
    found = dict(zip(STATE, motion.states_at(time)[:3], strict=True))
    for name in STATE[1:]:
        if (recorded := getattr(samples, name)) is not None:  # between two samples
            found[name] = np.stack([np.interp(time, samples.time, column) for column in recorded.T], axis=1)
    return found


def _told_residual(fitted: Sequence, samples: Samples, units: JointUnits) -> str:
    """How far the spline is from the samples: RMS over all of them, and the maximum with its place."""
    (motion,) = motions_of(fitted, request_of(fitted, 0.0))
    states = motion.states_at(samples.time)
    states[:3, -1] = motion.end
    away = np.abs(states[0] - samples.position)
    row, joint = np.unravel_index(away.argmax(), away.shape)
    names = samples.joint_names
    told = [f"position {units.rms(away, 0, names)}"]
    if samples.velocity is not None:
        told.append(f"velocity {units.rms(states[1] - samples.velocity, 1, names)}")
    return (
        f"{fitted.actions.shape[1]} control points of degree {fitted.degree} for {len(samples.time)} samples: RMS "
        f"difference {', '.join(told)}; at most {away[row, joint]:.3g} {units.of(names[joint])[0]}, {names[joint]} at "
        f"{samples.time[row]:.3f} s"
    )


def _tensor(rows: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(rows, np.float64))

"""Windows of a motion's future, as actions in every control space: what the demo's planner sends. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..kernels.types import ControlSpace
from .cleaning import clean, plan_on
from .motion import Motion, accelerations, largest_acceleration, resample, state_at, thin_out
from .planned import limits_of

WINDOW_STEP = 0.01
"""Step of the windows [s] if the motion is sampled at least as fast; slower recordings keep their own."""
MAX_HORIZON = 32
CANDIDATE_SPREAD = 0.5
"""Acceleration [share of the motion's largest] that perturbed candidates add at the end of their window, one sigma."""


@dataclass(frozen=True)
class WindowKind:
    """The meaning of a window's actions, and where its trajectories start."""

    control_space: ControlSpace
    from_joint_states: bool = False
    """Whether the message has no start: trajectories begin at the latest joint state that the node received."""

    @property
    def name(self) -> str:
        """Name in the report, e.g. velocity or jerk from joint_states."""
        return f"{self.control_space.name.lower()}{' from joint_states' if self.from_joint_states else ''}"


POSITION, VELOCITY, ACCELERATION, JERK = (WindowKind(space) for space in ControlSpace if space.name != "BSPLINE")
LATEST = tuple(WindowKind(kind.control_space, from_joint_states=True) for kind in (ACCELERATION, JERK))
"""Those that start from the latest joint state: one that is a sample older or newer does not make them jump, unlike a
window of positions.
"""
KINDS = (POSITION, VELOCITY, POSITION, ACCELERATION, POSITION, LATEST[0], POSITION, JERK, POSITION, LATEST[1])
"""What the planner sends in turn."""


@dataclass(frozen=True)
class PlannedPath:
    """A motion on the samples that windows are cut from, and the recorded velocities [N, D] in rad/s at the same
    samples.
    """

    motion: Motion
    reference_velocity: np.ndarray

    @property
    def horizon(self) -> int:
        """Actions of a window: up to MAX_HORIZON, less where the motion is short."""
        return max(4, min(MAX_HORIZON, self.motion.samples // 2))

    @property
    def last_start(self) -> int:
        """The last sample that a window can start from."""
        return self.motion.samples - 1 - self.horizon

    def sample_at(self, time: float) -> int | None:
        """The latest sample at a time of 0 s or later; None if no whole window fits after it."""
        latest = int(np.searchsorted(self.motion.time, time + 1e-9, side="right")) - 1
        return latest if latest <= self.last_start else None


@dataclass(frozen=True)
class Prepared:
    """A motion in all its forms.

    Windows are cut from its own steps or from uniform ones. Positions and velocities use uniform steps: central
    differences support no others, and backward differences overestimate the acceleration if a step is much shorter than
    the previous one (by up to half their ratio). Accelerations and jerks are integrated exactly over any steps.
    """

    recording: Motion
    """Raw: what the player plays."""
    cleaned: Motion
    """Without repeated frames, consistently timed; results are compared with it."""
    planned: Motion
    """What the planner sends, on the samples of `cleaned`."""
    any_step: PlannedPath
    uniform: PlannedPath
    largest_acceleration: float
    """Largest acceleration of the cleaned recording, at the steps of windows [rad/s²]."""

    def path_of(self, kind: WindowKind) -> PlannedPath:
        """The path that windows of this kind are cut from."""
        differentiated = kind.control_space in (ControlSpace.POSITION, ControlSpace.VELOCITY)
        return self.uniform if differentiated else self.any_step


def prepare(recording: Motion) -> Prepared:
    """Clean a recording and plan on it."""
    cleaned = clean(recording)
    planned = plan_on(cleaned)
    sent, reference = thin_out(planned, WINDOW_STEP), thin_out(cleaned, WINDOW_STEP)
    path = uniform = PlannedPath(sent, reference.velocity)
    if not sent.is_uniform:
        # A quarter of the shortest step: the cubics between the samples bend within a step.
        step = max(WINDOW_STEP, float(np.diff(sent.time).min()) / 4)
        uniform = PlannedPath(resample(sent, step), resample(reference, step).velocity)
    return Prepared(recording, cleaned, planned, path, uniform, largest_acceleration(reference))


@dataclass(frozen=True)
class Window:
    """One action sequence, ready to be sent: arrays as the ActionSequence message wants them.

    `data` is [batch, horizon, dof], row 0 the motion itself; `dt` is [1] or [horizon] in s; `start` is [3, dof]:
    position, velocity and acceleration, None to start from the latest joint state. `first` is the sample of the path
    it starts from.
    """

    kind: WindowKind
    path: PlannedPath
    first: int
    data: np.ndarray
    dt: np.ndarray
    start: np.ndarray | None

    @property
    def horizon(self) -> int:
        """Number of actions."""
        return self.data.shape[1]

    @property
    def velocity(self) -> np.ndarray:
        """The motion's own velocity at the window's samples, the start included, [horizon + 1, dof] in rad/s."""
        return self.path.reference_velocity[self.first : self.first + self.horizon + 1]


def cut_window(kind: WindowKind, prepared: Prepared, first: int, batch: int, random: np.random.Generator) -> Window:
    """The window of `kind` that starts from sample `first` of its path: the motion itself and batch - 1 perturbed
    candidates.

    Candidates leave the motion smoothly, by A s⁴ with s = 0..1 over the window: same position, velocity, acceleration
    at the start.
    """
    path = prepared.path_of(kind)
    motion, horizon = path.motion, path.horizon
    rows = slice(first, first + horizon + 1)
    time = motion.time[rows]
    steps = np.diff(time)
    span = time[-1] - time[0]
    s = ((time - time[0]) / span)[None, :, None]
    reach = CANDIDATE_SPREAD * prepared.largest_acceleration * span**2 / 12
    amplitude = reach * np.clip(random.standard_normal((batch, 1, motion.dof)), -2, 2)
    amplitude[0] = 0

    position = motion.position[rows] + amplitude * s**4
    velocity = motion.velocity[rows] + amplitude * 4 * s**3 / span
    acceleration = accelerations(motion)[rows] + amplitude * 12 * s**2 / span**2
    width = steps[None, :, None]
    actions = {
        ControlSpace.POSITION: position[:, 1:],
        # The velocity that reaches the next position in one step, and so on.
        ControlSpace.VELOCITY: np.diff(position, axis=1) / width,
        ControlSpace.ACCELERATION: np.diff(velocity, axis=1) / width,
        ControlSpace.JERK: np.diff(acceleration, axis=1) / width,
    }[kind.control_space]
    start = None if kind.from_joint_states else state_at(motion, first).astype(np.float32)
    data = np.ascontiguousarray(actions, dtype=np.float32)
    return Window(kind, path, first, data, _step_lengths(motion, first, steps), start)


def _step_lengths(motion: Motion, first: int, steps: np.ndarray) -> np.ndarray:
    """Time steps of a sequence [s], [1] or [horizon]; dt[h] leads from output h-1 to h, dt[0] to the start."""
    if motion.is_uniform:
        return np.array([motion.step], dtype=np.float32)
    before = motion.time[first] - motion.time[first - 1] if first > 0 else steps[0]
    return np.concatenate([[before], steps[:-1]]).astype(np.float32)


def write_node_parameters(prepared: Prepared, batch: int, device: str, path: Path) -> None:
    """The parameter file for the node: the motion's joints, its time step, shapes to warm up."""
    motion = prepared.recording
    longest = float(np.diff(motion.time).max())
    moved = float(np.abs(np.diff(motion.position, axis=0)).max())
    fastest = float(np.abs(motion.velocity).max())
    horizons = sorted({prepared.any_step.horizon, prepared.uniform.horizon})
    shapes = ", ".join(f'"{batch}x{horizon}"' for horizon in horizons)
    names = ", ".join(f'"{name}"' for name in motion.joint_names)
    assumed = f"{max(1.0, 2 * fastest):.3f}  # rad/s; it moves at up to {fastest:.3f} rad/s"
    known = {name: values.tolist() for name, values in limits_of(motion.joint_names).items()}
    if known:  # the robot goes on while a sequence is on its way
        known |= {"action": "retime", "start_deviation": 0.0}
    else:  # it jumps where its motion starts over
        start = f"{max(0.1, 2 * moved):.3f}  # rad; it moves up to {moved:.3f} rad in a step"
        known = {"assumed_velocity": assumed, "action": "warn", "start_deviation": start}
    limits = "\n".join(f"    limits.{name}: {value}" for name, value in known.items())
    text = f"""\
# Written by the demo.
/**:
  ros__parameters:
    joint_names: [{names}]
    device: {device}
    dt: {prepared.uniform.motion.step:.9f}  # s
    max_batch: {max(64, batch)}
    max_horizon: {max(128, MAX_HORIZON)}
    warmup: [{shapes}]
    state_timeout: {max(5.0, 3 * longest):.3f}  # s; longer than a step and a pause of the PC
{limits}
    supervision.deviation: 0.0  # rad; the robot plays its recording, whatever it is sent
    diagnostics.period: 0.25  # s
"""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")

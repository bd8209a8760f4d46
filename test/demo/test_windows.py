from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from motions import sine_motion

from traj_integrator_ros.demo.metrics import (
    Measured,
    exact,
    inconsistency,
    rms,
    scheme_of,
    start_up_acceleration,
    velocity_bounds,
    velocity_errors,
)
from traj_integrator_ros.demo.motion import load_recording
from traj_integrator_ros.demo.planned import planned_motion
from traj_integrator_ros.demo.windows import (
    ACCELERATION,
    JERK,
    LATEST,
    MAX_HORIZON,
    POSITION,
    VELOCITY,
    Prepared,
    Window,
    cut_window,
    prepare,
)
from traj_integrator_ros.kernels import FiniteDifference, Trajectory
from traj_integrator_ros.motions.samples import Nature

BACKWARD, CENTRAL = SCHEMES = list(FiniteDifference)
KINDS = [(POSITION, CENTRAL), *((kind, BACKWARD) for kind in (POSITION, VELOCITY, ACCELERATION, JERK, *LATEST))]


def integrate(window: Window, scheme: FiniteDifference, latest: np.ndarray | None = None) -> Trajectory:
    """What a node that does everything right would answer, in float64; `latest` is the joint state [2, dof]."""
    if window.start is None:
        window = dataclasses.replace(window, start=np.concatenate([latest, np.zeros_like(latest[:1])]))
    return exact(window, scheme)


def answered(prepared: Prepared, scheme: FiniteDifference, batch: int = 4) -> tuple[Window, Trajectory]:
    """A window of positions from its sample 5, and the exact answer to it."""
    window = cut_window(POSITION, prepared, 5, batch, np.random.default_rng(0))
    return window, integrate(window, scheme)


def measure_all(prepared: Prepared) -> Measured:
    """Exact answers to windows of every kind from about 20 samples of their paths, measured."""
    measured = Measured()
    random = np.random.default_rng(0)
    for kind, scheme in KINDS:
        own = prepared.path_of(kind)
        for first in range(0, own.last_start + 1, max(1, own.last_start // 20)):
            window = cut_window(kind, prepared, first, 4, random)
            latest = np.stack([own.motion.position[first], own.motion.velocity[first]])
            measured.add(window, integrate(window, scheme, latest))
    return measured


@pytest.fixture(params=["uniform", "non-uniform"])
def any_steps(request) -> Prepared:
    motion = sine_motion(300, 0.01)
    if request.param == "uniform":
        return prepare(motion)
    index = np.cumsum([0, *np.tile([6, 5, 4, 3, 4, 5], 12)])
    return prepare(dataclasses.replace(motion.rows(index[index < motion.samples]), nature=Nature.MEASURED))


@pytest.mark.parametrize(("kind", "scheme"), KINDS)
def test_row_0_is_the_motion_and_every_row_starts_with_it(any_steps, kind, scheme):
    path = any_steps.path_of(kind)
    first = path.motion.samples // 3
    window = cut_window(kind, any_steps, first, 8, np.random.default_rng(0))
    state = np.stack([path.motion.position[first], path.motion.velocity[first]])
    result = integrate(window, scheme, latest=state)
    start = int(scheme is CENTRAL)
    points = window.horizon - 1
    expected = path.motion.position[first : first + points].copy()
    if kind is LATEST[1]:
        # Joint states have no acceleration: the motion's own at the start is missing all the way.
        time = (path.motion.time[first : first + points] - path.motion.time[first])[:, None]
        expected -= path.motion.acceleration[first] * time**2 / 2
    tolerance = 2e-6 if kind is POSITION else 0.02
    np.testing.assert_allclose(result.position[0, start : start + points], expected, atol=tolerance)
    np.testing.assert_allclose(result.position[:, start], np.tile(state[0], (8, 1)), atol=1e-6)
    assert np.ptp(result.position[:, -1], axis=0).min() > 1e-3, "candidates do not differ"
    # What the message takes.
    assert window.data.dtype == window.dt.dtype == np.float32
    assert window.data.shape == (8, path.horizon, 3) and window.horizon <= MAX_HORIZON
    assert len(window.dt) in (1, window.horizon) and np.all(window.dt > 0)
    assert (window.start is None) == kind.from_joint_states


def test_planner_looks_ahead_up_to_the_end_of_the_motion(any_steps):
    path = any_steps.any_step
    assert path.sample_at(0.0) == 0
    assert path.sample_at(path.motion.time[3]) == 3
    assert path.sample_at(path.motion.time[path.last_start] + 1e-3) == path.last_start
    assert path.sample_at(path.motion.duration) is None


def test_exact_motion_is_in_bounds_and_a_wrong_velocity_is_not(any_steps):
    for scheme in SCHEMES:
        window, result = answered(any_steps, scheme)
        measured = Measured()
        measured.add(window, result)
        limit = velocity_bounds(measured, any_steps.uniform.motion)[scheme].limit
        assert np.sqrt(np.mean(velocity_errors(window, result) ** 2)) < limit
        wrong = result._replace(velocity=result.velocity * 1.1)
        assert np.sqrt(np.mean(velocity_errors(window, wrong) ** 2)) > limit


def test_central_errors_leave_out_ghost_and_held_end(any_steps):
    window, result = answered(any_steps, CENTRAL, batch=1)
    errors = velocity_errors(window, result)
    assert len(errors) == window.horizon - 1
    held = result.velocity[0, window.horizon + 1] - window.velocity[window.horizon]
    assert np.abs(held).max() > 20 * np.abs(errors).max(), "the end is held, so it would not belong to the motion"


def test_start_up_acceleration_sees_a_spike_in_any_row_at_the_first_points_only(any_steps):
    for scheme, rows in ((BACKWARD, (1, 2, 3)), (CENTRAL, (1, 2, 3, 4))):
        window, result = answered(any_steps, scheme)
        assert start_up_acceleration(window, result) < 1.05 * any_steps.largest_acceleration
        for h in range(result.position.shape[1]):
            acceleration = result.acceleration.copy()
            acceleration[2, h, 1] = -1e6
            spiked = result._replace(acceleration=acceleration)
            assert (start_up_acceleration(window, spiked) == 1e6) == (h in rows)


def test_answers_count_under_the_scheme_they_came_with_and_nan_is_not_measured(any_steps):
    measured = Measured()
    window, answer = answered(any_steps, CENTRAL)
    assert scheme_of(window, answer) is CENTRAL
    measured.add(window, answer)
    assert dict(measured.batches) == {"position/central": 1}
    assert rms(measured.velocity["position/central"]) < 0.01
    answer.jerk[1, 3, 0] = np.nan
    measured.add(window, answer)
    assert measured.not_finite == 1 and len(measured.velocity["position/central"]) == 1


def test_bound_is_that_of_the_source_or_what_the_recording_supports(sine):
    bounds = velocity_bounds(measure_all(prepare(sine)), sine)
    assert {bound.limit for bound in bounds.values()} == {0.003}
    random = np.random.default_rng(0)
    noisy = dataclasses.replace(
        sine, velocity=sine.velocity + 0.05 * random.standard_normal(sine.velocity.shape), acceleration=None
    )
    for bound in velocity_bounds(measure_all(prepare(noisy)), noisy).values():
        assert 0.03 < bound.limit < 0.08 and "the recording's own disagreement" in bound.reason


def test_velocities_in_degrees_are_found_out(sine):
    assert inconsistency(sine) is None
    assert "units" in inconsistency(dataclasses.replace(sine, velocity=np.degrees(sine.velocity)))


RECORDINGS = [
    # samples, joints, repeated frames; bounds of velocities, rad/s, and of accelerations at the start, relative
    ("unisa-panda-exciting/panda_exciting_trajectory.db3", (727, 7, 14), 0.02, 1.5),
    ("rad-ur3e-rtde/L0L1.csv", (29, 6, 0), 0.005, 1.5),
    ("rad-ur3e-rtde/L1L2.csv", (65, 6, 0), 0.005, 1.5),  # at rest at first: equal frames, but not repeated ones
    ("rad-ur3e-rtde/L2L3.csv", (40, 6, 0), 0.005, 1.5),
    ("robowflex-fetch-planned/fetch_path.yml", (29, 8, 0), 0.0075, 1.5),
    ("generated-ruckig/panda_ruckig_p2p_500hz.csv", (488, 7, 0), 0.003, 1.05),
    (None, (5237, 7, 0), 0.003, 1.05),
]


@pytest.mark.parametrize(("path", "size", "bound", "ratio"), RECORDINGS)
def test_float64_integration_of_every_start_is_in_bounds(shared_data, path, size, bound, ratio):
    """What the demo asks of the node can be had: on every recording, from every sample that a window can start from."""
    motion = planned_motion() if path is None else load_recording(shared_data(path))
    assert (motion.samples, motion.dof, motion.repeated.sum()) == size
    prepared = prepare(motion)
    assert prepared.cleaned.samples == motion.samples - motion.repeated.sum()
    assert prepared.cleaned.is_uniform or not motion.repeated.any()
    measured = measure_all(prepared)
    for scheme in SCHEMES:
        assert velocity_bounds(measured, prepared.uniform.motion)[scheme].limit <= bound
        assert rms(measured.velocity[f"position/{scheme.value}"]) <= bound
    assert max(measured.start_up.values()) <= ratio * prepared.largest_acceleration

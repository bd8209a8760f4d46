from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from motions import sine_motion

from traj_integrator_ros.demo.cleaning import clean, plan_on
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
from traj_integrator_ros.demo.motion import Motion, load_recording
from traj_integrator_ros.demo.planned import planned_motion
from traj_integrator_ros.demo.windows import (
    MAX_HORIZON,
    Paths,
    Window,
    WindowKind,
    cut_window,
    kinds_under,
    paths_of,
)
from traj_integrator_ros.kernels import ControlSpace, FiniteDifference, Trajectory
from traj_integrator_ros.motions.samples import Nature

SCHEMES = list(FiniteDifference)
KINDS = sorted({kind for scheme in SCHEMES for kind in kinds_under(scheme)}, key=lambda kind: kind.name)


def integrate(window: Window, scheme: FiniteDifference, latest: np.ndarray | None = None) -> Trajectory:
    """What a node that does everything right would answer, in float64; `latest` is the joint state [2, dof]."""
    if window.start is None:
        window = dataclasses.replace(window, start=np.concatenate([latest, np.zeros_like(latest[:1])]))
    return exact(window, scheme)


def paths(motion: Motion) -> Paths:
    cleaned = clean(motion)
    return paths_of(cleaned, plan_on(cleaned))


def measure_all(all_paths: Paths) -> Measured:
    """Exact answers to windows of every kind from up to 60 samples of their paths, measured."""
    measured = Measured()
    random = np.random.default_rng(0)
    for scheme in SCHEMES:
        for kind in dict.fromkeys(kinds_under(scheme)):
            own = all_paths.of(kind)
            for first in range(0, own.last_start + 1, max(1, own.last_start // 60)):
                window = cut_window(kind, all_paths, first, 4, random)
                latest = np.stack([own.motion.position[first], own.motion.velocity[first]])
                measured.add(window, integrate(window, scheme, latest))
    return measured


def non_uniform(motion: Motion) -> Motion:
    index = np.cumsum([0, *np.tile([6, 5, 4, 3, 4, 5], 12)])
    index = index[index < motion.samples]
    return motion.rows(index)


@pytest.fixture(params=["uniform", "non-uniform"])
def any_paths(request) -> Paths:
    if request.param == "uniform":
        return paths(sine_motion(300, 0.01))
    return paths(dataclasses.replace(non_uniform(sine_motion(300, 0.01)), nature=Nature.MEASURED))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_row_0_is_the_motion_and_every_row_starts_with_it(any_paths, kind):
    path = any_paths.of(kind)
    first = path.motion.samples // 3
    window = cut_window(kind, any_paths, first, 8, np.random.default_rng(0))
    state = np.stack([path.motion.position[first], path.motion.velocity[first]])
    result = integrate(window, kind.scheme, latest=state)
    start = 1 if kind.scheme is FiniteDifference.CENTRAL and kind.control_space is ControlSpace.POSITION else 0
    points = window.horizon - 1
    expected = path.motion.position[first : first + points].copy()
    if kind == WindowKind(ControlSpace.JERK, from_joint_states=True):
        # Joint states have no acceleration: the motion's own at the start is missing all the way.
        time = (path.motion.time[first : first + points] - path.motion.time[first])[:, None]
        expected -= path.motion.acceleration[first] * time**2 / 2
    tolerance = 2e-6 if kind.control_space is ControlSpace.POSITION else 0.02
    np.testing.assert_allclose(result.position[0, start : start + points], expected, atol=tolerance)
    np.testing.assert_allclose(result.position[:, start], np.tile(state[0], (8, 1)), atol=1e-6)
    assert np.ptp(result.position[:, -1], axis=0).min() > 1e-3, "candidates do not differ"
    # What the message takes.
    assert window.data.dtype == window.dt.dtype == np.float32
    assert window.data.shape == (8, path.horizon, 3) and window.horizon <= MAX_HORIZON
    assert len(window.dt) in (1, window.horizon) and np.all(window.dt > 0)
    assert (window.start is None) == kind.from_joint_states


def test_planner_looks_ahead_up_to_the_end_of_the_motion(any_paths):
    path = any_paths.any_step
    assert path.sample_at(0.0) == 0
    assert path.sample_at(path.motion.time[3]) == 3
    assert path.sample_at(path.motion.time[path.last_start] + 1e-3) == path.last_start
    assert path.sample_at(path.motion.duration) is None


def test_exact_motion_is_in_bounds_and_a_wrong_velocity_is_not(any_paths):
    for scheme in SCHEMES:
        kind = WindowKind(ControlSpace.POSITION, scheme=scheme)
        window = cut_window(kind, any_paths, 5, 4, np.random.default_rng(0))
        result = integrate(window, scheme)
        measured = Measured()
        measured.add(window, result)
        limit = velocity_bounds(measured, any_paths.uniform.motion)[scheme].limit
        assert np.sqrt(np.mean(velocity_errors(window, result) ** 2)) < limit
        wrong = result._replace(velocity=result.velocity * 1.1)
        assert np.sqrt(np.mean(velocity_errors(window, wrong) ** 2)) > limit


def test_central_errors_leave_out_ghost_and_held_end(any_paths):
    kind = WindowKind(ControlSpace.POSITION, scheme=FiniteDifference.CENTRAL)
    window = cut_window(kind, any_paths, 5, 1, np.random.default_rng(0))
    result = integrate(window, FiniteDifference.CENTRAL)
    errors = velocity_errors(window, result)
    assert len(errors) == window.horizon - 1
    held = result.velocity[0, window.horizon + 1] - window.velocity[window.horizon]
    assert np.abs(held).max() > 20 * np.abs(errors).max(), "the end is held, so it would not belong to the motion"


def test_start_up_acceleration_sees_a_spike_in_any_row_at_the_first_points_only(any_paths):
    for scheme, rows in ((FiniteDifference.BACKWARD, (1, 2, 3)), (FiniteDifference.CENTRAL, (1, 2, 3, 4))):
        window = cut_window(WindowKind(ControlSpace.POSITION, scheme=scheme), any_paths, 5, 4, np.random.default_rng(0))
        clean_result = integrate(window, scheme)
        assert start_up_acceleration(window, clean_result) < 1.05 * any_paths.largest_acceleration
        for h in range(clean_result.position.shape[1]):
            acceleration = clean_result.acceleration.copy()
            acceleration[2, h, 1] = -1e6
            spiked = clean_result._replace(acceleration=acceleration)
            assert (start_up_acceleration(window, spiked) == 1e6) == (h in rows)


def test_answers_count_under_the_scheme_they_came_with(any_paths):
    window = cut_window(WindowKind(ControlSpace.POSITION), any_paths, 5, 2, np.random.default_rng(0))
    measured = Measured()
    central = cut_window(
        WindowKind(ControlSpace.POSITION, scheme=FiniteDifference.CENTRAL), any_paths, 5, 2, np.random.default_rng(0)
    )
    answer = integrate(central, FiniteDifference.CENTRAL)
    assert scheme_of(window, answer) is FiniteDifference.CENTRAL
    measured.add(window, answer)
    assert dict(measured.batches) == {"position/central": 1}
    assert rms(measured.velocity["position/central"]) < 0.01


def test_nan_is_counted_and_not_measured(any_paths):
    window = cut_window(WindowKind(ControlSpace.POSITION), any_paths, 5, 2, np.random.default_rng(0))
    result = integrate(window, FiniteDifference.BACKWARD)
    result.jerk[1, 3, 0] = np.nan
    measured = Measured()
    measured.add(window, result)
    assert measured.not_finite == 1 and not measured.velocity


def test_bound_is_that_of_the_source_or_what_the_recording_supports(sine):
    bounds = velocity_bounds(measure_all(paths(sine)), sine)
    assert {bound.limit for bound in bounds.values()} == {sine.velocity_bound}
    random = np.random.default_rng(0)
    noisy = dataclasses.replace(
        sine, velocity=sine.velocity + 0.05 * random.standard_normal(sine.velocity.shape), acceleration=None
    )
    for bound in velocity_bounds(measure_all(paths(noisy)), noisy).values():
        assert 0.03 < bound.limit < 0.08 and "the recording's own disagreement" in bound.reason


def test_velocities_in_degrees_are_found_out(sine):
    assert inconsistency(sine) is None
    assert "units" in inconsistency(dataclasses.replace(sine, velocity=np.degrees(sine.velocity)))


RECORDINGS = [
    ("unisa-panda-exciting/panda_exciting_trajectory.db3", 0.02, 1.5),
    ("rad-ur3e-rtde/L0L1.csv", 0.005, 1.5),
    ("rad-ur3e-rtde/L1L2.csv", 0.005, 1.5),
    ("rad-ur3e-rtde/L2L3.csv", 0.005, 1.5),
    ("robowflex-fetch-planned/fetch_path.yml", 0.0075, 1.5),
    ("generated-ruckig/panda_ruckig_p2p_500hz.csv", 0.003, 1.05),
    (None, 0.003, 1.05),
]


@pytest.mark.parametrize(("path", "bound", "ratio"), RECORDINGS)
def test_float64_integration_of_every_start_is_in_bounds(shared_data, path, bound, ratio):
    """What the demo asks of the node can be had: on every recording, from every sample that a window can start from."""
    all_paths = paths(planned_motion() if path is None else load_recording(shared_data(path)))
    measured = measure_all(all_paths)
    for scheme in SCHEMES:
        assert velocity_bounds(measured, all_paths.uniform.motion)[scheme].limit <= bound
        assert rms(measured.velocity[f"position/{scheme.value}"]) <= bound
    assert max(measured.start_up.values()) <= ratio * all_paths.largest_acceleration

"""The engine gives what the kernels give, keeps its buffers, and refuses what it cannot do."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from engine_cases import assert_same, engine_cases
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.engine.integrator import (
    IntegratorConfig,
    OutOfDeviceMemory,
    StartState,
    TrajectoryIntegrator,
    UpstreamGradient,
    resolve_device,
)
from traj_integrator_ros.kernels import MAPS, ControlSpace


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("kernel", MAPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@settings(max_examples=25)
@given(data=st.data())
def test_calls_give_the_numbers_and_gradients_of_the_public_function(kernel, dtype, data):
    case = data.draw(engine_cases(kernel=kernel))
    engine = case.engine(dtype=str(dtype).removeprefix("torch."))
    expected = case.expected(dtype)
    assert_same(case.run(engine, want_dt=True), expected, exact=False)
    given = case.arguments()
    rows = {"start_rows": len(given.pop("start").position)}
    if "goal" in given:
        rows["goal_rows"] = len(given.pop("goal").position)
    given["batch"], given["action_horizon"], _ = given.pop("actions").shape
    linear = engine.vjp_arrays(None, case.upstream(), **given, **rows)  # needs no actions and no rows
    assert linear.dt is None
    gradients = [torch.from_numpy(x) for x in (*linear[:4], linear.goal_position) if x is not None]
    assert_same(gradients, [*expected[4:8], *expected[9:10]], exact=False)


def test_the_vjp_of_no_upstream_gradient_is_zero():
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2))
    gradient = engine.vjp(StartState(np.zeros((3, 2))), UpstreamGradient(), batch=3, action_horizon=4)
    assert gradient.action.shape == (3, 4, 2) and not gradient.action.any()
    assert gradient.start_velocity.shape == (3, 2) and not gradient.start_velocity.any()


@pytest.mark.parametrize(
    "dt", [None, 0.1, np.float32(0.1), [0.1], np.full(5, 0.1), np.full((2, 1), 0.1), np.full((2, 5), 0.1)]
)
def test_the_gradient_of_dt_has_the_shape_that_dt_had(dt, random):
    engine = TrajectoryIntegrator(IntegratorConfig(dof=3, dt=0.1, control_space=ControlSpace.JERK, dtype="float64"))
    actions = random.standard_normal((2, 5, 3))
    upstream = UpstreamGradient(position=np.ones((2, 5, 3)))
    gradient = engine.vjp(StartState(np.ones((1, 3))), upstream, actions=actions, dt=dt, want_dt=True).dt
    assert gradient.shape == np.shape(dt)
    total = gradient.sum().item()
    uniform = engine.vjp(StartState(np.ones((1, 3))), upstream, actions=actions, dt=0.1, want_dt=True).dt
    assert total == pytest.approx(uniform.item())


def test_with_changes_keeps_the_buffers_of_the_same_device_and_dtype():
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2, device="cpu"))
    start, actions = StartState(np.zeros((1, 2))), np.zeros((4, 5, 2))
    address = engine.integrate(start, actions).position.data_ptr()
    changed = engine.with_changes(dt=0.5, control_space=ControlSpace.VELOCITY)
    assert changed.config.dt == 0.5
    assert changed.integrate(start, actions).position.data_ptr() == address
    assert engine.with_changes(dtype="float64").integrate(start, actions).position.dtype is torch.float64


def test_read_only_input_is_accepted(recwarn):
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2))
    actions = np.frombuffer(np.arange(8, dtype=np.float32).tobytes(), np.float32).reshape(1, 4, 2)
    trajectory = engine.integrate(StartState(np.zeros((1, 2))), actions)
    assert trajectory.position[0, 1].tolist() == [0.0, 1.0]
    assert not recwarn


def test_a_batch_beyond_memory_raises_and_the_engine_continues():
    engine = TrajectoryIntegrator(IntegratorConfig(dof=7, max_batch=10**8, max_horizon=10**6, device="cpu"))
    start = StartState(np.zeros((1, 7), np.float32))
    enormous = torch.zeros(1).expand(10**7, 10**5, 7)  # 28 TB once it is copied
    with pytest.raises(OutOfDeviceMemory, match="out of memory on cpu"):
        engine.integrate(start, enormous)
    assert engine.integrate(start, np.ones((2, 3, 7))).position[0, 1].tolist() == [1.0] * 7


@pytest.mark.parametrize(
    ("finite_difference", "dt", "expected"),
    [
        ("backward", None, [0.0, 0.02, 0.04]),
        ("backward", 0.1, [0.0, 0.1, 0.2]),
        ("backward", [0.5, 0.1, 0.2], [0.0, 0.1, 0.3]),
        ("backward", [[0.1], [0.2]], [[0.0, 0.1, 0.2], [0.0, 0.2, 0.4]]),
        ("central", 0.1, [-0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
    ],
)
def test_time_from_start_counts_from_the_start_state(finite_difference, dt, expected):
    engine = TrajectoryIntegrator(IntegratorConfig(dof=1, finite_difference=finite_difference))
    time = engine.time_from_start(dt, batch=2, action_horizon=3)
    np.testing.assert_allclose(time, expected, atol=1e-15)


ZEROS = StartState(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda e: e.integrate(ZEROS, np.zeros((2, 3))),
            r"actions: expected shape \[batch, horizon, dof = 2\], got \[2, 3\]",
        ),
        (lambda e: e.integrate(ZEROS, np.zeros((2, 3, 5))), r"actions: .*dof = 2\], got \[2, 3, 5\]"),
        (lambda e: e.integrate(ZEROS, np.zeros((0, 3, 2))), "actions: expected 1 to 8 trajectories, got 0"),
        (lambda e: e.integrate(ZEROS, np.zeros((9, 3, 2))), "actions: expected 1 to 8 trajectories, got 9"),
        (lambda e: e.integrate(ZEROS, np.zeros((1, 17, 2))), "actions: expected 1 to 16 steps, got 17"),
        (lambda e: e.integrate(ZEROS, np.zeros((1, 3, 2)), dt=-0.1), "dt: expected finite numbers .*got -0.1"),
        (lambda e: e.integrate(ZEROS, np.zeros((1, 3, 2)), dt=0.0), "dt: expected finite numbers .*got 0.0"),
        (lambda e: e.integrate(ZEROS, np.zeros((1, 3, 2)), dt=np.nan), "dt: expected finite numbers .*got nan"),
        (lambda e: e.integrate(ZEROS, np.zeros((1, 3, 2)), dt=np.inf), "dt: expected finite numbers .*got inf"),
        (lambda e: e.integrate(ZEROS, np.zeros((2, 3, 2)), dt=np.ones(4)), r"dt: expected a number.*got shape \[4\]"),
        (
            lambda e: e.integrate(StartState(np.zeros((2, 2))), np.zeros((3, 3, 2))),
            "start.position: expected 1 or 3 rows",
        ),
        (
            lambda e: e.integrate(StartState(np.zeros((1, 2)), np.zeros((1, 3))), np.zeros((1, 3, 2))),
            r"start.velocity: expected shape \[1, dof = 2\], got \[1, 3\]",
        ),
        (
            lambda e: e.integrate(ZEROS, np.zeros((2, 3, 2)), start_index=[0, 1]),
            "start_index: expected rows 0 to 0, got 0 to 1",
        ),
        (
            lambda e: e.integrate(ZEROS, np.zeros((2, 3, 2)), start_index=[-1, 0]),
            "start_index: expected rows 0 to 0, got -1 to 0",
        ),
        (lambda e: e.integrate(ZEROS, np.zeros((2, 3, 2)), start_index=[0]), r"start_index: expected shape \[2\]"),
        (lambda e: e.vjp(ZEROS, UpstreamGradient(), batch=1), "batch, action_horizon: expected both"),
        (
            lambda e: e.vjp(ZEROS, UpstreamGradient(), batch=1, action_horizon=2, want_dt=True),
            "actions: the gradient of dt",
        ),
        (
            lambda e: e.vjp(ZEROS, UpstreamGradient(jerk=np.zeros((1, 2, 2))), batch=1, action_horizon=3),
            r"upstream.jerk: expected shape \[1, 3, 2\], got \[1, 2, 2\]",
        ),
        (lambda e: e.with_changes(dt=0.0), "dt: expected a finite number of seconds > 0, got 0.0"),
        (lambda e: e.with_changes(dtype="float16"), "dtype: expected one of float32, float64, got 'float16'"),
        (lambda e: e.with_changes(max_batch=0), "max_batch: expected at least 1, got 0"),
        (lambda e: e.with_changes(device="tpu"), "device: expected auto, cpu, cuda or cuda:N, got 'tpu'"),
        (lambda e: e.with_changes(device="cuda:99"), "device: got 'cuda:99', but torch .* sees . CUDA devices"),
        (lambda e: e.with_changes(finite_difference="forward"), "'forward' is not a valid FiniteDifference"),
    ],
)
def test_misuse_is_named(call, message):
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2, max_batch=8, max_horizon=16))
    with pytest.raises(ValueError, match=message):
        call(engine)


def test_central_difference_refuses_changing_steps_and_says_so():
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2, finite_difference="central"))
    with pytest.raises(ValueError, match="central differences need one step length"):
        engine.integrate(ZEROS, np.zeros((1, 3, 2)), dt=[0.1, 0.1, 0.2])


def test_auto_takes_cuda_where_there_is_one():
    assert resolve_device("auto").type == ("cuda" if torch.cuda.device_count() else "cpu")


def test_warm_up_and_close_leave_the_engine_usable():
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2))
    engine.warm_up([(1, 8), (4, 8)])
    engine.close()
    assert engine.integrate(ZEROS, np.ones((1, 2, 2))).position.shape == (1, 2, 2)


@pytest.mark.parametrize("pair", [("integrate", "integrate_array"), ("vjp", "vjp_arrays")])
def test_tensors_and_arrays_are_asked_for_by_the_same_arguments(pair):
    signatures = [inspect.signature(getattr(TrajectoryIntegrator, name)) for name in pair]
    assert signatures[0].parameters == signatures[1].parameters

"""The engine gives what the kernels give, keeps its buffers, and refuses what it cannot do."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest
import torch

from traj_integrator_ros.engine.integrator import (
    IntegratorConfig,
    OutOfDeviceMemory,
    StartState,
    TrajectoryIntegrator,
    UpstreamGradient,
    resolve_device,
)
from traj_integrator_ros.kernels import ControlSpace

SCHEMES = pytest.mark.parametrize(
    "config",
    [
        IntegratorConfig(dof=3, control_space=ControlSpace.POSITION),
        IntegratorConfig(dof=3, control_space=ControlSpace.POSITION, finite_difference="central"),
        IntegratorConfig(dof=3, control_space=ControlSpace.VELOCITY),
        IntegratorConfig(dof=3, control_space=ControlSpace.ACCELERATION),
        IntegratorConfig(dof=3, control_space=ControlSpace.ACCELERATION, acceleration_integrator="semi_implicit_euler"),
        IntegratorConfig(dof=3, control_space=ControlSpace.JERK),
    ],
    ids=lambda config: (
        f"{config.control_space.name}-{config.finite_difference.value}-{config.acceleration_integrator.value}"
    ),
)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@SCHEMES
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_integrate_equals_the_kernel(config, dtype, random):
    engine = TrajectoryIntegrator(dataclasses.replace(config, dtype=dtype, device="cpu"))
    start = StartState(*random.standard_normal((3, 4, 3)).astype(np.float32))
    actions = random.standard_normal((4, 6, 3)).astype(np.float32)
    got = engine.integrate(start, actions, dt=0.05)
    tensors = [torch.from_numpy(x).to(engine.dtype) for x in (actions, *start.rows)]
    for output, want in zip(got, engine.control_map().step(*tensors, dt=0.05), strict=True):
        assert output.dtype is engine.dtype
        assert torch.equal(output, want)
    assert got.position.shape[1] == engine.output_horizon(6)


@SCHEMES
def test_vjp_equals_autograd_through_the_kernel(config, random):
    engine = TrajectoryIntegrator(dataclasses.replace(config, dtype="float64", device="cpu"))
    horizon = engine.output_horizon(6)
    actions = random.standard_normal((4, 6, 3))
    start = StartState(*random.standard_normal((3, 2, 3)))
    index = np.array([1, 0, 0, 1], np.uint32)
    upstream = UpstreamGradient(None, *random.standard_normal((3, 4, horizon, 3)))
    dt = np.full((4, 1), 0.05)
    got = engine.vjp(start, upstream, actions=actions, dt=dt, start_index=index, want_dt=True)
    leaves = [torch.tensor(x, requires_grad=True) for x in (actions, *start.rows, dt)]
    outputs = engine.control_map().step(*leaves[:4], dt=leaves[4], start_index=torch.tensor([1, 0, 0, 1]))
    cost = sum((out * torch.from_numpy(g)).sum() for out, g in zip(outputs[1:], upstream[1:], strict=True))
    expected = torch.autograd.grad(cost, leaves, allow_unused=True, materialize_grads=True)
    for gradient, want in zip(got[:5], expected, strict=True):
        torch.testing.assert_close(gradient, want)
    assert got[5:] == (None, None, None)


@SCHEMES
def test_vjp_needs_no_actions_because_the_maps_are_linear(config, random):
    engine = TrajectoryIntegrator(config)
    actions = random.standard_normal((2, 5, 3)).astype(np.float32)
    start = StartState(np.zeros((1, 3), np.float32))
    upstream = UpstreamGradient(velocity=random.standard_normal((2, engine.output_horizon(5), 3)).astype(np.float32))
    with_actions = [x.clone() for x in engine.vjp(start, upstream, actions=actions)[:4]]
    without = engine.vjp(start, upstream, batch=2, action_horizon=5)
    assert without.dt is None
    for got, want in zip(without[:4], with_actions, strict=True):
        assert torch.equal(got, want)


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

"""The references equal the specification, are exact for robots in motion, and treat batches, pools and dt alike."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_oracle import spec_trajectory
from torch import Tensor

from traj_integrator_ros.kernels import (
    MAPS,
    ControlMap,
    ControlSpace,
    clique_central_step,
    clique_step,
    control_map,
    jerk_step,
)

MAP = pytest.mark.parametrize("kernel", MAPS.values(), ids=MAPS)
OUTPUTS = ("position", "velocity", "acceleration", "jerk")


def random_inputs(kernel: ControlMap, batch: int, horizon: int, dof: int, seed: int, per_step: bool = True):
    """Actions, start rows and dt [B, Ha] (uniform along the horizon where the map wants that), float64."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    columns = horizon if per_step and not kernel.uniform_dt_only else 1
    dt = 0.01 + 0.1 * torch.rand(batch, columns, generator=generator, dtype=torch.float64)
    return normal(batch, horizon, dof), [normal(batch, dof) for _ in range(3)], dt


def motion(coefficients: Tensor, time: Tensor, order: int = 0) -> Tensor:
    """Derivative `order` of the polynomial `sum_k c[k] t^k / k!`: coefficients [K, B, D], time [H] -> [B, H, D]."""
    terms = coefficients[order:]
    value = torch.zeros(terms.shape[1], len(time), terms.shape[2], dtype=torch.float64)
    factor = torch.ones_like(time)
    for k, term in enumerate(terms):
        value = value + term[:, None] * factor[:, None]
        factor = factor * time / (k + 1)
    return value


@MAP
@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 4),
    horizon=st.integers(1, 20),
    dof=st.integers(1, 8),
    per_step=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_equals_the_specification_index_by_index(kernel, batch, horizon, dof, per_step, seed):
    action, start, dt = random_inputs(kernel, batch, horizon, dof, seed, per_step)
    trajectory = kernel.step(action, *start, dt=dt)
    steps = dt.expand(batch, horizon).numpy()
    for b in range(batch):
        expected = spec_trajectory(kernel.name, action[b].numpy(), *(x[b].numpy() for x in start), steps[b])
        for name, got, want in zip(OUTPUTS, trajectory, expected, strict=True):
            assert got.shape[1] == kernel.output_horizon(horizon)
            scale = np.abs(want).max() + 1
            np.testing.assert_allclose(got[b].numpy() / scale, want / scale, atol=1e-9, err_msg=name)


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 3),
    horizon=st.integers(1, 40),
    dof=st.integers(1, 7),
    dt=st.floats(1e-3, 0.5),
    seed=st.integers(0, 2**31),
)
def test_backward_difference_returns_a_sampled_quadratic_exactly_from_the_first_step(batch, horizon, dof, dt, seed):
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(3, batch, dof, generator=generator, dtype=torch.float64)
    time = torch.arange(horizon + 1, dtype=torch.float64) * dt
    trajectory = clique_step(motion(c, time[1:]), *c, dt=dt)
    midpoints = time[:horizon] - dt / 2
    midpoints[0] = 0.0  # row 0 is the start itself
    rounding = 1e-14 * (1 + c.abs().sum() * (1 + time[-1] ** 2))
    torch.testing.assert_close(trajectory.velocity, motion(c, midpoints, 1), rtol=0, atol=float(rounding / dt))
    torch.testing.assert_close(
        trajectory.acceleration, c[2][:, None].expand(-1, horizon, -1), rtol=0, atol=float(4 * rounding / dt**2)
    )
    assert trajectory.jerk.abs().max() <= 8 * rounding / dt**3


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 3),
    horizon=st.integers(1, 40),
    dof=st.integers(1, 7),
    dt=st.floats(1e-3, 0.5),
    seed=st.integers(0, 2**31),
)
def test_central_difference_returns_a_sampled_cubic_exactly_up_to_the_hold(batch, horizon, dof, dt, seed):
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(4, batch, dof, generator=generator, dtype=torch.float64)
    time = (torch.arange(horizon + 4, dtype=torch.float64) - 1) * dt
    trajectory = clique_central_step(motion(c, time[2 : horizon + 2]), *c, dt=dt)
    free = slice(0, horizon)  # stencils that do not reach the held points
    rounding = 1e-14 * (1 + c.abs().sum() * (1 + time[-1].abs() ** 3))
    for order, output in enumerate(trajectory):
        torch.testing.assert_close(
            output[:, free], motion(c, time[free], order), rtol=0, atol=float(8 * rounding / dt**order)
        )
    held = trajectory.position[:, -1]
    torch.testing.assert_close(held, motion(c, time[horizon + 1 : horizon + 2])[:, 0], rtol=1e-12, atol=1e-12)
    assert trajectory.velocity[:, -1].abs().max() == 0


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["acceleration_zoh", "jerk"]),
    horizon=st.integers(1, 60),
    dof=st.integers(1, 7),
    seed=st.integers(0, 2**31),
)
def test_a_held_action_integrates_to_the_closed_form_at_any_step_lengths(name, horizon, dof, seed):
    """A constant acceleration (jerk) is one polynomial, whatever the grid: no step may leave it."""
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(3 if name == "acceleration_zoh" else 4, 1, dof, generator=generator, dtype=torch.float64)
    dt = 0.001 + 0.1 * torch.rand(horizon, generator=generator, dtype=torch.float64)
    time = dt.cumsum(0) - dt[0]
    action = c[-1][:, None].expand(1, horizon, dof)
    trajectory = MAPS[name].step(action, *c[:3], dt=dt)
    for order, output in enumerate(trajectory[:3]):
        torch.testing.assert_close(output, motion(c, time, order), rtol=1e-11, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(pieces=st.integers(1, 8), substeps=st.integers(1, 6), seed=st.integers(0, 2**31))
def test_piecewise_constant_acceleration_does_not_depend_on_how_finely_it_is_stepped(pieces, substeps, seed):
    generator = torch.Generator().manual_seed(seed)
    start = [torch.randn(1, 3, generator=generator, dtype=torch.float64) for _ in range(3)]
    held = torch.randn(1, pieces + 1, 3, generator=generator, dtype=torch.float64)
    length = 0.01 + torch.rand(pieces + 1, generator=generator, dtype=torch.float64)
    coarse = MAPS["acceleration_zoh"].step(held, *start, dt=torch.cat([length[:1], length[:-1]]))
    fine_action = held.repeat_interleave(substeps, 1)[:, : pieces * substeps + 1]
    fine_dt = torch.cat([length[:1], (length[:-1] / substeps).repeat_interleave(substeps)])
    fine = MAPS["acceleration_zoh"].step(fine_action, *start, dt=fine_dt)
    torch.testing.assert_close(fine.position[:, ::substeps], coarse.position, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(fine.velocity[:, ::substeps], coarse.velocity, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["velocity", "acceleration_zoh", "acceleration_semi_implicit_euler", "jerk"])
@settings(max_examples=30, deadline=None)
@given(first=st.integers(1, 12), second=st.integers(1, 12), seed=st.integers(0, 2**31))
def test_two_halves_from_the_middle_state_equal_the_whole(name, first, second, seed):
    kernel = MAPS[name]
    action, start, _ = random_inputs(kernel, 2, first + second, 3, seed)
    dt = 0.01 + 0.1 * torch.rand(first + second, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    whole = kernel.step(action, *start, dt=dt)
    head = kernel.step(action[:, : first + 1], *start, dt=dt[: first + 1])
    middle = [output[:, first] for output in head[:3]]
    tail = kernel.step(action[:, first:], *middle, dt=dt[first:])
    for output, left, right in zip(whole, head, tail, strict=True):
        torch.testing.assert_close(output[:, : first + 1], left, rtol=1e-10, atol=1e-8)
        torch.testing.assert_close(output[:, first + 1 :], right[:, 1:], rtol=1e-10, atol=1e-8)


@MAP
def test_a_batch_equals_its_rows_one_by_one(kernel):
    action, start, dt = random_inputs(kernel, 5, 9, 3, seed=1)
    whole = kernel.step(action, *start, dt=dt)
    for b in range(5):
        row = kernel.step(action[b : b + 1], *(x[b : b + 1] for x in start), dt=dt[b : b + 1])
        for got, want in zip(row, whole, strict=True):
            assert torch.equal(got[0], want[b])


@MAP
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_a_start_pool_picked_by_index_equals_the_picked_rows(kernel, index_dtype):
    action, _, dt = random_inputs(kernel, 6, 5, 2, seed=2)
    pool = [torch.randn(3, 2, dtype=torch.float64) for _ in range(3)]
    index = torch.tensor([2, 0, 0, 1, 2, 2], dtype=index_dtype)
    picked = kernel.step(action, *pool, dt=dt, start_index=index)
    expected = kernel.step(action, *(x[index.long()] for x in pool), dt=dt)
    for got, want in zip(picked, expected, strict=True):
        assert torch.equal(got, want)


@MAP
def test_one_start_row_serves_all_trajectories_and_none_means_at_rest(kernel):
    action, start, dt = random_inputs(kernel, 4, 5, 2, seed=3)
    for got, want in zip(
        kernel.step(action, start[0][:1], dt=dt),
        kernel.step(action, start[0][:1].expand(4, 2), torch.zeros(4, 2).double(), torch.zeros(4, 2).double(), dt=dt),
        strict=True,
    ):
        assert torch.equal(got, want)


@MAP
def test_every_form_of_the_same_dt_gives_the_same_trajectory(kernel):
    action, start, _ = random_inputs(kernel, 4, 4, 2, seed=4)  # batch == horizon: nothing may be guessed from sizes
    value = torch.tensor(0.03, dtype=torch.float64)
    forms = [0.03, value, value[None], value.expand(4, 1)]
    if not kernel.uniform_dt_only:
        forms += [value.expand(4), value.expand(4, 4)]
    expected = kernel.step(action, *start, dt=0.03)
    for dt in forms:
        for got, want in zip(kernel.step(action, *start, dt=dt), expected, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-13)


@MAP
def test_one_dimensional_dt_counts_steps_unless_told_that_it_counts_trajectories(kernel):
    action, start, _ = random_inputs(kernel, 4, 4, 2, seed=5)
    dt = torch.tensor([0.01, 0.02, 0.03, 0.04], dtype=torch.float64)
    per_trajectory = kernel.step(action, *start, dt=dt, dt_per="trajectory")
    for got, want in zip(per_trajectory, kernel.step(action, *start, dt=dt[:, None]), strict=True):
        assert torch.equal(got, want)
    if kernel.uniform_dt_only:
        with pytest.raises(ValueError, match=r"dt: (central differences|B-splines) need one step length"):
            kernel.step(action, *start, dt=dt)
        return
    per_step = kernel.step(action, *start, dt=dt)
    for got, want in zip(per_step, kernel.step(action, *start, dt=dt[None].expand(4, 4)), strict=True):
        assert torch.equal(got, want)


@MAP
@pytest.mark.parametrize("shape", [(0, 5, 3), (1, 1, 1), (3, 1, 2), (1, 7, 1)])
def test_edge_sizes_give_outputs_of_the_right_shape(kernel, shape):
    batch, horizon, dof = shape
    action = torch.randn(shape, dtype=torch.float64)
    trajectory = kernel.step(action, torch.zeros(batch or 1, dof, dtype=torch.float64), dt=0.1)
    assert all(output.shape == (batch, kernel.output_horizon(horizon), dof) for output in trajectory)
    assert all(bool(output.isfinite().all()) for output in trajectory)


@MAP
@pytest.mark.parametrize("dt", [0.001, 0.02, 0.1])
@pytest.mark.parametrize("source", ["random", "smooth"])
def test_float32_differs_from_float64_arithmetic_on_the_same_inputs_by_rounding_only(kernel, dt, source):
    horizon = 64
    if source == "random":
        action, start, _ = random_inputs(kernel, 8, horizon, 7, seed=6)
    else:
        time = torch.arange(horizon + 1, dtype=torch.float64) * dt
        derivatives = [
            2 + 0.8 * torch.sin(1.3 * time),
            0.8 * 1.3 * torch.cos(1.3 * time),
            -0.8 * 1.3**2 * torch.sin(1.3 * time),
            -0.8 * 1.3**3 * torch.cos(1.3 * time),
        ]
        if kernel.control_space is ControlSpace.BSPLINE:
            action = 2 + 0.8 * torch.sin(1.3 * 4 * (time[1:] + dt)).reshape(1, horizon, 1)
        else:
            action = derivatives[kernel.control_space - 1][1:].reshape(1, horizon, 1)
        start = [x[:1].reshape(1, 1) for x in derivatives[:3]]
    single = [x.float() for x in (action, *start)]
    got = kernel.step(*single, dt=dt)
    want = kernel.step(*(x.double() for x in single), dt=dt)
    for name, output, exact in zip(OUTPUTS, got, want, strict=True):
        assert output.dtype is torch.float32
        assert (output.double() - exact).norm() <= 2e-6 * exact.norm(), name


@MAP
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_once_at_the_end(kernel, dtype):
    action, start, _ = random_inputs(kernel, 3, 8, 2, seed=7)
    half = [x.to(dtype) for x in (action, *start)]
    got = kernel.step(*half, dt=0.5)
    want = kernel.step(*(x.double() for x in half), dt=0.5)
    for output, exact in zip(got, want, strict=True):
        assert torch.equal(output, exact.to(dtype))


def test_backward_difference_on_changing_steps_scales_acceleration_by_the_mean_of_two_steps():
    """The recursive form's price: a quadratic's acceleration is off by the factor (dt[h-1] + dt[h]) / (2 dt[h]).

    `differentiate_positions` exists for motions on such grids.
    """
    dt = torch.tensor([0.1, 0.1, 0.2, 0.05], dtype=torch.float64)
    time = dt.cumsum(0) - dt[0]
    c = torch.tensor([0.3, -0.5, 1.2], dtype=torch.float64)[:, None, None]
    points = motion(c, time)
    action = torch.cat([points[:, 1:], points[:, -1:]], 1)
    trajectory = clique_step(action, *c, dt=dt)
    factor = (dt[:-1] + dt[1:]) / (2 * dt[1:])
    torch.testing.assert_close(trajectory.acceleration[0, 1:, 0], 1.2 * factor)


def test_jerk_phases_of_a_planner_reproduce_the_states_between_them(shared_data):
    """Ground truth of another program: a jerk-limited motion's seven phases per joint and its state at each switch."""
    profile = json.loads(shared_data("generated-ruckig/panda_ruckig_p2p_profile.json").read_text())
    for phases in profile["profiles"]:
        start = [torch.tensor([[phases[key][0]]], dtype=torch.float64) for key in "pva"]
        jerks = torch.tensor([*phases["j"], 0.0], dtype=torch.float64)[None, :, None]
        dt = torch.tensor([1.0, *phases["t"]], dtype=torch.float64)
        trajectory = jerk_step(jerks, *start, dt=dt)
        for key, output in zip("pva", trajectory[:3], strict=True):
            np.testing.assert_allclose(output[0, :, 0].numpy(), phases[key], rtol=0, atol=1e-12)


def test_control_map_finds_the_map_of_a_space_and_its_schemes():
    assert control_map(1, "central").name == "clique_central"
    assert control_map(1).name == "clique"
    assert control_map(3, acceleration_integrator="semi_implicit_euler").name == "acceleration_semi_implicit_euler"
    assert control_map(4).name == "jerk"
    with pytest.raises(ValueError):
        control_map(6)

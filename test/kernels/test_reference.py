"""The references equal the specification, and treat batches, pools, dt and dtypes alike; test/maps has the rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from exact_motions import random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_oracle import spec_trajectory

from traj_integrator_ros.kernels import (
    MAPS,
    control_map,
)

MAP = pytest.mark.parametrize("kernel", MAPS.values(), ids=MAPS)
OUTPUTS = ("position", "velocity", "acceleration", "jerk")


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
    beside = kernel.step(action, start[0][:1], start[1], dt=dt)  # one row beside several
    for got, want in zip(beside, kernel.step(action, start[0][:1].expand(4, 2), start[1], dt=dt), strict=True):
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
def test_one_dimensional_dt_is_per_step_unless_dt_per_says_trajectory(kernel):
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
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_once_at_the_end(kernel, dtype):
    action, start, _ = random_inputs(kernel, 3, 8, 2, seed=7)
    half = [x.to(dtype) for x in (action, *start)]
    got = kernel.step(*half, dt=0.5)
    want = kernel.step(*(x.double() for x in half), dt=0.5)
    for output, exact in zip(got, want, strict=True):
        assert torch.equal(output, exact.to(dtype))


def test_control_map_finds_the_map_of_a_space_and_its_schemes():
    assert control_map(1, "central").name == "clique_central"
    assert control_map(1).name == "clique"
    assert control_map(3, acceleration_integrator="semi_implicit_euler").name == "acceleration_semi_implicit_euler"
    assert control_map(4).name == "jerk"
    with pytest.raises(ValueError):
        control_map(6)

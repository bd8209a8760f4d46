"""Every map by every backend equals the specification, however it is called, and treats dtypes alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import CPU_BACKENDS, MAP, OPERATOR, SIGNATURE, STATE, cases, signature_case
from spec_oracle import spec_trajectory

from traj_integrator_ros.kernels import control_map, reference_backend


@OPERATOR
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_equals_the_specification_index_by_index_however_it_is_called(kernel, data):
    """With start, goal and dt in any form; splines of any form."""
    batch = data.draw(st.integers(1, 4), "batch")
    horizon = st.one_of(st.just(batch), st.integers(1, 20))  # equal sizes: nothing is guessed
    case = data.draw(cases(kernel, batch=st.just(batch), horizon=horizon, dof=st.integers(1, 8)))
    trajectory = case.step(backend=data.draw(st.sampled_from(CPU_BACKENDS), "backend"))
    for b in range(batch):
        expected = spec_trajectory(case.kernel.name, *case.of_trajectory(b), case.kernel.scheme)
        for name, got, want in zip(STATE, trajectory, expected, strict=True):
            assert got[b].shape == want.shape == (case.kernel.output_horizon(case.horizon), case.dof)
            scale = np.abs(want).max() + 1
            np.testing.assert_allclose(got[b].numpy() / scale, want / scale, atol=1e-11, err_msg=name)


@MAP
@pytest.mark.parametrize(
    ("dtype", "backend"), [(torch.float16, None), (torch.bfloat16, None), (torch.float32, "reference")], ids=str
)
def test_short_types_are_rounded_once_at_the_end(kernel, dtype, backend):
    half = [x.to(dtype) for x in signature_case(kernel, batch=3, horizon=8, seed=7).values[:4]]
    got = kernel.step(*half, dt=0.5, backend=backend)
    want = kernel.step(*(x.double() for x in half), dt=0.5, backend=backend)
    for output, exact in zip(got, want, strict=True):
        assert torch.equal(output, exact.to(dtype))


@SIGNATURE
def test_vjps_of_many_steps_are_computed_in_parts(kernel, monkeypatch):
    velocity = torch.randn(5, kernel.output_horizon(6), 2, dtype=torch.float64)
    upstream, dt = [None, velocity, None, velocity.exp()], torch.linspace(0.1, 0.5, 5)[:, None]

    def gradients() -> tuple[torch.Tensor, ...]:
        return kernel.vjp(upstream, dt=dt, action_horizon=6, start_rows=1, backend="reference")

    whole = gradients()
    monkeypatch.setattr(reference_backend, "MATRIX_NUMBERS", 1)
    for part, right in zip(gradients(), whole, strict=True):
        torch.testing.assert_close(part, right, rtol=1e-13, atol=1e-13 * float(right.abs().max()))


def test_control_map_finds_the_map_of_a_space_and_its_schemes():
    assert control_map(1, "central").name == "clique_central"
    assert control_map(1).name == "clique"
    assert control_map(3, acceleration_integrator="semi_implicit_euler").name == "acceleration_semi_implicit_euler"
    assert control_map(4).name == "jerk"
    with pytest.raises(ValueError):
        control_map(6)

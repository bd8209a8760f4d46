"""The references equal the specification, and treat batches, pools, dt and dtypes alike; test/maps has the rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import MAP, random_inputs
from spec_oracle import spec_trajectory

from traj_integrator_ros.kernels import control_map

OUTPUTS = ("position", "velocity", "acceleration", "jerk")
# The forms of dt, from the step lengths `[B, H]`: what is passed, and what it means.
DT = {
    "number": lambda dt: ({"dt": float(dt[0, 0])}, dt[:1, :1]),
    "scalar": lambda dt: ({"dt": dt[0, 0]}, dt[:1, :1]),
    "[1]": lambda dt: ({"dt": dt[0, :1]}, dt[:1, :1]),
    "[B, 1]": lambda dt: ({"dt": dt[:, :1]}, dt[:, :1]),
    "[B]": lambda dt: ({"dt": dt[:, 0], "dt_per": "trajectory"}, dt[:, :1]),
    "[H]": lambda dt: ({"dt": dt[0]}, dt[:1]),
    "[1, H]": lambda dt: ({"dt": dt[:1]}, dt[:1]),
    "[B, H]": lambda dt: ({"dt": dt}, dt),
}
UNIFORM = ("number", "scalar", "[1]", "[B, 1]", "[B]")


@MAP
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_equals_the_specification_index_by_index_for_any_form_of_start_and_dt(kernel, data):
    batch, dof = data.draw(st.integers(1, 4), "batch"), data.draw(st.integers(1, 8), "dof")
    horizon = data.draw(st.one_of(st.just(batch), st.integers(1, 20)), "horizon")  # sizes alike: nothing is guessed
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31), "seed"))
    index, rows = None, [data.draw(st.sampled_from((0, 1, batch)), "rows") for _ in range(2)]  # 0: None
    rows = [data.draw(st.sampled_from((1, batch)), "rows of positions"), *rows]
    if data.draw(st.booleans(), "pool"):
        rows = [row and 3 for row in rows]
        index = torch.randint(0, 3, (batch,), generator=generator)
        index = index.to(data.draw(st.sampled_from((torch.int32, torch.int64)), "dtype of the index"))

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    action, start = normal(batch, horizon, dof), [normal(row, dof) if row else None for row in rows]
    steps = 0.01 + 0.1 * torch.rand(batch, horizon, generator=generator, dtype=torch.float64)
    form = data.draw(st.sampled_from(UNIFORM if kernel.uniform_dt_only else list(DT)), "dt")
    dt, meant = DT[form](steps)
    trajectory = kernel.step(action, *start, **dt, start_index=index)
    meant = meant.expand(batch, horizon).numpy()
    picked = [torch.zeros(1, dof) if row is None else row if index is None else row[index.long()] for row in start]
    picked = [row.expand(batch, dof).numpy() for row in picked]
    for b in range(batch):
        expected = spec_trajectory(kernel.name, action[b].numpy(), *(row[b] for row in picked), meant[b])
        for name, got, want in zip(OUTPUTS, trajectory, expected, strict=True):
            assert got.shape[1] == kernel.output_horizon(horizon)
            scale = np.abs(want).max() + 1
            np.testing.assert_allclose(got[b].numpy() / scale, want / scale, atol=1e-9, err_msg=name)


@MAP
@pytest.mark.parametrize(
    ("dtype", "backend"), [(torch.float16, None), (torch.bfloat16, None), (torch.float32, "reference")], ids=str
)
def test_short_types_are_rounded_once_at_the_end(kernel, dtype, backend):
    half = [x.to(dtype) for x in random_inputs(kernel, 3, 8, 2, seed=7)[:4]]
    got = kernel.step(*half, dt=0.5, backend=backend)
    want = kernel.step(*(x.double() for x in half), dt=0.5, backend=backend)
    for output, exact in zip(got, want, strict=True):
        assert torch.equal(output, exact.to(dtype))


def test_control_map_finds_the_map_of_a_space_and_its_schemes():
    assert control_map(1, "central").name == "clique_central"
    assert control_map(1).name == "clique"
    assert control_map(3, acceleration_integrator="semi_implicit_euler").name == "acceleration_semi_implicit_euler"
    assert control_map(4).name == "jerk"
    with pytest.raises(ValueError):
        control_map(6)

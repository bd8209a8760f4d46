"""The C++ kernels against float64 arithmetic on the same numbers: every map, both directions, any shape."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from launch_cases import Launch, assert_close, launches
from operator_cases import MAP, OPERATOR, STATE, Case, signature_case

from traj_integrator_ros.kernels import MAPS, ControlSpace

try:
    from traj_integrator_ros.kernels import native
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)

# Rounding of the arithmetic and of the result. The specification allows 2e-6 in float32.
LIMIT = {torch.float32: 2e-7, torch.float64: 2e-14}


@OPERATOR
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_results_are_those_of_float64_arithmetic(kernel, data):
    """Outputs, gradients, and the gradient of dt."""
    sizes = {
        "batch": st.integers(0, 9),
        "horizon": st.sampled_from([1, 2, 3, 4, 5, 8, 32, 38, 126, 150]),
        "dof": st.one_of(st.integers(1, 9), st.sampled_from([9, 13, 16, 17, 64, 600])),
    }
    launch = data.draw(launches(kernel, **sizes))
    limit, (wanted, wanted_of_dt) = LIMIT[launch.dtype], launch.expected()
    for place, (got, want) in enumerate(zip(launch.both("native"), wanted, strict=True)):
        assert got is None or got.dtype is launch.dtype
        assert_close(got, want, limit if place < 4 else 4 * limit, place)
    got = launch.dt_gradient(native)
    assert got.dtype is torch.float64
    rounded_weights = kernel.control_space is ControlSpace.BSPLINE and launch.dtype is torch.float32
    assert_close(got, wanted_of_dt, limit if rounded_weights else 1e-11)


@MAP
def test_number_of_threads_does_not_change_a_bit(kernel):
    launch = Launch(signature_case(kernel, batch=500, horizon=32, dof=7, start="pool"), torch.float32)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append([one for one in (*launch.both("native"), launch.dt_gradient(native)) if one is not None])
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(map(torch.equal, results[0], other))


@pytest.mark.timeout(600)  # two processes that import torch
def test_every_instruction_set_gives_the_same_bits():
    program = str(Path(__file__).with_name("result_bits.py"))
    results = {}
    for wish in ("baseline", ""):
        environment = {**os.environ, "TRAJ_INTEGRATOR_INSTRUCTION_SET": wish, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        name, *results[wish] = done.stdout.splitlines()
        assert name == wish or wish == ""
    assert results[""] == results["baseline"]


@MAP
@pytest.mark.parametrize("per_step", [False, True], ids=["uniform dt", "dt per step"])
@pytest.mark.parametrize("dt", [0.001, 0.02, 0.1])
@pytest.mark.parametrize("offset", [0.0, 2.0], ids=["through zero", "near 2 rad"])
def test_smooth_motions_keep_their_digits_in_float32(kernel, per_step, dt, offset):
    steps = dt * (1 + 0.3 * torch.rand(64, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    per_step = per_step and not kernel.uniform_dt_only
    if not per_step:
        steps = steps[:1].expand(64)
    time = torch.cat([torch.zeros(1, dtype=torch.float64), steps.cumsum(0)])
    phase = 1.3 * (time - time[32])
    derivatives = [offset + 0.8 * phase.sin(), 1.04 * phase.cos(), -1.352 * phase.sin(), -1.7576 * phase.cos()]
    if kernel.control_space is ControlSpace.BSPLINE:  # a control point for each 4 rows
        action = (offset + 0.8 * (1.3 * 4 * (time[1:] + float(steps[0]) - time[32])).sin()).float().reshape(1, 64, 1)
    else:
        action = derivatives[kernel.control_space - 1][1:].float().reshape(1, 64, 1)
    start = [x[:1].float().reshape(1, 1) for x in derivatives[:3]]
    step = steps if per_step else float(steps[0])
    got = kernel.step(action, *start, dt=step, backend="native")
    want = kernel.step(action.double(), *(x.double() for x in start), dt=step, backend="reference")
    for output, exact, label in zip(got, want, STATE, strict=True):
        assert_close(output, exact, 2e-7, label)


@pytest.mark.parametrize("row", [-1, 3])
def test_an_index_outside_of_the_pool_is_refused(row):
    launch = Launch(Case(MAPS["clique"], 4, 5, 2, start="pool"))
    launch.inputs.indices[0][:] = torch.tensor([0, 1, row, 2])
    for run in (launch.forward, launch.vjp):
        with pytest.raises(IndexError, match="start_index: expected rows 0 to 2"):
            run("native")

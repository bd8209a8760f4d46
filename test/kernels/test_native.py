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
from launch_cases import Launch, assert_close, assert_keeps_digits, launches
from operator_cases import MAP, OPERATOR, Case, signature_case

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
@pytest.mark.parametrize("dt", [0.001, 0.02, 0.1])
def test_smooth_motions_keep_their_digits_in_float32(kernel, dt):
    assert_keeps_digits(kernel.name, 64, dt, "", backend="native", limit=LIMIT[torch.float32])


@pytest.mark.parametrize("row", [-1, 3])
def test_an_index_outside_of_the_pool_is_refused(row):
    launch = Launch(Case(MAPS["clique"], 4, 5, 2, start="pool"))
    launch.inputs.indices[0][:] = torch.tensor([0, 1, row, 2])
    for run in (launch.forward, launch.vjp):
        with pytest.raises(IndexError, match="start_index: expected rows 0 to 2"):
            run("native")

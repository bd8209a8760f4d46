"""What every Triton kernel must hold, under the interpreter or on a device.

`test_triton_kernels.py` runs this file in processes of its own: TRITON_INTERPRET has to be set before triton is
imported, and would change what other tests see. `TRITON_CHECKS_DEVICE` is "cpu" (interpreter) or "cuda".
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable
from unittest import mock

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from launch_cases import SCHEMES, Case, assert_close, cases
from operator_cases import SIGNATURE
from triton import language

from traj_integrator_ros.engine import staged as engine_staged
from traj_integrator_ros.engine.call import call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import Backend
from traj_integrator_ros.kernels.backends import launcher
from traj_integrator_ros.kernels.triton import launch

DEVICE = os.environ.get("TRITON_CHECKS_DEVICE", "cpu")
ON_GPU = DEVICE != "cpu"


def _quicken() -> None:
    """Keep the interpreter from what takes most of the time of these checks and changes nothing.

    It replaces what the language is made of before each launch, and again before each call of a function by a kernel,
    when nothing is left to replace; and it computes whether integers overflow, for assertions that are off.
    """
    from triton.runtime import interpreter

    patch = interpreter._patch_lang

    def patch_what_is_not(function: Callable) -> object:
        languages = [one for one in function.__globals__.values() if one is language or one is language.core]
        if languages and not any(language.core.is_builtin(one.load) for one in languages):
            return interpreter._LangPatchScope()  # of no changes
        return patch(function)

    interpreter._patch_lang = patch_what_is_not
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


if not ON_GPU:
    _quicken()

EACH_MAP = pytest.mark.parametrize("variant", SCHEMES)
EACH_OF_STEPS = pytest.mark.parametrize("variant", [name for name in SCHEMES if name != "bspline"])
# What does not depend on the map: those with the most start rows, and both ends of the chain.
SOME_MAPS = pytest.mark.parametrize("variant", ["clique", "clique_central", "jerk", "bspline"])

# The interpreter's time depends on the number of programs, and a scan has one for each trajectory.
FEW, FEW_OR_MANY = st.integers(0, 4), st.one_of(st.integers(0, 4), st.integers(0, 4), st.integers(5, 70))
LONGEST, WIDEST = (130, 32) if ON_GPU else (70, 12)  # a test has longer and wider ones
MANY = 1500 if ON_GPU else 70


def make_case(
    variant: str, batch: int, horizon: int, dof: int, dtype: torch.dtype = torch.float64, **options: object
) -> Case:
    """A launch on the device of the checks."""
    return Case(variant, batch, horizon, dof, dtype, device=DEVICE, **options)


def assert_matches(case: Case) -> None:
    """Forward and transpose agree with the reference and its autograd."""
    wanted = [*case.expected_forward(), *case.expected_vjp()]
    results = [*case.forward("triton"), *case.vjp("triton")]
    for place, (got, want) in enumerate(zip(results, wanted, strict=True)):
        assert got is None or got.dtype == case.dtype
        assert_close(got, want, LIMIT[case.dtype], place)


def is_flat(variant: str) -> bool:
    return "central" in variant or variant == "bspline"


# Of the norm of each result: rounding of the arithmetic, which is float64 for every dtype, and of the result.
LIMIT = {torch.float64: 1e-11, torch.float32: 2e-7, torch.bfloat16: 2**-7, torch.float16: 2**-10}


@EACH_MAP
@settings(max_examples=60 if ON_GPU else 8, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_forward_and_vjp_match_the_reference_for_any_shape_and_absence(variant, data):
    longest, widest = (12, 6) if variant == "bspline" and not ON_GPU else (LONGEST, WIDEST)
    case = data.draw(
        cases(
            st.just(variant),
            st.integers(1, 5),
            batch=FEW if variant == "bspline" or not (is_flat(variant) or ON_GPU) else FEW_OR_MANY,
            horizon=st.one_of(st.integers(1, 5), st.integers(1, longest)),
            dof=st.integers(1, widest),
            device=st.just(DEVICE),
        )
    )
    size = data.draw(st.sampled_from((None, None, 64, 512)), "program")
    size = size if case.action.numel() < 5000 else None
    with mock.patch.object(launch, "program_size", lambda device: size) if size else contextlib.nullcontext():
        assert_matches(case)


@EACH_MAP
@pytest.mark.parametrize(("batch", "horizon", "dof"), [(0, 5, 3), (1, 1, 1), (70, 2, 1), (1, 257, 33)])
def test_smallest_and_longest_shapes_match_the_reference(variant, batch, horizon, dof):
    if not (is_flat(variant) or ON_GPU):
        batch = min(batch, 5)  # seconds of interpreter else
    if variant == "bspline" and not ON_GPU:
        batch, horizon, dof = min(batch, 5), min(horizon, 20), min(dof, 2)
    kinds = (("scalar", "pool int32", None), ("both", "one", "each"))
    for dt, start, goal in kinds if horizon < 100 or ON_GPU else kinds[1:]:
        options = {"dt_form": dt, "start_form": start, "goal_form": goal}
        assert_matches(make_case(variant, batch, horizon, dof, **options))


@SOME_MAPS
def test_buffers_of_the_caller_are_filled_and_nothing_beside_them_is_written(variant):
    case = make_case(variant, 3, 9, 5)
    wanted = [*case.expected_forward(), *case.expected_vjp()]

    def guarded(shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        length = 64 + torch.Size(shape).numel() + 64
        whole = torch.full((length,), float("nan"), dtype=torch.float64, device=DEVICE)
        return whole, whole[64:-64].view(shape)

    outs = [guarded(output.shape) for output in wanted[:4]]
    gradient = guarded((3, 9, 5))
    results = case.forward("triton", out=[inner for _, inner in outs])
    results = [*results, *case.vjp("triton", out=[gradient[1], *[None] * 8])]
    for got, want in zip(results, wanted, strict=True):
        assert_close(got, want, 1e-9)
    for (whole, inner), result in zip([*outs, gradient], results[:5], strict=True):
        assert result is inner
        assert bool(whole[:64].isnan().all())
        assert bool(whole[-64:].isnan().all())


@EACH_MAP
def test_absent_gradients_and_unneeded_results_have_no_memory_to_touch(variant, monkeypatch):
    launches = []
    monkeypatch.setattr(launch, "launch", lambda kernel, programs, arguments, warps: launches.append(arguments))
    case = make_case(variant, 3, 6, 2, absent_upstream=(0, 1, 3), unneeded=(0, 2))
    case.vjp("triton")
    tensors = {name for name, value in launches[0].items() if isinstance(value, torch.Tensor)}
    starts = {f"p_grad_start_{name}" for name in "paj"[: case.operator.starts - 1]}
    tables = {"p_weights", "p_states"} if variant == "bspline" else set()
    assert tensors == {"p_grad_acceleration", "p_dt", *starts, *tables}


@SOME_MAPS
def test_a_start_outside_of_the_pool_gives_nan_and_reads_nothing(variant):
    case = make_case(variant, 4, 6, 3, start_form="pool int64")
    right = case.forward("triton")
    case.start_index[1], case.start_index[2] = 3, -1
    for output, whole in zip(case.forward("triton")[:3], right, strict=False):
        assert bool(output[1:3, :2].isnan().any(1).all())
        assert torch.equal(output[[0, 3]], whole[[0, 3]])


@SOME_MAPS
def test_what_does_not_fit_is_refused_by_name(variant):
    case = make_case(variant, 2, 5, 2)
    outs = list(case.forward("triton"))
    outs[2] = outs[2].float()
    with pytest.raises(ValueError, match=r"out\[2\]: expected a contiguous torch.float64"):
        case.forward("triton", out=outs)
    wrong = torch.empty(2, 2, 5, dtype=torch.float64, device=DEVICE).transpose(1, 2)
    with pytest.raises(ValueError, match=r"out\[0\]: expected a contiguous"):
        case.vjp("triton", out=[wrong, *[None] * 8])
    for name, value, message in (
        ("dt", torch.ones(1, 3, device=DEVICE), "dt: expected shape"),
        ("upstream", [torch.ones(2, 5, 1), None, torch.ones(2, 5, 2), None], "grad_acceleration: expected shape"),
        ("upstream", [None] * 4, "at least one"),
    ):
        wrong = make_case(variant, 2, 5, 2)
        setattr(wrong, name, value)
        with pytest.raises(ValueError, match=message):
            wrong.vjp("triton")


@SIGNATURE
def test_public_functions_reach_the_kernels_and_differentiate_through_them(kernel):
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(3, 7, 2, generator=generator, dtype=torch.float64)]
    inputs += [torch.randn(4, 2, generator=generator, dtype=torch.float64) for _ in range(3)]
    inputs = [tensor.to(DEVICE).requires_grad_() for tensor in (*inputs, torch.full((1, 1), 0.5, dtype=torch.float64))]
    index = torch.tensor([3, 0, 3], device=DEVICE)
    results = []
    for backend in (Backend.TRITON, Backend.REFERENCE):
        trajectory = kernel.step(*inputs[:-1], dt=inputs[-1], start_index=index, backend=backend)
        cost = trajectory.velocity.square().sum() + trajectory.jerk.square().sum()
        gradients = torch.autograd.grad(cost, inputs, create_graph=True)
        second = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), inputs)
        results.append([*trajectory, *gradients, *second])
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted)


@SOME_MAPS
def test_pool_gradients_are_the_sums_of_their_rows_and_the_same_in_every_run(variant):
    """Of a pool whose rows start none, some or nearly all trajectories, two of which start outside of it."""
    case = make_case(variant, MANY if ON_GPU else 12, 2, 5, torch.float32, start_form="pool int32")
    generator = torch.Generator().manual_seed(0)
    case.start_index[:] = torch.tensor([0, 2, 2, 2, 2])[
        torch.randint(0, 5, case.start_index.shape, generator=generator)
    ]
    case.start_index[7:9] = torch.tensor([-1, 3])
    for upstream in filter(torch.is_tensor, case.upstream):
        upstream[7:9] = 0
    runs = [case.vjp("triton") for _ in range(2)]
    case.start_index[7:9] = 0
    inside = case.expected_vjp()
    for got, again, want in zip(*runs, inside, strict=True):
        assert_close(got, want, 2e-6)
        assert got is None or torch.equal(got, again)


@EACH_MAP
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_lose_no_more_than_their_own_rounding(variant, dtype):
    case = make_case(variant, 3, 20, 7, dtype, start_form="pool int32")
    case.dt = 5 * case.dt + 0.5  # jerk stays below the 65504 of float16
    assert_matches(case)


gpu = pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")


@gpu
@EACH_OF_STEPS
def test_capture_into_a_cuda_graph_replays_with_new_inputs_and_allocates_nothing(variant):
    """Nothing waits for the device: a capture would fail."""
    case, fresh = (make_case(variant, 64, 33, 7, torch.float32, start_form="pool int32", seed=k) for k in range(2))
    for _ in range(2):
        case.both("triton")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = case.both("triton")
    pairs = zip([*case.inputs.arguments, *case.upstream], [*fresh.inputs.arguments, *fresh.upstream], strict=True)
    for static, new in pairs:
        if static is not None:
            static.copy_(new)
    for result in results:
        result.fill_(float("nan"))
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    for replayed, right in zip(results, fresh.both("triton"), strict=True):
        assert torch.equal(replayed, right)


@SIGNATURE
def test_the_engine_drives_the_kernels_into_its_own_memory(kernel, monkeypatch):
    """Its runner for devices, with inputs in each form; on CUDA devices it does so through graphs."""
    monkeypatch.setattr(engine_staged, "default_backend", lambda device: Backend.TRITON)
    monkeypatch.setattr(engine_staged, "launcher", lambda *which: launcher(*which[:2], "triton", which[3]))
    on_device = TrajectoryIntegrator(DEVICE, runner=StagedRunner(torch.device(DEVICE), torch.float32, max_graphs=4))
    directly = TrajectoryIntegrator("cpu")
    generator = torch.Generator().manual_seed(0)
    for rows, index in ((1, None), (3, None), (2, torch.tensor([0, 1, 1]))):
        rows = (*torch.randn(2, rows, 3, generator=generator), None)
        actions = torch.randn(3, 5, 3, generator=generator)
        results = []
        for engine in (on_device, directly):
            call = call_of(kernel, actions, 0.1, ends_of(rows, index))
            outputs = [*torch.tensor(engine.integrate(call))]
            gradient = engine.vjp(call._replace(upstream=(outputs[0], None, *outputs[2:])), want_dt=True)
            results.append([*outputs, *map(torch.tensor, (gradient.action, *gradient.start, gradient.dt))])
        for actual, right in zip(*results, strict=True):
            assert float((actual.double() - right.double()).norm()) <= 5e-6 * float(right.double().norm())


@gpu
@EACH_OF_STEPS
def test_more_than_2_31_elements_are_addressed(variant):
    batch, horizon, dof = 5_000_000, 64, 7
    small = make_case(variant, 1, horizon, dof, torch.float16)
    small.dt = torch.full((1, 1), 1.0 if "clique" in variant else 0.1, device=DEVICE)
    elements = batch * small.upstream[0].shape[1] * dof
    if torch.cuda.mem_get_info()[0] < 14 * elements:
        pytest.skip(f"needs {14 * elements / 1e9:.0f} GB of device memory")
    assert elements > 2**31
    large = make_case(variant, 1, horizon, dof, torch.float16)
    large.dt = small.dt
    large.action = torch.zeros(batch, horizon, dof, dtype=torch.float16, device=DEVICE)
    large.action[-1] = small.action[0]
    forward = large.forward("triton")
    for output, last in zip(forward, small.forward("triton"), strict=True):
        torch.testing.assert_close(output[-1:], last)
    large.action = None
    large.upstream = forward
    small.upstream = [0.01 * gradient for gradient in small.upstream]  # sums of sums stay below float16's 65504
    for output, last in zip(forward, small.upstream, strict=True):
        output[:-1].zero_()
        output[-1] = last[0]
    gradients, last = large.vjp("triton"), small.vjp("triton")
    torch.testing.assert_close(gradients[0][-1:], last[0])
    torch.testing.assert_close(gradients[1:4], last[1:4])

"""Checks that every Triton kernel must pass: interpreted, compiled for absent GPUs and executed, or on a GPU.

`test_triton_kernels.py` runs this file in processes of its own. `TRITON_CHECKS_DEVICE` is "cuda", or "cpu": with
TRITON_INTERPRET=1 Triton's interpreter runs the kernels, else their PTX is executed (`ptx_launch`).
`TRITON_CHECKS_SM` names one architecture to compile for, otherwise each check and example takes another one;
`TRITON_CHECKS_EXAMPLES` is the number of examples of a map.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from launch_cases import LIMIT, SUM_LIMIT, Launch, assert_close, assert_keeps_digits, assert_matches, launches
from operator_cases import OPERATOR, SIGNATURE, Case, signature_case

from traj_integrator_ros.engine import staged as engine_staged
from traj_integrator_ros.engine.call import call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import MAPS, Backend, operator
from traj_integrator_ros.kernels.backends import launcher
from traj_integrator_ros.kernels.triton import launch as triton_launch

DEVICE = os.environ.get("TRITON_CHECKS_DEVICE", "cpu")
ON_GPU = DEVICE != "cpu"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


EXAMPLES = int(os.environ.get("TRITON_CHECKS_EXAMPLES", "25" if ON_GPU else "5"))
THOROUGH = EXAMPLES > 1
"""Each form of a kernel takes time to compile."""
OPTIONS = {
    "max_examples": EXAMPLES,
    "suppress_health_check": list(HealthCheck),
    "deadline": None,
    "phases": [Phase.explicit, Phase.generate],  # shrinking would compile for minutes
    "print_blob": True,
}
if ON_GPU or INTERPRETED:
    ARCHITECTURES = (0,)
else:
    from ptx_launch import ARCHITECTURES, executing

    ARCHITECTURES = tuple(map(int, os.environ.get("TRITON_CHECKS_SM", "").split())) or ARCHITECTURES


KINDS = "central", "clique", "velocity", "acceleration", "jerk", "bspline"


@contextlib.contextmanager
def device(architecture: int) -> Iterator[None]:
    """The device, or one of an architecture in its place."""
    with contextlib.nullcontext() if ON_GPU else interpreting() if INTERPRETED else executing(architecture):
        yield


@contextlib.contextmanager
def interpreting() -> Iterator[None]:
    """New memory is NaN; fused products and sums are rounded once, as on devices; a trajectory has several chunks."""
    from triton.runtime import interpreter

    def fused(self: object, x: object, y: object, z: object) -> object:
        exact = x.data.astype(np.float64) * y.data + z.data
        return interpreter.TensorHandle(exact.astype(x.data.dtype), x.dtype.scalar)

    torch.use_deterministic_algorithms(True)
    fma = mock.patch.object(interpreter.InterpreterBuilder, "create_fma", fused)
    with fma, mock.patch.object(triton_launch, "program_size", lambda device: 1024):
        yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(autouse=True)
def any_device(request: pytest.FixtureRequest) -> Iterator[None]:
    """The architecture follows from the map: most checks of a map compile the same kernels."""
    with device(ARCHITECTURES[kind_in(request.node.name) % len(ARCHITECTURES)]):
        yield


def kind_in(name: str) -> int:
    """The number of the kind of map that a name contains."""
    return next((k for k, kind in enumerate(KINDS) if kind in name), 0)


# Checks that do not depend on the map take the maps with the most start rows, and both ends of the chain.
SOME_MAPS = pytest.mark.parametrize("name", ["clique", "clique_central", "jerk", "bspline_tight"])
STEPS = [name for name in MAPS if not name.startswith("bspline")]


def launch_of(name: str, *sizes: int, dtype: torch.dtype = torch.float64, truncated: bool = False, **fields) -> Launch:
    """A launch on the device of the checks."""
    return Launch(Case(MAPS[name], *sizes, **{"dt": "scalar", **fields}), dtype, truncated=truncated, device=DEVICE)


@OPERATOR
@settings(**OPTIONS)
@given(data=st.data())
def test_forward_and_vjp_match_the_reference_for_any_shape_and_absence(kernel, data):
    sizes = {
        "batch": st.one_of(st.integers(0, 4), st.integers(5, 70 if ON_GPU else 20)),
        "horizon": st.one_of(st.integers(1, 5), st.integers(1, 130)),
        "dof": st.one_of(st.integers(1, 8), st.integers(1, 32)),
    }
    launch = data.draw(launches(kernel, tuple(LIMIT), **sizes))
    launch = dataclasses.replace(launch, device=DEVICE)
    with device(data.draw(st.sampled_from(ARCHITECTURES), "architecture")):
        assert_matches(launch)


@OPERATOR
@pytest.mark.parametrize(("batch", "horizon", "dof"), [(0, 5, 3), (1, 1, 1), (70, 2, 1), (1, 257, 33)])
def test_smallest_and_longest_shapes_match_the_reference(kernel, batch, horizon, dof):
    if kernel.operator.goals and not ON_GPU:
        horizon = min(horizon, 20)
    forms = ("pool", "own"), ("own", "pool")
    for start, goal in forms if THOROUGH else [forms[batch % 2]]:
        case = signature_case(kernel, batch=batch, horizon=horizon, dof=dof, start=start)
        assert_matches(Launch(dataclasses.replace(case, goal=goal if kernel.goal else ""), device=DEVICE))


@pytest.mark.parametrize(
    ("name", "horizon", "dt", "goal"),
    [
        ("jerk", 1024, 0.0173, ""),
        ("clique", 16, 0.0173, ""),
        ("clique_central", 64, 0.0011, ""),
        ("bspline_tight", 16, 0.0011, ""),
        ("bspline_curobo", 16, 0.0011, "own"),
    ],
)
def test_smooth_motions_and_smooth_gradients_keep_their_digits(name, horizon, dt, goal):
    assert_keeps_digits(name, horizon, dt, goal, DEVICE)


@SOME_MAPS
def test_buffers_of_the_caller_are_filled_and_nothing_beside_them(name):
    launch = launch_of(name, 3, 9, 5)
    wanted, _ = launch.expected()

    def guarded(shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        length = 64 + torch.Size(shape).numel() + 64
        whole = torch.full((length,), float("nan"), dtype=torch.float64, device=DEVICE)
        return whole, whole[64:-64].view(shape)

    wholes, inner = zip(*(guarded(output.shape) for output in wanted[:5]), strict=True)
    results = [*launch.forward("triton", out=inner[:4]), *launch.vjp("triton", out=[inner[4], *[None] * 8])]
    for got, want in zip(results, wanted, strict=True):
        assert_close(got, want, 1e-9)
    assert all(result is one for result, one in zip(results, inner, strict=False))
    assert all(bool(whole[:64].isnan().all() and whole[-64:].isnan().all()) for whole in wholes)


@SOME_MAPS
def test_a_start_outside_of_the_pool_gives_nan_and_reads_nothing(name):
    launch = launch_of(name, 4, 6, 5, start="pool")
    right = launch.forward("triton")
    launch.inputs.indices[0][1:3] = torch.tensor([3, -1])
    for output, whole in zip(launch.forward("triton")[:3], right, strict=False):
        assert bool(output[1:3, :2].isnan().any(1).all())
        assert torch.equal(output[::3], whole[::3])


@SOME_MAPS
def test_what_does_not_fit_is_refused_by_name(name):
    launch = launch_of(name, 2, 5, 2)
    outs = list(launch.forward("triton"))
    outs[2] = outs[2].float()
    with pytest.raises(ValueError, match=r"out\[2\]: expected a contiguous torch.float64"):
        launch.forward("triton", out=outs)
    wrong = torch.empty(2, 2, 5, dtype=torch.float64, device=DEVICE).transpose(1, 2)
    with pytest.raises(ValueError, match=r"out\[0\]: expected a contiguous"):
        launch.vjp("triton", out=[wrong, *[None] * 8])
    for field, value, message in (
        ("inputs", launch.inputs._replace(dt=torch.ones(1, 3, device=DEVICE)), "dt: expected shape"),
        ("upstream", [torch.ones(2, 5, 1), None, torch.ones(2, 5, 2), None], "grad_acceleration: expected shape"),
        ("upstream", [None] * 4, "at least one"),
    ):
        wrong = launch_of(name, 2, 5, 2)
        setattr(wrong, field, value)
        with pytest.raises(ValueError, match=message):
            wrong.vjp("triton")


@SIGNATURE
def test_public_functions_reach_the_kernels_and_differentiate_through_them(kernel, monkeypatch):
    case = Case(kernel, 3, 7, 5, dt="[1]", start="pool")
    results = []
    monkeypatch.setattr(operator, "launcher", lambda *which: launcher(*which[:3], "cuda"))
    for backend in (Backend.TRITON, Backend.REFERENCE):
        inputs = [tensor.detach().to(DEVICE).requires_grad_() for tensor in case.leaves()]
        trajectory = case.step(*inputs, start_index=case.fixed["start_index"].to(DEVICE), backend=backend)
        cost = trajectory.velocity.square().sum() + trajectory.jerk.square().sum()
        gradients = torch.autograd.grad(cost, inputs, create_graph=True)
        second = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), inputs)
        results.append([*trajectory, *gradients, *second])
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted)


@SOME_MAPS
def test_pool_gradients_are_sums_of_rows_and_the_same_in_every_run(name):
    """The pool's rows start none, some or nearly all trajectories; two trajectories have indices outside of it."""
    launch = launch_of(name, 1500 if ON_GPU else 12, 2, 5, dtype=torch.float32, start="pool")
    index = launch.inputs.indices[0]
    generator = torch.Generator().manual_seed(0)
    index[:] = torch.tensor([0, 2, 2, 2, 2])[torch.randint(0, 5, index.shape, generator=generator)]
    index[7:9] = torch.tensor([-1, 3])
    for upstream in launch.upstream:
        upstream[7:9] = 0
    runs = [launch.vjp("triton") for _ in range(2)]
    index[7:9] = 0
    for got, again, want in zip(*runs, launch.expected()[0][4:], strict=True):
        assert_close(got, want, SUM_LIMIT)
        assert got is None or torch.equal(got, again)


gpu = pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")


@gpu
@pytest.mark.parametrize("name", STEPS)
def test_a_cuda_graph_replays_with_new_inputs_and_allocates_nothing(name):
    """No launch waits for the device: a capture would fail."""
    launch, fresh = (launch_of(name, 64, 33, 7, dtype=torch.float32, start="pool", seed=seed) for seed in range(2))
    for _ in range(2):
        launch.both("triton")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = launch.both("triton")
    pairs = zip([*launch.inputs.arguments, *launch.upstream], [*fresh.inputs.arguments, *fresh.upstream], strict=True)
    for static, new in pairs:
        if static is not None:
            static.copy_(new)
    for result in filter(torch.is_tensor, results):
        result.fill_(float("nan"))
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    for replayed, right in zip(results, fresh.both("triton"), strict=True):
        assert replayed is right is None or torch.equal(replayed, right)


@SIGNATURE
def test_the_engine_drives_the_kernels_into_its_own_memory(kernel, monkeypatch):
    """The engine's runner for devices, with inputs in each form; on CUDA devices it uses graphs."""
    monkeypatch.setattr(engine_staged, "default_backend", lambda device: Backend.TRITON)
    monkeypatch.setattr(engine_staged, "launcher", lambda *which: launcher(*which[:2], "triton", "cuda"))
    on_device = TrajectoryIntegrator(DEVICE, runner=StagedRunner(torch.device(DEVICE), torch.float32, max_graphs=4))
    directly = TrajectoryIntegrator("cpu")
    generator = torch.Generator().manual_seed(0)
    for rows, index in ((1, None), (3, None), (2, torch.tensor([0, 1, 1]))):
        rows = (*torch.randn(2, rows, 5, generator=generator), None)
        actions = torch.randn(3, 5, 5, generator=generator)
        results = []
        for engine in (on_device, directly):
            call = call_of(kernel, actions, 0.1, ends_of(rows, index))
            outputs = [*torch.tensor(engine.integrate(call))]
            gradient = engine.vjp(call._replace(upstream=(outputs[0], None, *outputs[2:])), want_dt=True)
            results.append([*outputs, *map(torch.tensor, (gradient.action, *gradient.start, gradient.dt))])
        for actual, right in zip(*results, strict=True):
            assert float((actual.double() - right.double()).norm()) <= 5e-6 * float(right.double().norm())

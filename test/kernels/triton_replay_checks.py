"""Calls that the C++ extension starts without Python: the right kernels with the right arguments.

A stand-in takes the place of cuLaunchKernel and knows nothing but what a driver is given: it reads addresses and
numbers from the arguments, and has Triton's interpreter compute on that memory. `test_triton_kernels.py` runs it all.
"""

from __future__ import annotations

import ctypes
import functools
from types import SimpleNamespace

import pytest
import torch
from triton_launches import DEVICE, ON_GPU

from traj_integrator_ros.kernels import MAPS
from traj_integrator_ros.kernels.fast_path import native_kernels
from traj_integrator_ros.kernels.triton import replay, start_gradients
from traj_integrator_ros.kernels.validation import kept_dt

native = pytest.importorskip("traj_integrator_ros.kernels.native", exc_type=ImportError)

LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *[ctypes.c_uint] * 7,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)
GET_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
SET_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
CONTEXT, STREAM, THREADS, SHARED = 77, 5, 96, 48
BATCH, HORIZON, DOF, POOL = 3, 9, 2, 2
TOLERANCE = {torch.float64: 1e-9, torch.float32: 3e-5, torch.float16: 5e-3}


class Driver:
    """What the extension calls in place of libcuda."""

    def __init__(self) -> None:
        self.loaded: list[replay.Started] = []
        self.recorded = self.launched = self.error = 0
        self.context: int | None = None
        self.functions = (LAUNCH(self.launch), GET_CONTEXT(self.get_context), SET_CONTEXT(self.set_context))

    def record(self, *arguments: object) -> replay.Plan | None:
        self.recorded += 1
        return replay.record(*arguments)

    def machine_code(self, started: replay.Started) -> tuple[int, int, int]:
        self.loaded.append(started)
        return len(self.loaded), THREADS, SHARED

    def launch(self, function: int, *grid_stream_and_parameters: object) -> int:
        *grid, shared, stream, parameters, extra = grid_stream_and_parameters
        if self.error:
            return self.error
        started = self.loaded[function - 1]
        assert grid == [started.programs, 1, 1, THREADS, 1, 1]
        assert (shared, stream, extra, self.context) == (SHARED, STREAM, None, CONTEXT)
        arguments = dict(started.arguments)
        names = [name for name in replay._runtime_parameters(started.kernel) if arguments[name] is not None]
        for place, name in enumerate(names):
            like = arguments[name]
            if isinstance(like, torch.Tensor):
                address = ctypes.cast(parameters[place], ctypes.POINTER(ctypes.c_uint64))[0]
                memory = (ctypes.c_char * like.nbytes).from_address(address)
                arguments[name] = torch.frombuffer(memory, dtype=like.dtype).view(like.shape)
            else:
                arguments[name] = ctypes.cast(parameters[place], ctypes.POINTER(ctypes.c_int32))[0]
        started.kernel[(grid[0],)](**arguments)
        self.launched += 1
        return 0

    def get_context(self, context: ctypes.POINTER(ctypes.c_void_p)) -> int:
        context[0] = self.context
        return 0

    def set_context(self, context: int) -> int:
        self.context = context
        return 0


@pytest.fixture
def driver(monkeypatch):
    if ON_GPU:
        pytest.skip("on a device its own driver starts the kernels")
    stand_in = Driver()
    monkeypatch.setattr(replay, "machine_code", stand_in.machine_code)
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in stand_in.functions]
    native_kernels().set_kept_dt(kept_dt)
    stand_in.context = CONTEXT
    native_kernels().replay_on(DEVICE, *addresses, lambda device: STREAM, stand_in.record)
    yield stand_in
    native_kernels().replay_on(None, 0, 0, 0, None, None)


def inputs(kernel, seed, *, dtype=torch.float32, rows=BATCH, index=False, dt=0.1, absent=()):
    """Arguments of a public function that require grad, all different from seed to seed."""
    generator = torch.Generator().manual_seed(seed)

    def random(*size):
        return torch.randn(size, generator=generator, dtype=torch.float64).to(DEVICE, dtype).requires_grad_()

    starts = [None if i in absent else random(rows, DOF) for i in range(kernel.operator.starts)]
    options = {"dt": dt}
    if index:
        options["start_index"] = torch.randint(0, rows, (BATCH,), generator=generator)
    return random(BATCH, HORIZON, DOF), starts, options


def both_ways(kernel, action, starts, options, upstream, backend=None):
    leaves = [action, *(start for start in starts if start is not None)]
    names = ("start_position", "start_velocity", "start_acceleration", "start_jerk")
    outputs = kernel.step(action, **dict(zip(names, starts, strict=False)), **options, backend=backend)
    there = [i for i in range(4) if upstream[i] is not None]
    gradients = torch.autograd.grad(
        [outputs[i] for i in there], leaves, [upstream[i] for i in there], materialize_grads=True, allow_unused=True
    )
    return [*(output.detach() for output in outputs), *gradients]


def assert_started_alone(driver, kernel, make, given=(0, 1, 2, 3), tolerance=None):
    """The second call of a kind goes past Python, with what is its own, and is right."""
    for seed in range(2):
        before = driver.recorded, driver.launched
        action, starts, options = make(seed)
        generator = torch.Generator().manual_seed(seed + 10)
        rows = kernel.output_horizon(HORIZON)
        upstream = [torch.randn(BATCH, rows, DOF, generator=generator).to(action.dtype) for _ in range(4)]
        upstream = [gradient if i in given else None for i, gradient in enumerate(upstream)]
        got = both_ways(kernel, action, starts, options, upstream)
        wide = [None if x is None else x.detach().double().requires_grad_() for x in (action, *starts)]
        cotangents = [None if gradient is None else gradient.double() for gradient in upstream]
        wanted = both_ways(kernel, wide[0], wide[1:], options, cotangents, "reference")
        for actual, right in zip(got, wanted, strict=True):
            assert actual.dtype == action.dtype
            error = float((actual.double() - right).norm())
            assert error <= (tolerance or TOLERANCE[action.dtype]) * max(float(right.norm()), 1e-3)
        if seed == 0:
            assert driver.recorded > before[0]
        else:
            assert driver.recorded == before[0]
            assert driver.launched >= before[1] + 2


@pytest.mark.parametrize("name", [name for name in MAPS if not name.startswith("bspline")])
def test_every_map_is_started_alone_both_ways(name, driver):
    kernel = MAPS[name]
    assert_started_alone(driver, kernel, functools.partial(inputs, kernel))
    assert native_kernels().replay_plans() == 2


@pytest.mark.parametrize(
    ("name", "given", "options"),
    [
        ("clique", (0,), {"rows": 1}),
        ("clique", (1, 3), {"rows": POOL, "index": True, "dt": torch.linspace(0.1, 0.2, HORIZON)}),
        ("velocity", (3,), {"absent": (1,), "dt": torch.tensor(0.2)}),
        ("acceleration_semi_implicit_euler", (0, 1, 2, 3), {"dtype": torch.float64, "rows": 1, "absent": (1, 2)}),
        ("jerk", (0, 2), {"rows": POOL, "index": True, "dtype": torch.float64}),
        ("clique_central", (2, 3), {"rows": POOL, "index": True, "dt": torch.full((BATCH, 1), 0.3)}),
        ("clique", (0, 1), {"dtype": torch.float16, "dt": 1.0}),
    ],
)
def test_presence_of_inputs_is_part_of_the_key_of_a_recording(name, given, options, driver):
    kernel = MAPS[name]
    assert_started_alone(driver, kernel, functools.partial(inputs, kernel, **options), given)


def test_other_shapes_dtypes_and_absences_are_recorded_anew(driver):
    kernel = MAPS["velocity"]
    kinds = [{}, {"rows": 1}, {"dtype": torch.float64}, {"absent": (2,)}, {"dt": torch.full((HORIZON,), 0.1)}]
    for options in kinds:
        assert_started_alone(driver, kernel, functools.partial(inputs, kernel, **options))
    assert native_kernels().replay_plans() == 2 * len(kinds)


def test_what_torch_sorts_is_done_in_python_every_time(driver, monkeypatch):
    monkeypatch.setattr(start_gradients, "MOST_SCANNED", 0)
    kernel = MAPS["velocity"]
    for seed in range(3):
        action, starts, options = inputs(kernel, seed, dtype=torch.float64, rows=POOL, index=True)
        upstream = [torch.ones(BATCH, HORIZON, DOF, dtype=torch.float64)] * 4
        got = both_ways(kernel, action, starts, options, upstream)
        wanted = both_ways(kernel, action, starts, options, upstream, "reference")
        torch.testing.assert_close(got, wanted)
    assert driver.recorded == 1 + 3  # the forward pass once, the transpose each time


def test_a_thread_without_a_context_gets_that_of_the_first_call(driver):
    kernel = MAPS["velocity"]
    make = functools.partial(inputs, kernel)
    both_ways(kernel, *make(0), [torch.ones(BATCH, HORIZON, DOF)] * 4)
    driver.context = None
    both_ways(kernel, *make(1), [torch.ones(BATCH, HORIZON, DOF)] * 4)
    assert driver.context == CONTEXT


def test_an_error_of_the_driver_is_raised_with_its_number(driver):
    kernel = MAPS["velocity"]
    action, starts, options = inputs(kernel, 0)
    upstream = [torch.ones(BATCH, HORIZON, DOF)] * 4
    torch.autograd.grad(kernel.step(action, *starts, **options), action, upstream)
    outputs = kernel.step(action, *starts, **options)
    driver.error = 719
    with pytest.raises(RuntimeError, match="cuLaunchKernel failed with the error 719"):
        torch.autograd.grad(outputs, action, upstream)


def test_transforms_and_second_derivatives_go_the_general_way_and_are_right(driver):
    action, start = torch.randn(1, 3, 1, dtype=torch.float64), torch.randn(1, 1, dtype=torch.float64)

    def cost(action, backend=None):
        return MAPS["jerk"].step(action, start, dt=0.5, backend=backend).position.pow(3).sum()

    wanted = torch.func.hessian(lambda action: cost(action, "reference"))(action)
    torch.testing.assert_close(torch.func.hessian(cost)(action), wanted)
    assert not driver.launched
    torch.testing.assert_close(torch.autograd.functional.hessian(cost, action), wanted)


def load(driver, monkeypatch):
    """The stand-in where libcuda is looked for."""
    names = ("cuLaunchKernel", "cuCtxGetCurrent", "cuCtxSetCurrent")
    library = SimpleNamespace(**dict(zip(names, driver.functions, strict=True)))
    monkeypatch.setattr(replay.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: STREAM, raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    native_kernels().replay_on(None, 0, 0, 0, None, None)


def test_it_is_tried_in_the_middle_of_a_call_below_autograd_and_then_used(driver, monkeypatch):
    load(driver, monkeypatch)
    with torch.no_grad(), torch._C._AutoDispatchBelowAutograd():
        assert replay._enable(torch.device(DEVICE)) is None
    assert driver.launched == 2 * 3  # outputs, gradients, and the sum of the start row
    assert native_kernels().replay_plans() == 2


def test_with_a_driver_that_computes_wrong_results_calls_stay_in_python(driver, monkeypatch):
    functions = driver.functions
    driver.functions = (LAUNCH(lambda *arguments: 0), *functions[1:])
    load(driver, monkeypatch)
    assert replay._enable(torch.device(DEVICE)) == "a step gave other results than from Python"
    assert native_kernels().replay_plans() == 0
    driver.functions = (LAUNCH(lambda *arguments: 700), *functions[1:])
    load(driver, monkeypatch)
    assert "the extension leaves it to Python" in replay._enable(torch.device(DEVICE))


def test_it_can_be_switched_off_and_says_where_there_is_no_driver(driver, monkeypatch):
    native_kernels().replay_on(None, 0, 0, 0, None, None)
    assert "libcuda.so.1" in replay._enable(torch.device(DEVICE))
    monkeypatch.setenv("TRAJ_INTEGRATOR_REPLAY", "0")
    assert "TRAJ_INTEGRATOR_REPLAY" in replay._enable(torch.device(DEVICE))


def test_what_goes_wrong_in_python_is_raised_as_it_is(driver):
    def record(*arguments):
        raise LookupError("no such kernel")

    native_kernels().replay_on(DEVICE, 0, 0, 0, lambda device: STREAM, record)
    with pytest.raises(LookupError, match="no such kernel"):
        MAPS["velocity"].step(torch.ones(1, 3, 1), torch.ones(1, 1), dt=0.1)


@pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")
@pytest.mark.parametrize("name", [name for name in MAPS if not name.startswith("bspline")])
def test_a_device_is_given_the_same_by_the_extension_as_from_python_also_while_it_captures(name):
    assert replay.enable(torch.device("cuda", torch.cuda.current_device())) is None
    kernel = MAPS[name]
    upstream = [torch.ones(BATCH, kernel.output_horizon(HORIZON), DOF, device=DEVICE)] * 4
    for seed in range(3):
        given = (*inputs(kernel, seed), upstream)
        for got, wanted in zip(both_ways(kernel, *given), both_ways(kernel, *given, "triton"), strict=True):
            assert torch.equal(got, wanted)
    action, starts, options = inputs(kernel, 3)
    plans, graph = native_kernels().replay_plans(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.no_grad(), torch.cuda.graph(graph):
        captured = kernel.step(action, *starts, **options)
    graph.replay()
    for got, wanted in zip(captured, kernel.step(action, *starts, **options, backend="triton"), strict=True):
        assert torch.equal(got, wanted.detach())
    assert native_kernels().replay_plans() == plans

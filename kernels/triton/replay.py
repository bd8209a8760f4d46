"""Launches that C++ repeats by itself: eager calls of the public functions without Python code in between.

A call of the public functions with CUDA tensors goes into the C++ extension, as on the CPU. For the first call of a
kind (shapes, dtypes, which arguments are given and which results are wanted) the extension calls back here: `record`
lets the launchers do the work, and describes what they launched: machine code, programs, and which tensor or number
each argument is. The extension launches every further call through the CUDA driver, with the same arguments on other
memory. Calls that launch something other than Triton kernels (the sort of a large start pool) are computed here every
time.

TRAJ_INTEGRATOR_REPLAY=0 switches it off.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import importlib
import inspect
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from ..fast_path import fast_step, native_kernels, numbered_map
from ..types import Trajectory
from ..validation import kept_dt
from .launch import Started, recorded

Argument = tuple[int, int]
"""Source, and its value: the index of a tensor, or a number."""
Launch = tuple[int, int, int, int, list[Argument]]
"""Function of the driver, programs, threads of each, bytes of shared memory, arguments."""
Plan = tuple[list[int], list[Launch]]
"""Bytes of temporary tensors, and launches."""

_FORWARD_INPUTS = {f"p_{name}": i for i, name in enumerate(("action", "p0", "v0", "a0", "j0", "idx", "dt"))}
_VJP_INPUTS = {
    **{f"p_grad_{name}": i for i, name in enumerate(("position", "velocity", "acceleration", "jerk"))},
    "p_idx": 4,
    "p_dt": 5,
}
# Computed by torch from the index: their contents differ from call to call.
_MADE_BY_TORCH = ("p_order", "p_offset")
_INT32 = 1 << 31


class Source(enum.IntEnum):
    """The kinds of kernel arguments; the C++ extension uses the same numbers."""

    INPUT = 0
    RESULT = 1
    TEMPORARY = 2
    INT32 = 3
    INT64 = 4


@functools.cache
def enable(device: torch.device) -> str | None:
    """Let the extension launch kernels on such devices by itself; return the reason if it cannot, else None.

    Must not be called while a graph is captured: it runs a step on `device` and compares the results.
    """
    obstacle = _enable(device)
    if obstacle is not None:
        logging.getLogger(__package__).info("CUDA kernels are launched from Python, which takes longer: %s", obstacle)
    return obstacle


def _enable(device: torch.device) -> str | None:
    native = native_kernels()
    if os.environ.get("TRAJ_INTEGRATOR_REPLAY") == "0":
        return "TRAJ_INTEGRATOR_REPLAY is 0"
    if native is None or native.replay_on is None:
        return "there is no C++ extension, or one built from older sources"
    if torch.version.hip:
        return "this is a torch for AMD"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        functions = (driver.cuLaunchKernel, driver.cuCtxGetCurrent, driver.cuCtxSetCurrent)
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
        current_stream = torch._C._cuda_getCurrentRawStream
    except (OSError, AttributeError) as error:
        return str(error)
    native.set_kept_dt(_kept_dt_outside_of_captures)
    native.replay_on(device.type, *addresses, current_stream, record)
    # In a thread of its own, because the caller is in the middle of a call, below autograd.
    with ThreadPoolExecutor(1) as thread:
        obstacle = thread.submit(_trial, device).result()
    if obstacle is not None:
        native.replay_on(None, 0, 0, 0, None, None)
    return obstacle


def record(
    number: int,
    is_vjp: bool,
    truncate: bool,
    action_horizon: int,
    inputs: Sequence[Tensor | None],
    results: Sequence[Tensor | None],
) -> Plan | None:
    """Compute a call with the launchers, into `results`; return a plan to repeat it, None if that is impossible.

    Args:
        number: of the map in the extension.
        is_vjp: whether it is the vjp.
        truncate: `truncate_terminal_gradient`.
        action_horizon: of the vjp.
        inputs: contiguous action, four start rows, index and dt; or four upstream gradients, index and dt.
        results: four outputs; or the gradients of action and start rows, None where not wanted.

    """
    operator, parts = numbered_map(number)
    options = [truncate] if operator.truncates else parts
    scheme = operator.scheme((*options, None), vjp=is_vjp)
    module = importlib.import_module(f".{operator.name}", __package__)
    with recorded() as started:
        if is_vjp:
            *upstream, index, dt = inputs
            action, *starts = results[: 1 + operator.starts]
            batch = next(gradient.shape[0] for gradient in upstream if gradient is not None)
            getattr(module, f"{operator.name}_vjp")(
                *upstream,
                index,
                dt,
                start_rows=next((rows.shape[0] for rows in starts if rows is not None), batch),
                action_horizon=action_horizon,
                needs=[result is not None for result in (action, *starts)],
                out=action,
                start_out=starts,
                **scheme,
            )
        else:
            action, *start, index, dt = inputs
            launch = getattr(module, f"{operator.name}_forward")
            launch(action, *start[: operator.starts], index, dt, out=results, **scheme)
    return _plan(started, _VJP_INPUTS if is_vjp else _FORWARD_INPUTS, results)


def machine_code(started: Started) -> tuple[int, int, int] | None:
    """Driver function, threads and shared memory of a launched kernel; None if it needs more than a plain launch."""
    compiled = started.compiled
    metadata = compiled.metadata
    special = ("launch_cooperative_grid", "launch_pdl", "global_scratch_size", "profile_scratch_size")
    if getattr(metadata, "num_ctas", 1) != 1 or any(getattr(metadata, name, 0) for name in special):
        return None
    if not isinstance(compiled.function, int):
        return None
    return compiled.function, 32 * metadata.num_warps, metadata.shared


def _plan(started: Sequence[Started], places: Mapping[str, int], results: Sequence[Tensor | None]) -> Plan | None:
    temporaries: list[Tensor] = []
    launches: list[Launch] = []
    for launch in started:
        code = machine_code(launch)
        if code is None:
            return None
        function, threads, shared = code
        arguments = []
        for name in _runtime_parameters(launch.kernel):
            value = launch.arguments[name]
            if value is None:
                continue
            argument = _argument(name, value, places, results, temporaries)
            if argument is None:
                return None
            arguments.append(argument)
        launches.append((function, launch.programs, threads, shared, arguments))
    return [tensor.nbytes for tensor in temporaries], launches


def _argument(
    name: str,
    value: Tensor | int,
    places: Mapping[str, int],
    results: Sequence[Tensor | None],
    temporaries: list[Tensor],
) -> Argument | None:
    if not isinstance(value, Tensor):
        return (Source.INT32 if abs(value) < _INT32 else Source.INT64), value
    if name in _MADE_BY_TORCH:
        return None
    if name in places:
        return Source.INPUT, places[name]
    # All other tensors were allocated for this call, and no two of them begin at one address.
    address = value.data_ptr()
    for place, result in enumerate(results):
        if result is not None and result.data_ptr() == address:
            return Source.RESULT, place
    for place, tensor in enumerate(temporaries):
        if tensor.data_ptr() == address:
            return Source.TEMPORARY, place
    temporaries.append(value)
    return Source.TEMPORARY, len(temporaries) - 1


@functools.cache
def _runtime_parameters(kernel: object) -> tuple[str, ...]:
    """Parameters of a kernel that its machine code takes, unless they are None."""
    parameters = inspect.signature(kernel.fn).parameters.values()
    return tuple(parameter.name for parameter in parameters if "constexpr" not in str(parameter.annotation))


def _trial(device: torch.device) -> str | None:
    """Return why the extension's step differs from that of the launchers; None if forward and backward agree."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    generator = torch.Generator().manual_seed(0)
    try:
        for _ in range(3):  # the first call is recorded, the others are launched by the extension
            action, start = (torch.randn(size, generator=generator).to(device) for size in ((3, 8, 2), (1, 2)))
            found, expected = (_both_ways(step, action, start) for step in (_by_extension, _from_python))
            if not all(map(torch.equal, found, expected)):
                return "a step gave other results than from Python"
    except RuntimeError as error:
        return f"a step failed: {str(error).splitlines()[0]}"
    return None


def _both_ways(step: Callable[[Tensor, Tensor], Trajectory], action: Tensor, start: Tensor) -> list[Tensor]:
    inputs = action.detach().requires_grad_(), start.detach().requires_grad_()
    outputs = step(*inputs)
    gradients = torch.autograd.grad([output.square().sum() for output in outputs], inputs)
    return [*(output.detach() for output in outputs), *gradients]


def _by_extension(action: Tensor, start: Tensor) -> Trajectory:
    from ..maps.velocity import VELOCITY

    trajectory = fast_step(VELOCITY, action, (start, None, None), 0.1, None, "step", ())
    if trajectory is None:
        raise RuntimeError("the extension leaves it to Python")
    return trajectory


def _from_python(action: Tensor, start: Tensor) -> Trajectory:
    from ..maps.velocity import VELOCITY

    return VELOCITY.step(action, (start, None, None), 0.1, None, "step", "triton")


def _kept_dt_outside_of_captures(seconds: float, device: torch.device) -> Tensor | None:
    """Return a permanent step length on a device; None during a capture, because creating it waits for the device."""
    return None if torch.cuda.is_current_stream_capturing() else kept_dt(seconds, device)

"""A stand-in for CUDA devices: tensors claim to be on one, and what would go wrong on a device raises an error.

Operations on the device are executed at once, on the CPU, but the host sees their results as late as on a device:
until it has waited for the stream, memory that a copy writes to holds NaN, and memory that a copy reads must not
change. While a graph is captured nothing is executed; a replay executes what was captured, with the same memory.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import NamedTuple
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only

from traj_integrator_ros.engine import staged
from traj_integrator_ros.kernels import backends, operator
from traj_integrator_ros.kernels.triton import probe

_ATEN = torch.ops.aten
_WAITING = (_ATEN._local_scalar_dense.default, _ATEN.equal.default, _ATEN.nonzero.default)


class DeviceFault(Exception):
    """An operation that would give wrong numbers, or no graph, on a device."""


@contextmanager
def devices_of_loops(count: int = 1) -> Iterator[FakeCuda]:
    """Yield devices whose kernels are the C++ loops of the CPU."""
    cuda = FakeCuda(count)

    def launcher(name: str, direction: str, backend: str | None, device_type: str) -> Callable:
        loops = backends_launcher(name, direction, None if device_type == "cuda" else backend, "cpu")
        if device_type != "cuda":
            return loops

        def launch(inputs: tuple, *, out: tuple | None = None, **scheme: object) -> tuple:
            tensors = [one for one in tree_flatten((inputs, out))[0] if isinstance(one, Tensor)]
            if not all(isinstance(one, DeviceTensor) for one in tensors):
                raise DeviceFault(f"{name}: an argument is not on a device")
            device = tensors[0].device
            given, into = tree_map_only(DeviceTensor, lambda one: one.inner, (inputs, out and tuple(out)))
            if out is None:
                into = tree_map_only(Tensor, torch.empty_like, loops(given, **scheme))

            def compute() -> None:
                for target, result in zip(into, loops(given, **scheme), strict=True):
                    if target is not None:
                        target.copy_(result)

            cuda.enqueue(compute)
            return out or tree_map_only(Tensor, lambda one: DeviceTensor(one, cuda, device), into)

        return launch

    backends_launcher = backends.launcher
    with cuda.installed(), mock.patch.object(staged, "launcher", launcher):
        with mock.patch.object(operator, "launcher", launcher):
            yield cuda


class DeviceTensor(Tensor):
    """A tensor that claims to be on a device, with its numbers on the CPU."""

    inner: Tensor
    cuda: FakeCuda
    place: torch.device

    @staticmethod
    def __new__(cls, inner: Tensor, cuda: FakeCuda, device: torch.device) -> DeviceTensor:
        """Make a tensor on a device for numbers on the CPU."""
        like = torch.empty_strided(inner.shape, inner.stride(), dtype=inner.dtype, device="meta")
        made = Tensor._make_subclass(cls, like, False)
        made.inner, made.cuda, made.place = inner, cuda, device
        return made

    @property
    def device(self) -> torch.device:
        """The device. Torch itself treats the tensor as one without memory, so that it asks no driver."""
        return self.place

    is_cuda = True

    def data_ptr(self) -> int:
        """The address of the numbers."""
        return self.inner.data_ptr()

    def __repr__(self, **options: object) -> str:
        return f"DeviceTensor({self.device}, {self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        (first, *_) = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, DeviceTensor)]
        return first.cuda.do(func, args, kwargs or {})


class _Pending(NamedTuple):
    """A copy that the host has not waited for."""

    host: Tensor
    value: Tensor
    """The tensor that it writes there, or has read from there."""
    writes: bool


class FakeCuda(TorchDispatchMode):
    """A number of devices; each thread that uses them does so within `entered`."""

    def __init__(self, count: int = 1) -> None:
        super().__init__()
        self.count = count
        self.copied_in = self.copied_out = self.launches = 0
        """Bytes between host and device, and launches of kernels."""
        self._pinned: set[int] = set()
        self._lock = threading.RLock()
        self._of_thread = threading.local()

    # What threads see

    @property
    def _here(self) -> SimpleNamespace:
        if not hasattr(self._of_thread, "state"):
            self._of_thread.state = SimpleNamespace(pending=[], captured=None, device=0)
        return self._of_thread.state

    @contextmanager
    def entered(self) -> Iterator[FakeCuda]:
        """Intercept what this thread does."""
        with self:
            yield self

    @contextmanager
    def installed(self) -> Iterator[FakeCuda]:
        """Replace `torch.cuda` and the launch of kernels in all threads."""
        cuda = {
            "is_available": lambda: True, "device_count": lambda: self.count, "_lazy_init": lambda: None,
            "current_device": lambda: self._here.device, "Stream": lambda *_, **__: _Stream(self),
            "current_stream": lambda *_: _Stream(self), "synchronize": lambda *_: self.synchronize(),
            "stream": lambda *_: contextlib.nullcontext(), "empty_cache": lambda: None, "device": self._on,
            "is_current_stream_capturing": lambda: self._here.captured is not None, "CUDAGraph": lambda: _Graph(self),
            "graph": self._capturing,
        }  # fmt: skip
        with contextlib.ExitStack() as stack:
            for name, stand_in in cuda.items():
                stack.enter_context(mock.patch.object(torch.cuda, name, stand_in))
            stack.enter_context(mock.patch.object(torch, "Generator", _Generator))
            # Builds of torch for CUDA would ask the driver for it in each step of an optimizer.
            stack.enter_context(mock.patch.object(torch.accelerator, "is_available", lambda: False))
            stack.enter_context(mock.patch.object(probe, "probe", lambda device: None))
            for cached in (backends.launcher, backends._describe):
                cached.cache_clear()
                stack.callback(cached.cache_clear)
            yield stack.enter_context(self.entered())

    def synchronize(self) -> None:
        """Wait for all copies: the host may now read what they wrote, and change what they read."""
        here = self._here
        if here.captured is not None:
            raise DeviceFault("waits for the device while a graph is captured")
        pending, here.pending = here.pending, []
        with _disable_current_modes():
            for one in pending:
                if one.writes:
                    one.host.copy_(one.value)
                elif not torch.equal(_bits(one.host), _bits(one.value)):
                    raise DeviceFault("the host wrote to memory that a copy still read")

    # Operations

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.do(func, args, kwargs or {})

    def do(self, func, args: tuple, kwargs: dict) -> object:
        """Do an operation of torch."""
        with self._lock:
            return self._do(func, args, kwargs)

    def _do(self, func, args: tuple, kwargs: dict) -> object:
        tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
        on_device = [one for one in tensors if isinstance(one, DeviceTensor)]
        if on_device and any(one.is_meta for one in tensors if not isinstance(one, DeviceTensor)):
            raise NotImplementedError(f"{func}: torch made numbers for the device where there is no memory")
        if func.namespace == "traj_integrator":
            return self._custom(func, args)
        if func is _ATEN.copy_.default:
            return self._copy(*args, **kwargs)
        target = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
        if func is _ATEN.scalar_tensor.default and target == torch.device("meta"):
            # `tensor[0] = 1`: torch makes the number where it takes the tensor's memory to be.
            target = kwargs["device"] = torch.device("cuda")
        if func is _ATEN._to_copy.default and target is not None and target != args[0].device:
            return self._moved(args[0], target, kwargs)
        if not on_device:
            self._expect_settled(tensors)
        if kwargs.get("pin_memory"):
            return self._pin(func, args, kwargs)
        device = target if target is not None and target.type == "cuda" else None
        if not on_device and device is None:
            return func(*args, **kwargs)
        return self._on_device(func, args, kwargs, on_device, device)

    def _on_device(self, func, args: tuple, kwargs: dict, tensors: list[DeviceTensor], device: object) -> object:
        places = {one.device for one in tensors}
        if len(places) > 1:
            raise DeviceFault(f"{func}: tensors on {sorted(map(str, places))}")
        device = self._whole(device or next(iter(places)))
        if func in _WAITING and self._here.captured is not None:
            raise DeviceFault(f"{func} waits for the device while a graph is captured")
        if func in _WAITING:
            self.synchronize()
        given, options = tree_map_only(DeviceTensor, lambda one: one.inner, (args, kwargs))
        if options.get("device") is not None:
            options = {**options, "device": torch.device("cpu")}
        is_in_place = func._schema.name.endswith("_") or "out" in options
        if self._here.captured is not None and is_in_place:
            self._here.captured.append(lambda: func(*given, **options))
            return args[0] if "out" not in options else kwargs["out"]
        found = func(*given, **options)
        if self._here.captured is not None:
            self._here.captured.append(lambda: _repeat(func, given, options, found))
        wrapped = tree_map_only(Tensor, lambda one: DeviceTensor(one, self, device), found)
        return return_and_correct_aliasing(func, args, kwargs, wrapped) if tensors else wrapped

    def _custom(self, func, args: tuple) -> object:
        """Execute one of this project's operators, whose backend launches kernels."""
        name, direction = func._schema.name.split("::")[1].rsplit("_", 1)
        with self.entered():
            return getattr(operator._REGISTERED[name], f"_run_{direction}")(*args)

    def _copy(self, target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        """Copy between host and device, or on one side."""
        to_device, from_device = isinstance(target, DeviceTensor), isinstance(source, DeviceTensor)
        inner = [one.inner if isinstance(one, DeviceTensor) else one for one in (target, source)]
        if to_device and from_device:
            return self._on_device(_ATEN.copy_.default, (target, source), {}, [target, source], None)
        if not to_device and not from_device:
            self._expect_settled(inner)
            return target.copy_(source)
        host = source if to_device else target
        is_late = non_blocking and self._is_pinned(host)
        here = self._here
        if here.captured is not None and not is_late:
            raise DeviceFault("copies to or from memory that is not pinned, or waits, while a graph is captured")

        def run() -> None:
            if to_device:
                self.copied_in += source.nbytes
                inner[0].copy_(inner[1])
                here.pending.append(_Pending(source, source.clone(), writes=False))
                return
            self.copied_out += target.nbytes
            here.pending.append(_Pending(target, inner[1].clone(), writes=True))
            target.fill_(float("nan") if target.dtype.is_floating_point else 77)

        if here.captured is not None:
            here.captured.append(run)
            return target
        run()
        if not is_late:
            self.synchronize()
        return target

    def _moved(self, source: Tensor, device: torch.device, options: dict) -> Tensor:
        """Return a new tensor on the other side; a copy to the host waits until it is complete."""
        dtype = options.get("dtype") or source.dtype
        if device.type == "cuda":
            made = DeviceTensor(torch.empty(source.shape, dtype=source.dtype), self, self._whole(device))
            return self._copy(made, source).to(dtype)
        made = torch.empty(source.shape, dtype=source.dtype)
        return self._copy(made, source).to(dtype)

    def _pin(self, func, args: tuple, kwargs: dict) -> Tensor:
        if self._here.captured is not None:
            raise DeviceFault("allocates pinned memory while a graph is captured")
        made = func(*args, **{**kwargs, "pin_memory": False})
        self._pinned.add(made.untyped_storage().data_ptr())
        return made

    def _is_pinned(self, host: Tensor) -> bool:
        return host.untyped_storage().data_ptr() in self._pinned

    def _expect_settled(self, tensors: list[Tensor]) -> None:
        """Expect that no copy still writes to memory of the host."""
        for one in self._here.pending if tensors else ():
            if one.writes and any(_overlap(one.host, other) for other in tensors):
                raise DeviceFault("the host uses memory that a copy still writes to")

    def _whole(self, device: torch.device) -> torch.device:
        return torch.device("cuda", self._here.device if device.index is None else device.index)

    # Graphs and kernels

    @contextmanager
    def _on(self, device: object) -> Iterator[None]:
        here, before = self._here, self._here.device
        here.device = torch.device(device).index or 0
        try:
            yield
        finally:
            here.device = before

    @contextmanager
    def _capturing(self, graph: _Graph, **options: object) -> Iterator[None]:
        here = self._here
        if here.captured is not None:
            raise DeviceFault("captures a graph within a graph")
        here.captured = graph.work
        try:
            yield
        finally:
            here.captured = None

    def enqueue(self, kernel: Callable[[], object]) -> None:
        """Run a kernel, or capture it."""

        def run() -> None:
            self.launches += 1
            kernel()

        (run if self._here.captured is None else lambda: self._here.captured.append(run))()


class _Generator:
    """Generators of random numbers, which are those of the CPU for every device."""

    def __new__(cls, device: object = "cpu", made: type = torch.Generator) -> torch.Generator:
        """Make a generator of the CPU."""
        return made()


class _Stream:
    """The one stream of a thread."""

    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda = cuda

    def synchronize(self) -> None:
        self._cuda.synchronize()

    def wait_stream(self, other: _Stream) -> None:
        """Do nothing, since work is executed in order."""


class _Graph:
    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda, self.work = cuda, []

    def replay(self) -> None:
        with self._cuda._lock, _disable_current_modes():
            for run in self.work:
                run()


def _repeat(func, given: tuple, options: dict, before: object) -> None:
    """Do an operation again, into the memory of its first result."""
    for result, kept in zip(tree_flatten(func(*given, **options))[0], tree_flatten(before)[0], strict=True):
        if isinstance(kept, Tensor) and result.data_ptr() != kept.data_ptr():
            kept.copy_(result)


def _overlap(x: Tensor, y: Tensor) -> bool:
    begin, other = x.data_ptr(), y.data_ptr()
    return begin < other + y.nbytes and other < begin + x.nbytes


def _bits(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)

"""A stand-in for CUDA devices: tensors claim to be on one, with their numbers on the CPU, and copies are counted.

What mixes tensors of two devices, or of a device and the host, raises an error, as on devices.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only

from traj_integrator_ros.engine import device as engine_device
from traj_integrator_ros.kernels import backends, operator
from traj_integrator_ros.kernels.triton import probe

_ATEN = torch.ops.aten


class DeviceFault(Exception):
    """An operation that no device does."""


@contextmanager
def devices_of_loops(count: int = 1) -> Iterator[FakeCuda]:
    """Yield devices whose kernels are the C++ loops of the CPU."""
    cuda = FakeCuda(count)

    def launcher(name: str, direction: str, backend: str | None, device_type: str) -> Callable:
        loops = backends_launcher(name, direction, None if device_type == "cuda" else backend, "cpu")
        if device_type != "cuda":
            return loops

        def launch(inputs: tuple, **scheme: object) -> tuple:
            tensors = [one for one in tree_flatten(inputs)[0] if isinstance(one, Tensor)]
            places = {one.device if isinstance(one, DeviceTensor) else "the host" for one in tensors}
            if len(places) > 1:
                raise DeviceFault(f"{name}: arguments on {sorted(map(str, places))}")
            cuda.launches += 1
            found = loops(tree_map_only(DeviceTensor, lambda one: one.inner, inputs), **scheme)
            return tree_map_only(Tensor, lambda one: DeviceTensor(one, cuda, tensors[0].device), found)

        return launch

    backends_launcher = backends.launcher
    with cuda.installed(), mock.patch.object(engine_device, "launcher", launcher):
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


class FakeCuda(TorchDispatchMode):
    """A number of devices; each thread that uses them does so within `with` this."""

    def __init__(self, count: int = 1) -> None:
        super().__init__()
        self.count = count
        self.copied_in = self.copied_out = self.launches = 0
        """Bytes between host and device, and launches of kernels."""

    @contextmanager
    def installed(self) -> Iterator[FakeCuda]:
        """Replace `torch.cuda` and the choice of kernels in all threads."""
        cuda = {
            "is_available": lambda: True, "device_count": lambda: self.count, "_lazy_init": lambda: None,
            "current_device": lambda: 0, "empty_cache": lambda: None, "is_current_stream_capturing": lambda: False,
        }  # fmt: skip
        with contextlib.ExitStack() as stack:
            for name, stand_in in cuda.items():
                stack.enter_context(mock.patch.object(torch.cuda, name, stand_in))
            stack.enter_context(mock.patch.object(probe, "probe", lambda device: None))
            for cached in (backends.launcher, backends._describe):
                cached.cache_clear()
                stack.callback(cached.cache_clear)
            yield stack.enter_context(self)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.do(func, args, kwargs or {})

    def do(self, func, args: tuple, kwargs: dict) -> object:
        """Do an operation of torch."""
        tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
        on_device = [one for one in tensors if isinstance(one, DeviceTensor)]
        if on_device and any(one.is_meta for one in tensors if not isinstance(one, DeviceTensor)):
            raise NotImplementedError(f"{func}: torch made numbers for the device where there is no memory")
        if func.namespace == "traj_integrator":
            name, direction = func._schema.name.split("::")[1].rsplit("_", 1)
            with self:
                return getattr(operator._REGISTERED[name], f"_run_{direction}")(*args)
        target = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
        if func is _ATEN.scalar_tensor.default and target == torch.device("meta"):
            # `tensor[0] = 1`: torch makes the number where it takes the tensor's memory to be.
            target = kwargs["device"] = torch.device("cuda")
        if func is _ATEN.copy_.default:
            return self._copy(*args[:2])
        if func is _ATEN._to_copy.default and target is not None and target != args[0].device:
            return self._moved(args[0], target, kwargs.get("dtype") or args[0].dtype)
        device = target if target is not None and target.type == "cuda" else None
        if not on_device and device is None:
            return func(*args, **kwargs)
        return self._on_device(func, args, kwargs, on_device, device)

    def _on_device(self, func, args: tuple, kwargs: dict, tensors: list[DeviceTensor], device: object) -> object:
        places = {one.device for one in tensors}
        if len(places) > 1:
            raise DeviceFault(f"{func}: tensors on {sorted(map(str, places))}")
        device = _whole(device or next(iter(places)))
        given, options = tree_map_only(DeviceTensor, lambda one: one.inner, (args, kwargs))
        if options.get("device") is not None:
            options = {**options, "device": torch.device("cpu")}
        found = func(*given, **options)
        wrapped = tree_map_only(Tensor, lambda one: DeviceTensor(one, self, device), found)
        return return_and_correct_aliasing(func, args, kwargs, wrapped) if tensors else wrapped

    def _copy(self, target: Tensor, source: Tensor) -> Tensor:
        """Copy between host and device, or on one side."""
        inner = [one.inner if isinstance(one, DeviceTensor) else one for one in (target, source)]
        if isinstance(target, DeviceTensor) and not isinstance(source, DeviceTensor):
            self.copied_in += source.nbytes
        if isinstance(source, DeviceTensor) and not isinstance(target, DeviceTensor):
            self.copied_out += target.nbytes
        inner[0].copy_(inner[1])
        return target

    def _moved(self, source: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Return a new tensor on the other side."""
        made = torch.empty(source.shape, dtype=source.dtype)
        if device.type == "cuda":
            made = DeviceTensor(made, self, _whole(device))
        return self._copy(made, source).to(dtype)


def _whole(device: torch.device) -> torch.device:
    return torch.device("cuda", device.index or 0)

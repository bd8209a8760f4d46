"""The compiled part, or an error that says how to build it."""

from __future__ import annotations

import importlib
from types import ModuleType

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.autograd import forward_ad

from ..backends import BackendUnavailable


def native() -> ModuleType:
    """Return the C++ extension.

    Raises:
        BackendUnavailable: the extension is not built, and nothing can replace it.

    """
    try:
        return importlib.import_module(".._native", __name__)
    except ImportError as error:
        raise BackendUnavailable(
            f"retiming needs its C++ extension, which is not built for this Python ({error}); to build it, install "
            "the package again from its sources: pip install -v --no-deps --force-reinstall --no-cache-dir SOURCES "
            "(it takes g++ and Python.h)"
        ) from None


def refuse_transformed(**values: object) -> None:
    """Refuse tensors whose numbers C++ cannot read, or whose tangents it would lose.

    Raises:
        NotImplementedError: a `torch.func` transform is active, or a tensor has a tangent, is sparse, or has no values.

    """
    transformed = torch._C._are_functorch_transforms_active()  # Tensors that are made in it belong to it, too.
    for name, value in values.items():
        if not isinstance(value, Tensor):
            continue
        if transformed:
            got = "one inside of a torch.func transform (vmap, grad, jvp, vjp); there are batches and Tensor.backward"
        elif value.is_meta or isinstance(value, FakeTensor):
            got = "one without values (meta or fake)"
        elif value.layout != torch.strided or value.is_nested:
            got = "a sparse or nested one"
        elif forward_ad._current_level >= 0 and forward_ad.unpack_dual(value).tangent is not None:
            got = "one with a tangent of forward mode; there is Tensor.backward"
        else:
            continue
        raise NotImplementedError(f"{name}: expected a plain tensor, got {got}")

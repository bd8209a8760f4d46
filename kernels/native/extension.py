"""The C++ extension, or an ImportError that says why there is none."""

from __future__ import annotations

import importlib

import torch
from torch.autograd import forward_ad

try:
    extension = importlib.import_module("._loops", __package__)
except ImportError as error:
    raise ImportError(
        f"the C++ extension is not built for this Python ({error}); to build it, install the package again from its "
        "sources: pip install -v --no-deps --force-reinstall --no-cache-dir SOURCES (it takes g++ and Python.h, and "
        "its output says what is missing)"
    ) from None

# Functions that say whether transforms, modes or tracing are active, which have to see torch's operators.
_MODES = ("_are_functorch_transforms_active", "_len_torch_dispatch_stack", "_len_torch_function_stack", "_is_tracing")

# All that the extension knows of torch: it links none of it, and one build works with every version.
extension.use(
    torch.Tensor,
    torch.nn.Parameter,
    torch.get_num_threads,
    torch._C._to_dlpack,
    torch._C._from_dlpack,
    torch.is_grad_enabled,
    forward_ad,
    tuple(getattr(torch._C, name) for name in _MODES),
    getattr(torch.Tensor, "__dlpack_c_exchange_api__", None),
)

UNFIT = (TypeError, ValueError, IndexError)
"""Error of the extension for arguments that do not fit; nothing has been written then."""

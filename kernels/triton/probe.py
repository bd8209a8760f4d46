"""Tests whether Triton can compile and run a kernel on a device, before the first call that depends on it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


def probe(device: torch.device) -> str | None:
    """Return why no kernel can run on a CUDA device; None if a test kernel ran.

    Possible reasons are the GPU (too old for this Triton, or too new), the C compiler that Triton builds its launchers
    with, and a cache folder that cannot be written. Must not be called while a graph is captured: it waits for the
    device.
    """
    try:
        target = torch.zeros(1, dtype=torch.int32, device=device)
        with torch.cuda.device(device):
            _store_one_kernel[(1,)](target, num_warps=1)
        if int(target.item()) != 1:
            return "a kernel ran and stored nothing"
    except Exception as error:  # any exception from a compiler, a linker, a driver or a file system is the reason
        name = torch.cuda.get_device_name(device)
        major, minor = torch.cuda.get_device_capability(device)
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return f"triton {triton.__version__} cannot run a kernel on {name} (sm_{major}{minor}): {first}"
    return None


@triton.jit
def _store_one_kernel(p_target):
    tl.store(p_target, 1)

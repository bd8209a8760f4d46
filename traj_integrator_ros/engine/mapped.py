"""Access of kernels to the host's memory, so that a small call copies nothing.

Page-locked memory has one address for host and device. A kernel that accesses it waits for one or two round trips over
the bus (1 to 2 us each on PCIe 4 or 5), while a copy in and a copy out take some 8 us each, mostly to be started. The
price is traffic: the device does not cache the host's memory, and differences read neighbouring rows again, so that a
vjp reads up to ten numbers for each action where a copy moves four. At 20 GB/s for reads of kernels and 25 GB/s for
copies, both ways take the same time at about 160 KB of inputs and results; the default is well below. `make gpu`
measures both for each batch.

A device on the host's chip (Jetson) has no memory of its own: a copy moves bytes within the same memory and gains
nothing, so that all but the largest calls do without.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

MOST_BYTES = 64 << 10
"""Most bytes of inputs and results that are not copied: 14 trajectories of 32 steps and 7 joints."""
MOST_BYTES_INTEGRATED = 32 << 20
"""The same on devices that share the host's memory."""


def most_mapped_bytes(device: torch.device) -> int:
    """Return the default of `IntegratorConfig.mapped_bytes`; on the CPU nothing has to be copied."""
    if device.type == "cpu":
        return sys.maxsize
    return MOST_BYTES_INTEGRATED if torch.cuda.get_device_properties(device).is_integrated else MOST_BYTES


def seen_by(device: torch.device, host: Tensor) -> Tensor | None:
    """Return the host's memory as a tensor of the device, without a copy; None if the device cannot access it.

    It can if the memory is contiguous and page-locked for this device.
    """
    if not host.is_contiguous():
        return None
    if device.type == "cpu":
        return host
    if not host.is_pinned():
        return None
    seen = torch.as_tensor(_Shown(host), device=device)
    return seen if seen.data_ptr() == host.data_ptr() else None  # of another device torch makes a copy


class _Shown:
    """Describes the host's memory as a device's, in the form that torch takes: numpy's own has the same fields."""

    def __init__(self, host: Tensor) -> None:
        self._host = host  # lives as long as what is made of this
        self.__cuda_array_interface__ = dict(host.numpy().__array_interface__)

"""Device and dtype of tensors as one value, which the helpers take as an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor


class TorchFactoryArguments(TypedDict):
    """Keyword arguments of torch's tensor factories."""

    device: torch.device
    dtype: torch.dtype


@dataclass(frozen=True)
class TensorDeviceType:
    """Device and dtype of tensors; a device given by name ("cuda:0") becomes a `torch.device`."""

    device: torch.device | str = "cpu"
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", torch.device(self.device))
        if not isinstance(self.dtype, torch.dtype):
            raise TypeError(f"dtype: expected a torch.dtype, got {self.dtype!r}")

    def as_torch_dict(self) -> TorchFactoryArguments:
        """Return the keyword arguments for torch's factories: `torch.zeros(3, **tensor_args.as_torch_dict())`."""
        return {"device": torch.device(self.device), "dtype": self.dtype}

    def to_device(self, data: Tensor | list | float) -> Tensor:
        """Return `data` (tensor, numpy array, list or number) as a tensor of this device and dtype."""
        return torch.as_tensor(data, device=self.device, dtype=self.dtype)

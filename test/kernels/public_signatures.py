"""Schemas of the operators and signatures of the public functions, as docs/compatibility.md promises to keep them.

`python test/kernels/public_signatures.py > test/kernels/public_signatures.txt` freezes them anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import torch

from traj_integrator_ros import kernels

LIBRARY = "traj_integrator::"


def public_signatures() -> Iterator[str]:
    """One line for each operator, then one for each function and class of the kernels' `__all__`."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if name.startswith(LIBRARY):
            yield str(getattr(torch.ops.traj_integrator, name.removeprefix(LIBRARY)).default._schema)
    for name in kernels.__all__:
        value = getattr(kernels, name)
        if inspect.isfunction(value) or hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__"):
            yield f"{name}({', '.join(_parameters(value))})"


def _parameters(value: object) -> Iterator[str]:
    """Names in order, `*` where keywords begin, `=...` where a default is: how one prints depends on the Python."""
    are_keywords = False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not are_keywords:
            are_keywords = True
            yield "*"
        yield parameter.name + ("" if parameter.default is parameter.empty else "=...")


if __name__ == "__main__":
    print(*public_signatures(), sep="\n")

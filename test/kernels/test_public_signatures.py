"""Names and arguments that programs, exported models and C++ policies use stay as docs/compatibility.md promises.

`python test/kernels/test_public_signatures.py > test/kernels/public_signatures.txt` freezes it anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import torch

from traj_integrator_ros import kernels
from traj_integrator_ros.kernels import integration_utils

LIBRARY = "traj_integrator::"


def public_signatures() -> Iterator[str]:
    """Schemas of the operators, then one line for each function and class of the kernels, and each of the drop-in."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if name.startswith(LIBRARY):
            yield str(getattr(torch.ops.traj_integrator, name.removeprefix(LIBRARY)).default._schema)
    for name in kernels.__all__:
        value = getattr(kernels, name)
        if inspect.isfunction(value) or hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__"):
            yield f"{name}({', '.join(_parameters(value))})"
    for name in sorted(integration_utils.__all__):
        value = getattr(integration_utils, name)
        yield f"integration_utils.{name}({', '.join(_parameters(getattr(value, 'apply', value)))})"


def _parameters(value: object) -> Iterator[str]:
    """Names in order, `*` before keywords, `=...` for a default: printed defaults depend on the Python."""
    are_keywords = False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not are_keywords:
            are_keywords = True
            yield "*"
        yield parameter.name + ("" if parameter.default is parameter.empty else "=...")


def test_operator_schemas_and_public_functions_are_those_that_were_frozen() -> None:
    """Whoever changes one raises the version as docs/compatibility.md says, and freezes them again."""
    frozen = Path(__file__).with_name("public_signatures.txt")
    assert list(public_signatures()) == frozen.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    print(*public_signatures(), sep="\n")

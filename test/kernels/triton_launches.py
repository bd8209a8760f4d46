"""Where the checks of the Triton kernels run, and the launches that they make there."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from launch_cases import Case, assert_close
from triton import language

DEVICE = os.environ.get("TRITON_CHECKS_DEVICE", "cpu")
ON_GPU = DEVICE != "cpu"


def _patch_once() -> None:
    """Keep the interpreter from looking through the whole language for every call of a function by a kernel.

    It replaces what the language is made of before each launch, and again before each such call, when nothing is left
    to replace: two thirds of the time of these checks.
    """
    from triton.runtime import interpreter

    patch = interpreter._patch_lang

    def patch_what_is_not(function: Callable) -> object:
        languages = [one for one in function.__globals__.values() if one is language or one is language.core]
        if languages and not any(language.core.is_builtin(one.load) for one in languages):
            return interpreter._LangPatchScope()  # of no changes
        return patch(function)

    interpreter._patch_lang = patch_what_is_not


if not ON_GPU:
    _patch_once()


def make_case(
    variant: str, batch: int, horizon: int, dof: int, dtype: torch.dtype = torch.float64, **options: object
) -> Case:
    """A launch on the device of the checks."""
    return Case(variant, batch, horizon, dof, dtype, device=DEVICE, **options)


def launch(case: Case, tile: object = None) -> list[torch.Tensor | None]:
    """Forward and transpose by the kernels."""
    return [*case.forward("triton", tile=tile), *case.vjp("triton", tile=tile)]


def assert_matches(case: Case, tolerance: float, tile: object = None) -> None:
    """Forward and transpose are those of the reference and its autograd."""
    wanted = [*case.expected_forward(), *case.expected_vjp()]
    for place, (got, want) in enumerate(zip(launch(case, tile), wanted, strict=True)):
        assert got is None or got.dtype == case.dtype
        assert_close(got, want, tolerance, place)

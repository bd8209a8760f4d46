"""Where the checks of the Triton kernels run, and the launches that they make there."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import torch
from launch_cases import Case, assert_close
from triton import language

DEVICE = os.environ.get("TRITON_CHECKS_DEVICE", "cpu")
ON_GPU = DEVICE != "cpu"


def _quicken() -> None:
    """Keep the interpreter from what takes most of the time of these checks and changes nothing.

    It replaces what the language is made of before each launch, and again before each call of a function by a kernel,
    when nothing is left to replace; and it computes whether integers overflow, for assertions that are off.
    """
    from triton.runtime import interpreter

    patch = interpreter._patch_lang

    def patch_what_is_not(function: Callable) -> object:
        languages = [one for one in function.__globals__.values() if one is language or one is language.core]
        if languages and not any(language.core.is_builtin(one.load) for one in languages):
            return interpreter._LangPatchScope()  # of no changes
        return patch(function)

    interpreter._patch_lang = patch_what_is_not
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


if not ON_GPU:
    _quicken()


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

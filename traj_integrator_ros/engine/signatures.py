"""Methods that take the same arguments, with their parameters written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def same_arguments_as(
    other: Callable[Parameters, object],
) -> Callable[[Callable[..., Result]], Callable[Parameters, Result]]:
    """Declare that a method has the parameters of another one, for `help`, `inspect` and type checkers."""

    def declared(method: Callable[..., Result]) -> Callable[Parameters, Result]:
        own = inspect.signature(method)
        method.__signature__ = inspect.signature(other).replace(return_annotation=own.return_annotation)
        return method

    return declared

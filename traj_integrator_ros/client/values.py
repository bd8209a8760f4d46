"""Converts values of numpy and torch to Python's own types, which fields of messages and parameters require."""

from __future__ import annotations

import numpy as np

MOST = 2**32 - 1
"""Largest number in most fields of messages."""
_LARGEST = 2.0**63
"""The largest integer of a parameter, plus 1."""


def whole(name: str, value: object, most: int = MOST) -> int:
    """Convert a whole number of any type, floats included. Raises ValueError for anything else."""
    try:
        found = int(value)  # type: ignore[call-overload]
        if found == value and 0 <= found <= most and not is_truth(value):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{name}: expected a whole number from 0 to {most}, got {value!r}")


def number(name: str, value: object) -> float:
    """Convert a number of any type. Raises ValueError if it is none."""
    try:
        if not is_truth(value):
            return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name}: expected a number, got {value!r}")


def is_truth(value: object) -> bool:
    """Return whether a value, array or tensor consists of truth values, which Python takes for 0 and 1."""
    return isinstance(value, bool) or kind_of_numbers(value) == "bool"


def kind_of_numbers(values: object) -> str:
    """Return the kind of an array or tensor, even an empty one: bool, int, str or float (for all others)."""
    name = str(getattr(values, "dtype", "float")).removeprefix("torch.")
    kinds = {"bool": "bool", "int": "int", "uint": "int", "<U": "str"}
    return next((kind for begin, kind in kinds.items() if name.startswith(begin)), "float")


def plain(name: str, value: object) -> object:
    """Convert the value of a parameter to types of Python: arrays, tensors and tuples to lists of one type.

    Raises:
        ValueError: no parameter can have the value.

    """
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        value = [one.tolist() if hasattr(one, "tolist") else one for one in value]
        if {*map(type, value)} == {int, float}:
            value = [*map(float, value)]
    kinds = {*map(type, value)} if isinstance(value, list) else {type(value)}
    known = len(kinds) < 2 and all(issubclass(kind, bool | int | float | str) for kind in kinds)
    if not known or (kinds == {int} and np.abs(np.array(value, float)).max(initial=0) >= _LARGEST):
        raise ValueError(f"{name}: expected a truth value, a number, a text or a list of one of these, got {value!r}")
    return value

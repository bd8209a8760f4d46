"""Copies numbers into fields of messages, and views numbers in messages, without a Python loop over elements."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

_DTYPES = {code: np.dtype(code) for code in "fdIB"}
_EMPTY = {code: np.empty(0, dtype) for code, dtype in _DTYPES.items()}


def packed(values: object, code: str = "f") -> array:
    """Return a flat copy of values with this type code, which message fields accept without checking elements."""
    numbers = array(code)
    numbers.frombytes(np.ascontiguousarray(values, code).reshape(-1).view(np.uint8))
    return numbers


def views(fields: type[NamedTuple], names: Iterable[str] = ()) -> Callable[[object], Any]:
    """Return a function that views the fields of a message; `names` are their names there, if different."""
    get = attrgetter(*(names or fields._fields))
    return lambda message: fields._make(map(viewed, get(message)))


def viewed(value: object) -> object:
    """Return a view of an array of numbers, and other values unchanged; empty arrays take no time."""
    if not isinstance(value, array):
        return value
    code = value.typecode
    return np.frombuffer(value, _DTYPES[code]) if value else _EMPTY[code]

"""Numbers into the fields of messages, and views of numbers in messages, without a Python loop over elements."""

from __future__ import annotations

from array import array

import numpy as np

_DTYPES = {code: np.dtype(code) for code in "fdIB"}
_EMPTY = {code: np.empty(0, dtype) for code, dtype in _DTYPES.items()}


def packed(values: object, code: str = "f") -> array:
    """A flat copy of some values, of this type code: fields of messages take it without looking at each element."""
    numbers = array(code)
    numbers.frombytes(np.ascontiguousarray(values, code).reshape(-1).view(np.uint8))
    return numbers


def viewed(value: object) -> object:
    """View arrays of numbers in place, return others unchanged: most arrays of a request are empty and cost nothing."""
    if not isinstance(value, array):
        return value
    code = value.typecode
    return np.frombuffer(value, _DTYPES[code]) if value else _EMPTY[code]

"""Messages with something in every field, and whether what was read of them is what rclpy's object has."""

from __future__ import annotations

from array import array
from collections.abc import Container

import numpy as np
from hypothesis import strategies as st

STRINGS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)


def filled(message: object, draw: st.DrawFn) -> object:
    """The message with something of every length in every field."""
    for name, kind in message.get_fields_and_field_types().items():
        value = getattr(message, name)
        if isinstance(value, array):
            size = draw(st.integers(0, 5))
            limit = 2**32 if value.typecode == "I" else 2**20
            value = array(value.typecode, [draw(st.integers(0, limit - 1)) for _ in range(size)])
        elif isinstance(value, bool):
            value = draw(st.booleans())
        elif isinstance(value, int):
            value = draw(st.integers(0, 255 if kind == "uint8" else 2**31 - 1))
        elif isinstance(value, str):
            value = draw(STRINGS)
        elif isinstance(value, list):
            value = draw(st.lists(STRINGS, max_size=4))
        else:
            value = filled(value, draw)
        setattr(message, name, value)
    return message


def check_same(read: object, message: object, skipped: Container[str] = ()) -> None:
    """Fields of a request equal those of rclpy's object, but for those whose names are skipped."""
    assert read._fields == tuple(message.get_fields_and_field_types())
    for name in read._fields:
        if name in skipped:
            continue
        got, expected = getattr(read, name), getattr(message, name)
        if isinstance(expected, array):
            assert got.dtype == np.dtype(expected.typecode)
            np.testing.assert_array_equal(got, expected)
        elif hasattr(expected, "get_fields_and_field_types"):
            check_same(got, expected, skipped)
        else:
            assert (list(got) if isinstance(expected, list) else got) == expected, name

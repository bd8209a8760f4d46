"""The compiled part that reads structs again: numbers are copied and looked at, and misuse is an error."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable

import numpy as np
import pytest

_native = pytest.importorskip(
    "traj_integrator_ros.wire._native", reason="traj_integrator_ros.wire._native is not built"
)


class Sequence(ctypes.Structure):
    """As rosidl lays out sequences in C."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("capacity", ctypes.c_size_t))


def remember(**parts: object) -> object:
    """What a struct was like; parts that are not given have no elements."""
    return _native.remember(*(parts.get(name, []) for name in ("equal", "into", "same", "texts")), parts.get("size", 0))


@pytest.mark.parametrize("kind", ["f", "d"])
def test_a_sequence_is_read_again_into_an_array_and_looked_at(kind: str):
    values, into = array(kind, [1, -2, 3]), array(kind, [0, 0, 0])
    struct = Sequence(values.buffer_info()[0], 3, 3)
    remembered = remember(into=[(0, into)])
    assert _native.read_again(remembered, ctypes.addressof(struct)) is True
    assert into == values
    for value in (np.inf, -np.inf, np.nan):
        values[1] = value
        assert _native.read_again(remembered, ctypes.addressof(struct)) is False
    values[1] = np.finfo(kind).max
    assert _native.read_again(remembered, ctypes.addressof(struct)) is True
    struct.size = 2
    values[1] = 7
    assert _native.read_again(remembered, ctypes.addressof(struct)) is None
    assert into[1] != 7, "nothing was read"


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"equal": ()}, TypeError),
        ({"into": None}, TypeError),
        ({"equal": [1]}, TypeError),
        ({"equal": [(0, 1)]}, TypeError),
        ({"equal": [(0, 1, "text")]}, TypeError),
        ({"same": [("at", 1, b"")]}, TypeError),
        ({"same": [None]}, TypeError),
        ({"texts": [(0, ["name"])]}, TypeError),
        ({"texts": [(0, ("name",))]}, TypeError),
        ({"texts": [b""]}, TypeError),
        ({"into": [np.zeros(2, np.float32)]}, TypeError),
        ({"into": [(0, "text")]}, TypeError),
        ({"into": [(0, np.zeros(2, np.int32))]}, TypeError),
        ({"into": [(0, np.zeros(2, ">f4"))]}, TypeError),
        ({"into": [(0, np.zeros((2, 2), np.float32))]}, TypeError),
        ({"into": [(0, np.zeros(4, np.float32)[::2])]}, ValueError),
        ({"into": [(0, np.frombuffer(b"1234", np.float32))]}, ValueError),
    ],
)
def test_what_cannot_be_remembered_is_an_error(parts: dict[str, object], error: type[Exception]):
    with pytest.raises(error):
        remember(**parts)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (lambda: (), TypeError),
        (lambda: (remember(),), TypeError),
        (lambda: (remember(), "address"), TypeError),
        (lambda: (remember(), 2**70), OverflowError),
        (lambda: (None, 0), ValueError),
        (lambda: ("remembered", 0), ValueError),
    ],
)
def test_what_cannot_be_read_again_is_an_error(arguments: Callable[[], tuple], error: type[Exception]):
    with pytest.raises(error):
        _native.read_again(*arguments())


def test_an_array_stays_where_it_is_until_it_is_not_remembered_any_more():
    into = array("f", [1, 2])
    remembered = remember(into=[(0, into)])
    with pytest.raises(BufferError):
        into.append(3)
    del remembered
    into.append(3)
    with pytest.raises(TypeError):
        remember(into=[(0, into), (0, "text")])
    into.append(4)

"""Requests of services, read from the structs that the middleware filled: rclpy's objects, one for each nested message,
take as long as everything else that the node does for a small request.

rclpy asks the request's class for the function that makes an object of a struct; the classes here name their own.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import count

import numpy as np
from rclpy.serialization import deserialize_message, serialize_message
from rosidl_parser.definition import BasicType, NamespacedType, UnboundedSequence, UnboundedString

_FORMATS = {
    "boolean": "?",
    "octet": "B",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float": "f",
    "double": "d",
}
_SEQUENCE = "PNN"
"""Where its elements are, how many, and for how many there is room; strings likewise."""
_STRING = struct.Struct(_SEQUENCE)
_Words = tuple
"""All numbers of a struct, nested ones included, in their order."""
_Taker = Callable[[_Words], object]


@cache
def lent(service: type) -> type:
    """Return a type to serve `service` with, whose requests come as named tuples with arrays of numpy's.

    Fields, names and values are those of rclpy's objects; a request that cannot be read is the error. Returns
    `service` itself where this rclpy or its messages are not laid out as expected, which an example shows.
    """
    try:
        request = _lent_message(service.Request)
        # Derived, so that rclpy finds what it needs to create the service.
        return type(service)(service.__name__, (service,), {"Request": request})
    except (AttributeError, KeyError, TypeError):
        return service


def _lent_message(message: type) -> type:
    layout = _Layout(message)
    example = layout.example()
    serialized = serialize_message(example)
    # First without following a pointer: lengths show whether the numbers are where they are expected.
    words = deserialize_message(serialized, _converted_by(message, lambda at: layout.words(at)))
    if not layout.agrees(words, example):
        raise TypeError(f"{message.__name__}: expected the C layout of rosidl, got another one")
    return _converted_by(message, lambda at: layout.take(layout.words(at)))


def _converted_by(message: type, convert: Callable[[int], object]) -> type:
    """A message type of which rclpy makes what `convert` makes of the address of the struct."""

    def converted(at: int) -> object:
        try:
            return convert(at)
        except Exception as error:  # C knows none: whoever reads a field of it tells
            return error

    function = ctypes.CFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(converted)
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new_capsule(ctypes.cast(function, ctypes.c_void_p), None, None)
    metaclass = type(message)
    own = type(metaclass)(metaclass.__name__, (metaclass,), {"_CONVERT_TO_PY": capsule, "_converter": function})
    return own(message.__name__, (message,), {"__slots__": ()})


class _Layout:
    """Where the fields of a message are in its C struct, by the rules of C and of rosidl.

    Raises:
        KeyError: a field of a type that the node's services do not have.

    """

    def __init__(self, message: type) -> None:
        self._message = message
        self._lengths: list[tuple[int, tuple[str, ...]]] = []
        """Of each sequence and string: its place among the words, and its path."""
        formats: list[str] = []
        self.take, _ = self._nested(message, formats, count(), ())
        self._struct = struct.Struct("".join(formats))

    def words(self, address: int) -> _Words:
        """All numbers of the struct at an address."""
        return self._struct.unpack(ctypes.string_at(address, self._struct.size))

    def example(self) -> object:
        """A message whose sequences and strings differ in length."""
        example = self._message()
        for length, (_, path) in enumerate(self._lengths, start=1):
            owner = _at(example, path[:-1])
            value = getattr(owner, path[-1])
            if isinstance(value, array):
                setattr(owner, path[-1], array(value.typecode, range(length)))
            else:
                setattr(owner, path[-1], "x" * length if isinstance(value, str) else ["x"] * length)
        return example

    def agrees(self, words: _Words, example: object) -> bool:
        """Whether the numbers of an example are those of its sequences."""
        return all(
            words[place] != 0 and words[place + 1] == len(_at(example, path)) <= words[place + 2]
            for place, path in self._lengths
        )

    def _nested(
        self, message: type, formats: list[str], place: Iterator[int], path: tuple[str, ...]
    ) -> tuple[_Taker, str]:
        """What makes a tuple of the words of a message, and its widest number, which aligns it."""
        names = tuple(message.get_fields_and_field_types())
        begin = len(formats)
        formats.append("")
        takers, widest = [], "B"
        for name, kind in zip(names, message.SLOT_TYPES, strict=True):
            taker, wide = self._field(kind, formats, place, (*path, name))
            takers.append(taker)
            widest = max(widest, wide, key=struct.calcsize)
        formats[begin] = f"0{widest}"
        formats.append(f"0{widest}")
        made = namedtuple(message.__name__, names)
        return lambda words: made(*[take(words) for take in takers]), widest

    def _field(
        self, kind: object, formats: list[str], place: Iterator[int], path: tuple[str, ...]
    ) -> tuple[_Taker, str]:
        if isinstance(kind, NamespacedType):
            nested = getattr(import_module(".".join(kind.namespaces)), kind.name)
            return self._nested(nested, formats, place, path)
        at = next(place)
        if isinstance(kind, BasicType):
            formats.append(_FORMATS[kind.typename])
            return lambda words: words[at], _FORMATS[kind.typename]
        next(place), next(place)
        formats.append(_SEQUENCE)
        self._lengths.append((at, path))
        if isinstance(kind, UnboundedString):
            return lambda words: _string(words[at]), "P"
        element = kind.value_type if isinstance(kind, UnboundedSequence) else None
        if isinstance(element, UnboundedString):
            return lambda words: _strings(words[at], words[at + 1]), "P"
        if not isinstance(element, BasicType):
            raise KeyError(f"{'.'.join(path)}: of type {kind}")
        dtype = np.dtype(_FORMATS[element.typename])
        empty = np.empty(0, dtype)

        def taken(words: _Words) -> np.ndarray:
            size = words[at + 1]
            return np.frombuffer(ctypes.string_at(words[at], size * dtype.itemsize), dtype) if size else empty

        return taken, "P"


def _string(address: int) -> str:
    return ctypes.string_at(address).decode(errors="replace")


def _strings(address: int, size: int) -> Sequence[str]:
    if not size:
        return ()
    return [_string(data) for data, _, _ in _STRING.iter_unpack(ctypes.string_at(address, size * _STRING.size))]


def _at(message: object, path: Sequence[str]) -> object:
    for name in path:
        message = getattr(message, name)
    return message

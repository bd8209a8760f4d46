"""The C structs that rosidl generates for messages: read into named tuples, and written from objects."""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import count
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from rosidl_parser.definition import BasicType, NamespacedType, UnboundedSequence, UnboundedString

Words = tuple
"""All numbers of a struct, nested ones included, in their order."""
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
"""Address of its elements, their number, and the capacity; the same for strings."""
_STRING = struct.Struct(_SEQUENCE)
_NO_ELEMENTS = (0, 0, 0)


class _Field(NamedTuple):
    """How a field is read from the words of its struct, how it is appended to them, and its default."""

    take: Callable[[Words], object]
    put: Callable[[object, list], None]
    blank: Callable[[], object]
    widest: str
    """The number that determines its alignment, as Python's struct names it."""


class StructLayout:
    """The positions of a message's fields in its C struct, by the rules of C and of rosidl.

    Args:
        message: the message type.

    Raises:
        KeyError: a field of a type that the node's services do not have.

    """

    def __init__(self, message: type) -> None:
        self._message = message
        self._lengths: list[tuple[int, tuple[str, ...]]] = []
        """For each sequence and string: its index among the words, and its path."""
        formats: list[str] = []
        self._fields = self._nested(message, formats, count(), ())
        self._struct = struct.Struct("".join(formats))
        self.size = self._struct.size
        """Size of the struct, in bytes."""

    def words(self, address: int) -> Words:
        """All numbers of the struct at an address."""
        return self._struct.unpack(ctypes.string_at(address, self.size))

    def read(self, address: int) -> tuple:
        """The fields of the struct at an address, as a named tuple of copies."""
        return self._fields.take(self.words(address))

    def write(self, message: object, memory: ctypes.Array) -> None:
        """Fill a struct with an object's fields; it points to the object's arrays and strings, which must stay alive.

        Raises:
            struct.error, TypeError, AttributeError: a field of another type.

        """
        words: list = []
        self._fields.put(message, words)
        self._struct.pack_into(memory, 0, *words)

    def blank(self) -> SimpleNamespace:
        """An object to be written, with default values in its fields."""
        return self._fields.blank()

    def example(self) -> object:
        """An rclpy message whose sequences and strings differ in length."""
        example = self._message()
        for length, (_, path) in enumerate(self._lengths, start=1):
            owner = _at(example, path[:-1])
            value = getattr(owner, path[-1])
            if isinstance(value, array):
                setattr(owner, path[-1], array(value.typecode, range(length)))
            else:
                setattr(owner, path[-1], "x" * length if isinstance(value, str) else ["x"] * length)
        return example

    def agrees(self, words: Words, example: object) -> bool:
        """Whether the words of an example have the lengths of its sequences; no pointer is followed."""
        return all(
            words[place] != 0 and words[place + 1] == len(_at(example, path)) <= words[place + 2]
            for place, path in self._lengths
        )

    def _nested(self, message: type, formats: list[str], place: Iterator[int], path: tuple[str, ...]) -> _Field:
        names = tuple(message.get_fields_and_field_types())
        begin = len(formats)
        formats.append("")
        kinds = zip(names, message.SLOT_TYPES, strict=True)
        fields = [self._field(kind, formats, place, (*path, name)) for name, kind in kinds]
        widest = max((field.widest for field in fields), key=struct.calcsize)
        formats[begin] = f"0{widest}"
        formats.append(f"0{widest}")
        made = namedtuple(message.__name__, names)
        takers = [field.take for field in fields]
        putters = [(name, field.put) for name, field in zip(names, fields, strict=True)]
        blanks = [(name, field.blank) for name, field in zip(names, fields, strict=True)]

        def put(value: object, words: list) -> None:
            for name, put_field in putters:
                put_field(getattr(value, name), words)

        def take(words: Words) -> tuple:
            return made(*[take_field(words) for take_field in takers])

        return _Field(take, put, lambda: SimpleNamespace(**{name: blank() for name, blank in blanks}), widest)

    def _field(self, kind: object, formats: list[str], place: Iterator[int], path: tuple[str, ...]) -> _Field:
        if isinstance(kind, NamespacedType):
            nested = getattr(import_module(".".join(kind.namespaces)), kind.name)
            return self._nested(nested, formats, place, path)
        at = next(place)
        if isinstance(kind, BasicType):
            number = _FORMATS[kind.typename]
            formats.append(number)
            return _Field(lambda words: words[at], lambda value, words: words.append(value), int, number)
        next(place), next(place)
        formats.append(_SEQUENCE)
        self._lengths.append((at, path))
        if isinstance(kind, UnboundedString):
            return _Field(lambda words: _string(words[at]), lambda value, words: words.extend(_text(value)), str, "P")
        element = kind.value_type if isinstance(kind, UnboundedSequence) else None
        if isinstance(element, UnboundedString):
            return _Field(
                lambda words: _strings(words[at], words[at + 1]),
                lambda value, words: words.extend(_texts(tuple(value))),
                tuple,
                "P",
            )
        if not isinstance(element, BasicType):
            raise KeyError(f"{'.'.join(path)}: of type {kind}")
        return self._array(at, np.dtype(_FORMATS[element.typename]), ".".join(path))

    @staticmethod
    def _array(at: int, dtype: np.dtype, name: str) -> _Field:
        empty = np.empty(0, dtype)

        def take(words: Words) -> np.ndarray:
            size = words[at + 1]
            return np.frombuffer(ctypes.string_at(words[at], size * dtype.itemsize), dtype) if size else empty

        def put(values: np.ndarray, words: list) -> None:
            size = values.size
            if not size:
                words.extend(_NO_ELEMENTS)
                return
            if values.dtype != dtype or not values.flags.c_contiguous:
                raise TypeError(f"{name}: expected a contiguous array of {dtype}, got {values.dtype}")
            words += values.__array_interface__["data"][0], size, size

        return _Field(take, put, lambda: empty, "P")


def _string(address: int) -> str:
    return ctypes.string_at(address).decode(errors="replace")


def _strings(address: int, size: int) -> Sequence[str]:
    if not size:
        return ()
    return [_string(data) for data, _, _ in _STRING.iter_unpack(ctypes.string_at(address, size * _STRING.size))]


def _text(value: str) -> tuple[int, int, int]:
    return _kept_text(value)[1]


def _texts(values: tuple[str, ...]) -> tuple[int, int, int]:
    return _kept_texts(values)[1] if values else _NO_ELEMENTS


@lru_cache(maxsize=64)
def _kept_text(value: str) -> tuple[object, tuple[int, int, int]]:
    """Memory of a string, which is kept for the last 64 strings, and the words for it."""
    memory = ctypes.create_string_buffer(value.encode(errors="replace"))
    return memory, (ctypes.addressof(memory), len(memory) - 1, len(memory))


@lru_cache(maxsize=16)
def _kept_texts(values: tuple[str, ...]) -> tuple[object, tuple[int, int, int]]:
    kept = [_kept_text.__wrapped__(value) for value in values]
    memory = ctypes.create_string_buffer(b"".join(_STRING.pack(*words) for _, words in kept))
    return (kept, memory), (ctypes.addressof(memory), len(values), len(values))


def _at(message: object, path: Sequence[str]) -> object:
    for name in path:
        message = getattr(message, name)
    return message

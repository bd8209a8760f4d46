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
    """How a field is read from the words of its struct, its words, and its default: as expressions in Python."""

    take: str
    """Of the words `w`."""
    put: str
    """Of the object `v`; words separated by commas."""
    blank: str
    widest: str
    """The number that determines its alignment, as Python's struct names it."""


class Place(NamedTuple):
    """Where a field is in the struct."""

    path: tuple[str, ...]
    at: int
    """Bytes from the struct's beginning."""
    number: str
    """Of one number, as Python's struct names it; empty for sequences and strings."""


class _Code:
    """One function for all fields of a message: a call for each of them would take longer than what it does."""

    def __init__(self) -> None:
        self._names: dict[str, object] = {"SimpleNamespace": SimpleNamespace}

    def name(self, value: object) -> str:
        """Return what a value is called in expressions."""
        name = f"n{len(self._names)}"
        self._names[name] = value
        return name

    def function(self, argument: str, expression: str) -> Callable:
        """Return the function of an expression."""
        return eval(f"lambda {argument}: {expression}", self._names)


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
        self.places: list[Place] = []
        formats: list[str] = []
        self._code = _Code()
        fields = self._nested(message, formats, count(), ())
        self.take: Callable[[Words], tuple] = self._code.function("w", fields.take)
        """Copies the fields of a struct that still exists, from its words, into a named tuple with writable arrays."""
        self._put = self._code.function("v", f"({fields.put},)")
        self.blank: Callable[[], SimpleNamespace] = self._code.function("", fields.blank)
        """Makes an object to be written, with default values in its fields."""
        self._struct = struct.Struct("".join(formats))
        self.size = self._struct.size
        """Size of the struct, in bytes."""

    def words(self, address: int) -> Words:
        """All numbers of the struct at an address."""
        return self._struct.unpack(ctypes.string_at(address, self.size))

    def image(self, message: object) -> bytes:
        """The struct with an object's fields; it points to the object's arrays and strings, which must stay alive.

        Strings do for the next 16 messages; the empty string always does.

        Raises:
            struct.error, TypeError, AttributeError: a field of another type.

        """
        return self._struct.pack(*self._put(message))

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
        # What is made for the whole message can have attributes beside its fields.
        made = self._code.name(made if path else type(message.__name__, (made,), {}))
        blanks = ", ".join(f"{name}={field.blank}" for name, field in zip(names, fields, strict=True))
        return _Field(
            f"{made}({', '.join(field.take for field in fields)})",
            ", ".join(field.put for field in fields),
            f"SimpleNamespace({blanks})",
            widest,
        )

    def _append(self, formats: list[str], field: str, path: tuple[str, ...], number: str) -> None:
        formats.append(field)
        self.places.append(Place(path, struct.calcsize("".join(formats)) - struct.calcsize(field), number))

    def _field(self, kind: object, formats: list[str], place: Iterator[int], path: tuple[str, ...]) -> _Field:
        if isinstance(kind, NamespacedType):
            nested = getattr(import_module(".".join(kind.namespaces)), kind.name)
            return self._nested(nested, formats, place, path)
        at, value, name = next(place), ".".join(("v", *path)), self._code.name
        if isinstance(kind, BasicType):
            number = _FORMATS[kind.typename]
            self._append(formats, number, path, number)
            return _Field(f"w[{at}]", value, "0", number)
        next(place), next(place)
        self._append(formats, _SEQUENCE, path, "")
        self._lengths.append((at, path))
        if isinstance(kind, UnboundedString):
            return _Field(f"{name(_string)}(w[{at}])", f"*{name(_text)}({value})", "''", "P")
        element = kind.value_type if isinstance(kind, UnboundedSequence) else None
        if isinstance(element, UnboundedString):
            taken = f"{name(_strings)}(w[{at}], w[{at + 1}])"
            return _Field(taken, f"*{name(_texts)}(tuple({value}))", "()", "P")
        if not isinstance(element, BasicType):
            raise KeyError(f"{'.'.join(path)}: of type {kind}")
        dtype = np.dtype(_FORMATS[element.typename])
        empty, kind = name(np.empty(0, dtype)), name(dtype)
        taken = f"{name(_array)}(w[{at}], w[{at + 1}], {kind}) if w[{at + 1}] else {empty}"
        words = f"{name(_words_of)}({value}, {kind}, {'.'.join(path)!r})"
        return _Field(taken, f"*({name(_NO_ELEMENTS)} if {value} is {empty} else {words})", empty, "P")


def _array(address: int, size: int, dtype: np.dtype) -> np.ndarray:
    values = np.empty(size, dtype)
    ctypes.memmove(values.__array_interface__["data"][0], address, values.nbytes)
    return values


def _words_of(values: np.ndarray, dtype: np.dtype, name: str) -> tuple[int, int, int]:
    size = values.size
    if not size:
        return _NO_ELEMENTS
    if values.dtype != dtype or not values.flags.c_contiguous:
        raise TypeError(f"{name}: expected a contiguous array of {dtype}, got {values.dtype}")
    return values.__array_interface__["data"][0], size, size


def _string(address: int) -> str:
    return ctypes.string_at(address).decode(errors="replace")


def _strings(address: int, size: int) -> Sequence[str]:
    if not size:
        return ()
    return [_string(data) for data, _, _ in _STRING.iter_unpack(ctypes.string_at(address, size * _STRING.size))]


def _text(value: str) -> tuple[int, int, int]:
    return (_kept_text(value) if value else _EMPTY)[1]


def _texts(values: tuple[str, ...]) -> tuple[int, int, int]:
    return _kept_texts(values)[1] if values else _NO_ELEMENTS


@lru_cache(maxsize=64)
def _kept_text(value: str) -> tuple[object, tuple[int, int, int]]:
    """Memory of a string, which is kept for the last 64 strings, and the words for it."""
    memory = ctypes.create_string_buffer(value.encode(errors="replace"))
    return memory, (ctypes.addressof(memory), len(memory) - 1, len(memory))


_EMPTY = _kept_text.__wrapped__("")


@lru_cache(maxsize=16)
def _kept_texts(values: tuple[str, ...]) -> tuple[object, tuple[int, int, int]]:
    kept = [_kept_text.__wrapped__(value) for value in values]
    memory = ctypes.create_string_buffer(b"".join(_STRING.pack(*words) for _, words in kept))
    return (kept, memory), (ctypes.addressof(memory), len(values), len(values))


def _at(message: object, path: Sequence[str]) -> object:
    for name in path:
        message = getattr(message, name)
    return message

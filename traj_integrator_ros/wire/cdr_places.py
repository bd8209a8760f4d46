"""Where the fields of a serialized message are."""

from __future__ import annotations

import numpy as np

from .cdr_reader import CdrReader


class PlacesReader(CdrReader):
    """A reader that notes what it reads.

    Args:
        data: the message.
        varying: fields whose arrays are noted in `arrays` instead of `places`.

    """

    __slots__ = ("_varying", "arrays", "places")

    def __init__(self, data: bytes, varying: frozenset[str]) -> None:
        super().__init__(data)
        self._varying = varying
        self.places: list[tuple[str, int, int]] = [("encoding", 0, 2)]
        """Field, where it begins, and its size in bytes; padding is none of them."""
        self.arrays: dict[str, tuple[int, np.ndarray]] = {}
        """Where an array begins, and its numbers; those that are not empty."""

    def array(self, field: str, kind: str) -> np.ndarray:
        """Read a sequence of numbers."""
        self.places.append((field, self._at + (-self._at & 3), 4))
        values = super().array(field, kind)
        begin = self._at - values.nbytes
        if values.size and field in self._varying:
            self.arrays[field] = begin, values
        else:
            self.places.append((field, begin, values.nbytes))
        return values

    def _take(self, field: str, size: int, alignment: int = 1) -> int:
        at = super()._take(field, size, alignment)
        self.places.append((field, at, size))
        return at

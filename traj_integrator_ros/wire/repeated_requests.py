"""Requests that differ from an earlier one in some numbers only, as those of an optimizer do, read again into it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import reduce
from operator import itemgetter

import numpy as np

from .kept_messages import KeptMessages, size_of
from .struct_layout import Place, StructLayout

_UNUSED = frozenset({"header"})
"""Fields whose values make no difference to what a request asks for."""


class RepeatedRequests:
    """Reads the requests of a service into named tuples.

    Of a request that equals an earlier one in all but its header and the contents of the arrays `varying`, these arrays
    are also read into those of the earlier one, its attribute `kept`, which is None for any other request. Whoever can
    answer the kept one without looking at the rest sets its attribute `answer`: from then on it is itself what is read,
    as long as the numbers are finite. All of this is valid until the next request is read.

    Args:
        layout: of the request.
        varying: names of arrays of floating-point numbers, wherever they are in the request.
        keeps: whether requests are kept at all.

    """

    def __init__(self, layout: StructLayout, varying: frozenset[str], *, keeps: bool = True) -> None:
        self._layout = layout
        self._keeps = keeps
        self._varying = varying
        self._kept: KeptMessages[tuple] = KeptMessages()
        self._sizes_of: Callable[[tuple], tuple] = itemgetter(*_numbers_and_sizes(layout))

    def read(self, address: int) -> tuple:
        """Return the request at an address."""
        kept = self._kept.read_again(address)
        if kept is not None and kept.answer is not None:
            return kept
        words = self._layout.words(address)
        request = self._layout.take(words)
        request.kept, request.answer = kept, None
        if self._keeps and kept is None and self._kept.wants(self._sizes_of(words), size_of(request)):
            self._keep(request)
        return request

    def _keep(self, request: tuple) -> None:
        equal, same, texts, into = [], [], [], []
        for path, at, number in _used_places(self._layout):
            value = reduce(getattr, path, request)
            if number:
                equal.append((at, 1, struct.pack(number, value)))
            elif isinstance(value, str):
                same.append((at, len(value.encode()), value.encode()))
            elif not isinstance(value, np.ndarray):
                texts.append((at, tuple(text.encode() for text in value)))
            elif path[-1] in self._varying and value.size:
                into.append((at, value))
            else:
                same.append((at, value.size, value.tobytes()))
        self._kept.keep(request, equal, into, same, texts)


def _used_places(layout: StructLayout) -> Iterator[Place]:
    return (place for place in layout.places if _UNUSED.isdisjoint(place.path))


def _numbers_and_sizes(layout: StructLayout) -> list[int]:
    """Where the numbers of a request, and the sizes of its sequences, are among its words."""
    indices, index = [], 0
    for place in layout.places:
        if _UNUSED.isdisjoint(place.path):
            indices.append(index if place.number else index + 1)
        index += 1 if place.number else 3
    return indices

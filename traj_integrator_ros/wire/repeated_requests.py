"""Requests that differ from an earlier one in some numbers only, as those of an optimizer do, read again into it."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator
from functools import reduce
from operator import itemgetter

import numpy as np

from .struct_layout import Place, StructLayout

try:
    from . import _native
except ImportError:  # no compiler, or sources that were not installed: then every request is read anew
    _native = None

KEPT = 4
"""Requests that are kept for each service."""
MOST_BYTES = 4 * 2**20
"""Bytes of all their arrays; a larger request is not kept: next to what it asks for, reading it takes no time."""
_LONGEST_PAUSE = 256
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

    """

    def __init__(self, layout: StructLayout, varying: frozenset[str]) -> None:
        self._layout = layout
        self._varying = varying
        self._kept: list[tuple[object, tuple]] = []
        self._sizes_of: Callable[[tuple], tuple] = itemgetter(*_numbers_and_sizes(layout))
        self._seen: deque[tuple] = deque(maxlen=KEPT)
        self._pause = self._waits = 0

    def read(self, address: int) -> tuple:
        """Return the request at an address."""
        is_new, kept = self._read_again(address)
        if kept is not None and kept.answer is not None:
            return kept
        words = self._layout.words(address)
        request = self._layout.take(words)
        request.kept, request.answer = kept, None
        if is_new and _native is not None:
            self._keep(request, self._sizes_of(words))
        return request

    def _read_again(self, address: int) -> tuple[bool, tuple | None]:
        """Read into a kept request; returns whether none is like it, and it, or None if numbers are not finite."""
        for place, (remembered, request) in enumerate(self._kept):
            finite = _native.read_again(remembered, address)
            if finite is None:
                continue
            if place:
                self._kept.insert(0, self._kept.pop(place))
            self._pause = self._waits = 0
            return False, request if finite else None
        return True, None

    def _keep(self, request: tuple, sizes: tuple) -> None:
        """Keep a request if its shape is one of the last ones, but less and less often if none comes again."""
        if sizes not in self._seen:
            self._seen.append(sizes)
            return
        if self._waits:
            self._waits -= 1
            return
        self._pause = self._waits = min(max(1, 2 * self._pause), _LONGEST_PAUSE)
        if _bytes_of(request) <= MOST_BYTES:
            self._kept = [(self._remembered(request), request), *self._kept[: KEPT - 1]]
            while sum(_bytes_of(kept) for _, kept in self._kept) > MOST_BYTES:
                self._kept.pop()

    def _remembered(self, request: tuple) -> object:
        """What another request must be like, and where its numbers go."""
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
        return _native.remember(equal, same, texts, into)


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


def _bytes_of(request: object) -> int:
    """Bytes of all arrays."""
    if isinstance(request, np.ndarray):
        return request.nbytes
    return sum(map(_bytes_of, request)) if isinstance(request, tuple) else 0

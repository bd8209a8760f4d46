"""The last messages of each kind, into which others that differ from them in numbers only are read again."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import numpy as np

try:
    from . import _native
except ImportError:  # no compiler, or sources that were not installed: then nothing is kept
    _native = None

MOST_KEPT = 4
MOST_BYTES = 4 * 2**20
"""Bytes of all arrays that are kept; next to what a larger message asks for, reading it takes no time."""
_LONGEST_PAUSE = 256

Message = TypeVar("Message")
Part = tuple[int, int, bytes]
"""Where in the message, how many elements, and their bytes."""


class KeptMessages(Generic[Message]):
    """At most four messages, the last used first.

    One is kept if another of the same sizes came shortly before; while those that are kept never come again, this is
    done less and less often.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[object, Message]] = []
        self._seen: deque[object] = deque(maxlen=MOST_KEPT)
        self._is_new = True
        self._pause = self._waits = 0

    def read_again(self, source: int | bytes) -> Message | None:
        """Read the message, at an address or in bytes, into one that is kept, and return that.

        None if none is like it, or a number that may differ is not finite.
        """
        for place, (remembered, message) in enumerate(self._kept):
            finite = _native.read_again(remembered, source)
            if finite is None:
                continue
            if place:
                self._kept.insert(0, self._kept.pop(place))
            self._pause = self._waits = 0
            self._is_new = False
            return message if finite else None
        self._is_new = True
        return None

    def wants(self, sizes: object, size: int) -> bool:
        """Whether the message for which `read_again` returned None is to be given to `keep`.

        Args:
            sizes: of all its arrays.
            size: of all of them together, in bytes.

        """
        if _native is None or not self._is_new or size > MOST_BYTES:
            return False
        if sizes not in self._seen:
            self._seen.append(sizes)
            return False
        if self._waits:
            self._waits -= 1
            return False
        self._pause = self._waits = min(max(1, 2 * self._pause), _LONGEST_PAUSE)
        return True

    def keep(
        self,
        message: Message,
        equal: list[Part],
        into: list[tuple[int, np.ndarray]],
        same: list[Part] | None = None,
        texts: list[tuple[int, tuple[bytes, ...]]] | None = None,
        size: int = 0,
    ) -> None:
        """Keep a message.

        Args:
            message: whatever has the arrays.
            equal: the bytes that another one must have, too.
            into: the arrays that get its numbers.
            same: elements of sequences that another one must have, too; for messages at an address.
            texts: its sequences of strings; for messages at an address.
            size: of the message, for messages in bytes.

        """
        remembered = _native.remember(equal, into, same or [], texts or [], size)
        self._kept = [(remembered, message), *self._kept[: MOST_KEPT - 1]]
        while sum(size_of(kept) for _, kept in self._kept) > MOST_BYTES:
            self._kept.pop()


def size_of(message: object) -> int:
    """Bytes of all arrays in named tuples."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    return sum(map(size_of, message)) if isinstance(message, tuple) else 0

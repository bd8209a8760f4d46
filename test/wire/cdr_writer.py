"""A plain writer of CDR, to hold the product's serialized messages against."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np


class CdrWriter:
    """Writes field by field; `order` is "<" or ">"."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.data = bytearray(b"\0\1\0\0" if order == "<" else b"\0\0\0\0")
        self.aligning: list[int] = []
        """Places of the bytes that have no meaning."""

    def numbers(self, form: str, *values: float) -> CdrWriter:
        """Write numbers of one struct format, each aligned to its size."""
        size = struct.calcsize(form)
        for value in values:
            self._align(size)
            self.data += struct.pack(self.order + form, value)
        return self

    def string(self, text: str) -> CdrWriter:
        raw = text.encode()
        self.numbers("I", len(raw) + 1)
        self.data += raw + b"\0"
        return self

    def strings(self, texts: Sequence[str]) -> CdrWriter:
        self.numbers("I", len(texts))
        for text in texts:
            self.string(text)
        return self

    def array(self, form: str, values: np.ndarray | Sequence[float]) -> CdrWriter:
        return self.numbers("I", len(values)).numbers(form, *np.asarray(values).tolist())

    def header(self, stamp: tuple[int, int], frame_id: str = "") -> CdrWriter:
        return self.numbers("i", stamp[0]).numbers("I", stamp[1]).string(frame_id)

    def _align(self, size: int) -> None:
        while (len(self.data) - 4) % size:
            self.aligning.append(len(self.data))
            self.data.append(0)

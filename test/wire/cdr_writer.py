"""A plain writer of CDR, to hold the product's serialized messages against: any message, by the types of its fields."""

from __future__ import annotations

import struct

_FORMS = {"uint8": "B", "int32": "i", "uint32": "I", "float": "f", "double": "d"}


class CdrWriter:
    """Writes field by field; `order` is "<" or ">"."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.data = bytearray(b"\0\1\0\0" if order == "<" else b"\0\0\0\0")
        self.aligning: list[int] = []
        """Places of the bytes that have no meaning."""

    def message(self, message: object) -> CdrWriter:
        """Write all fields of a message."""
        for name, kind in message.get_fields_and_field_types().items():
            self.put(kind, getattr(message, name))
        return self

    def put(self, kind: str, value: object) -> CdrWriter:
        """Write a value of a type, numbers aligned to their size."""
        if kind in _FORMS:
            form = self.order + _FORMS[kind]
            while (len(self.data) - 4) % struct.calcsize(form):
                self.aligning.append(len(self.data))
                self.data.append(0)
            self.data += struct.pack(form, value)
        elif kind == "string":
            raw = value.encode() + b"\0"
            self.put("uint32", len(raw))
            self.data += raw
        elif kind.startswith("sequence<"):
            self.put("uint32", len(value))
            for one in value:
                self.put(kind[len("sequence<") : -1], one)
        else:
            self.message(value)
        return self

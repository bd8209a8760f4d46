"""Messages that are sent again and again."""

from __future__ import annotations

import struct

import numpy as np
from rclpy.serialization import serialize_message

from traj_integrator_ros.client.requests import SECOND_NS

_STAMP = struct.Struct("<iI")
_STAMP_AT = 4
"""Position of the stamp, bytes: after the encoding, since the header is the first field of these messages."""


class Template:
    """A serialized message that begins with a header, complete but for its stamp.

    `variable` are the contents of fields that will change, each of which is unique in the message.
    """

    def __init__(self, message: object, *variable: np.ndarray) -> None:
        self._bytes = bytearray(serialize_message(message))
        self._places = [(self._bytes.index(values.tobytes()), values.dtype) for values in variable]

    def stamped(self, stamp_ns: int, *values: np.ndarray) -> bytes:
        """Return the message with this stamp, and with these values in the variable fields."""
        _STAMP.pack_into(self._bytes, _STAMP_AT, *divmod(stamp_ns, SECOND_NS))
        for (place, dtype), numbers in zip(self._places, values, strict=True):
            data = np.asarray(numbers, dtype).tobytes()
            self._bytes[place : place + len(data)] = data
        return bytes(self._bytes)

"""Messages that newer ones displaced from a reader's queue, detected by gaps in their publishers' sequence numbers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

_PUBLISHERS_KEPT = 64
_ONLY = b""
"""Stands for the only publisher of a topic if rclpy does not identify it."""


class SequenceGaps:
    """Counts messages of one topic that never arrived, publisher by publisher.

    The middleware's message-lost event does not report samples that newer ones replaced in a bounded queue; the
    sequence numbers of each publisher's samples reveal them.
    """

    def __init__(self) -> None:
        self._last: OrderedDict[bytes, int] = OrderedDict()

    def missed_before(self, info: Mapping[str, object], count_publishers: Callable[[], int] | None = None) -> int:
        """Return how many messages of the same publisher were lost since its previous one.

        Args:
            info: the message info of rclpy; without a sequence number (other middleware, Humble), the result is 0.
            count_publishers: counts the publishers of the topic; None if there is one. Called if the info does not name
                the publisher (Jazzy): the numbers of several publishers cannot be distinguished then, and the result is
                0.

        """
        number = info.get("publication_sequence_number")
        if not isinstance(number, int):
            return 0
        publisher = info.get("publisher_gid")
        if isinstance(publisher, Mapping):
            identity = bytes(publisher["data"])
        elif count_publishers is None or count_publishers() == 1:
            identity = _ONLY
        else:
            self._last.pop(_ONLY, None)
            return 0
        last = self._last.get(identity)
        self._last[identity] = number
        self._last.move_to_end(identity)
        if len(self._last) > _PUBLISHERS_KEPT:
            self._last.popitem(last=False)
        # The first message of a publisher gives no information, because it may have published before we joined.
        return 0 if last is None else max(0, number - last - 1)

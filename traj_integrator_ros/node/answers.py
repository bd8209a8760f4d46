"""Responses of services, which are sent again as long as the middleware has not discovered their callers."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress

from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.service import Service

_AGAIN_S = 0.25
"""Time, s, after which a response that the middleware did not send is sent again."""
_TRIES = 4
"""Number of times that a response is sent: the middleware waits 100 ms for the caller each time."""


class Answers:
    """Sends the responses of services.

    rclpy only warns where a caller has not been discovered yet, and that caller waits forever.
    """

    def __init__(self) -> None:
        self._unsent: list[tuple[float, tuple[Service, object, object, int]]] = []
        """When responses are sent again, s of the steady clock, and with what."""
        # To look for warnings after each response would take a fiftieth of what a call costs.
        warnings.filterwarnings("error", "failed to send response", RuntimeWarning)

    @property
    def due_s(self) -> float:
        """When the next response is sent again, s of the steady clock; infinite if none is."""
        return self._unsent[0][0] if self._unsent else float("inf")

    def send(self, service: Service, response: object, header: object, tries: int = _TRIES) -> None:
        """Send a response, now and, if its caller is not known yet, again later."""
        try:
            service.send_response(response, header)
        except (RuntimeWarning, SystemError):  # Python raises the second where C++ returns in spite of the first.
            if tries > 1:
                self._unsent.append((time.monotonic() + _AGAIN_S, (service, response, header, tries - 1)))

    def send_again(self) -> None:
        """Send the response again that is due first, if any: the next ones wait for the next turn."""
        if self.due_s <= time.monotonic():
            _, answer = self._unsent.pop(0)  # They are in the order of their times.
            with suppress(rclpy_implementation.RCLError, InvalidHandle):  # The caller or the service has gone.
                self.send(*answer)

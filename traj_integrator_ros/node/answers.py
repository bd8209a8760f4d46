"""Responses of services, which are sent again as long as the middleware has not discovered their callers."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from typing import NamedTuple

from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.service import Service

_AGAIN_S = 0.25
"""Time, s, after which a response that the middleware did not send is sent again."""
_TRIES = 4
"""Number of times that a response is sent: the middleware waits 100 ms for the caller each time."""


class _Unsent(NamedTuple):
    """A response that the middleware has not sent."""

    service: Service
    response: object
    header: object
    tries: int = 0
    due_s: float = 0.0
    """When it is sent again, s of the steady clock."""


class Answers:
    """Sends the responses of services.

    rclpy only warns where a caller has not been discovered yet, and that caller waits forever.
    """

    def __init__(self) -> None:
        self._unsent: list[_Unsent] = []

    @property
    def due_s(self) -> float:
        """When the next response is sent again, s of the steady clock; infinite if none is."""
        return min((answer.due_s for answer in self._unsent), default=float("inf"))

    def send(self, service: Service, response: object, header: object) -> None:
        """Send a response, now and, if its caller is not known yet, again later."""
        self._send(_Unsent(service, response, header))

    def send_again(self) -> None:
        """Send the responses that are due again."""
        if not self._unsent:
            return
        now_s, waiting = time.monotonic(), self._unsent
        self._unsent = [answer for answer in waiting if answer.due_s > now_s]
        for answer in waiting:
            if answer.due_s <= now_s:
                with suppress(rclpy_implementation.RCLError, InvalidHandle):  # The caller or the service has gone.
                    self._send(answer)

    def _send(self, answer: _Unsent) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)
            answer.service.send_response(answer.response, answer.header)
        lost = any("failed to send response" in str(one.message) for one in caught)
        if lost and answer.tries + 1 < _TRIES:
            self._unsent.append(answer._replace(tries=answer.tries + 1, due_s=time.monotonic() + _AGAIN_S))

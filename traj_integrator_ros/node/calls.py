"""Calls of services whose answers may take long: whoever holds them goes on with all of them now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass

from .accounts import Accounts

Steps = Generator[None, None, None]
"""An answer that may take long: it yields as long as it is not there."""
UNCOUNTED = "stop"
"""The service whose calls are not counted and timed: it is not about a sequence."""
_OVER = object()


@dataclass
class _Call:
    """A call that is not answered."""

    name: str
    response: object
    began_s: float
    steps: Steps
    send: Callable[[], None]


class Calls:
    """The calls that are not answered.

    Args:
        accounts: count and time them, and confine what fails to its call.
        require: raises Rejected where nothing is answered now.

    """

    def __init__(self, accounts: Accounts, require: Callable[[], object]) -> None:
        self._accounts, self._require = accounts, require
        self._open: list[_Call] = []

    def begin(self, name: str, response: object, answer: Callable[[], Steps | None], send: Callable[[], None]) -> bool:
        """Begin to answer a call: `answer` fills in the response, at once or in steps.

        Returns whether it is answered; if not, `send` is called once it is.
        """
        call = _Call(name, response, time.perf_counter(), _steps(answer), send)
        if self._go_on(call):
            return True
        self._open.append(call)
        return False

    def go_on(self) -> None:
        """Answer the calls whose answers were not there at once, and are now."""
        for call in [*self._open]:
            if self._go_on(call):
                self._open.remove(call)
                call.send()

    def _go_on(self, call: _Call) -> bool:
        """Go on with the answer to a call; whether it is there."""
        response = call.response
        with self._accounts.guard(call.name) as outcome:
            self._require()
            if next(call.steps, _OVER) is not _OVER:
                return False
        response.success, response.message = not outcome.reason, outcome.reason or response.message
        if call.name != UNCOUNTED:
            self._accounts.service_calls += 1
            if response.success:
                self._accounts.service_latency.add(time.perf_counter() - call.began_s)
        return True


def _steps(answer: Callable[[], Steps | None]) -> Steps:
    steps = answer()
    if steps is not None:
        yield from steps

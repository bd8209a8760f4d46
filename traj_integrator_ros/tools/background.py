"""Work in a thread of its own: callbacks and Ctrl-C do not wait for it, and it does not keep the process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")
NAME = "background work"
"""Name of the threads."""


def in_background(work: Callable[[], Result]) -> Future[Result]:
    """Begin work; returns the future of its result or error. The work cannot be cancelled."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # Any error belongs to the waiting caller.
            future.set_exception(error)

    threading.Thread(target=run, name=NAME, daemon=True).start()
    return future

"""Work in a thread of its own, which keeps neither callbacks nor Ctrl-C waiting, nor the process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")
NAME = "background work"
"""Name of the threads."""


def in_background(work: Callable[[], Result]) -> Future[Result]:
    """Begin work; the future has its result or error. It cannot be cancelled."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # any error belongs to the waiting caller
            future.set_exception(error)

    threading.Thread(target=run, name=NAME, daemon=True).start()
    return future

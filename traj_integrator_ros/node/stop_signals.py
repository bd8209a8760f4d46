"""SIGINT and SIGTERM end the process within 2 s, with exit code 0 and no traceback, whatever it is doing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import NoReturn

GRACE_S = 1.0
"""Longest time of an orderly shutdown, s; then the process ends in any case."""
NOTICED_S = 0.2


class StopSignals:
    """Watches for SIGINT and SIGTERM from a thread of its own, which works even while the main thread is in C code.

    Before `orderly()` is called, imports are in progress and there is nothing to shut down: the process ends at once.
    """

    def __init__(self) -> None:
        self._received = threading.Event()
        self._orderly = False
        self._read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _ignore)
        threading.Thread(target=self._watch, name="stop_signals", daemon=True).start()

    @property
    def received(self) -> bool:
        """Return whether a signal has arrived, after something has failed that fails when the context ends.

        The context may end, and the main thread fail because of that, a moment before the watching thread has its turn.
        """
        return self._received.wait(NOTICED_S)

    def orderly(self) -> None:
        """Leave the signals to rclpy from now on, with time for an orderly shutdown."""
        self._orderly = True

    def end_process(self) -> NoReturn:
        """End the process with exit code 0, without finalizing the interpreter.

        Finalizing takes seconds with torch on a busy machine, and restores the default action of the signals: a second
        signal, usual with Ctrl-C in a terminal, which ros2 launch passes on as well, would then kill the process.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _watch(self) -> None:
        while not set(os.read(self._read, 64)) & {signal.SIGINT, signal.SIGTERM}:
            pass
        self._received.set()
        if self._orderly:
            threading.Event().wait(GRACE_S)
        os._exit(0)


def _ignore(number: int, frame: object) -> None:
    """Replace Python's handlers, so that SIGINT never raises KeyboardInterrupt."""

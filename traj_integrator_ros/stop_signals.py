"""SIGINT and SIGTERM end the process within 2 s, with exit code 0 and no traceback, whatever it is doing."""

from __future__ import annotations

import os
import signal
import threading

GRACE_S = 1.0
"""Time for an orderly end; after it the process ends all the same."""


class StopSignals:
    """Watches for SIGINT and SIGTERM from a thread of its own, which works even while the main thread is in C code.

    Before `orderly()` is called there is nothing to end in order (imports are going on) and the process ends at once.
    """

    def __init__(self) -> None:
        self.received = False
        """Whether one of the signals has come."""
        self._orderly = False
        self._read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _ignore)
        threading.Thread(target=self._watch, name="stop_signals", daemon=True).start()

    def orderly(self) -> None:
        """From now on somebody else (rclpy) reacts to the signals; grant time for that."""
        self._orderly = True

    def ignore(self) -> None:
        """From now on the signals do nothing: the end of the interpreter would restore their default, which kills.

        A second signal is usual: Ctrl-C in a terminal reaches the node directly, and once more through ros2 launch.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _watch(self) -> None:
        while not set(os.read(self._read, 64)) & {signal.SIGINT, signal.SIGTERM}:
            pass
        self.received = True
        if self._orderly:
            threading.Event().wait(GRACE_S)
        os._exit(0)


def _ignore(number: int, frame: object) -> None:
    """Take the place of Python's handlers, so that SIGINT raises no KeyboardInterrupt anywhere."""

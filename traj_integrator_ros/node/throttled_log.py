"""Throttled logging: a flood of bad input does not become a flood of lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

QUIET_S = 5.0
_KEYS_KEPT = 256


class ThrottledLog:
    """Logs the first line of each key at once, then at most one every 5 s, with the number of suppressed ones.

    Args:
        log: takes a line.

    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._last: dict[Hashable, float] = {}
        self._left_out: dict[Hashable, int] = {}

    def __call__(self, key: Hashable, line: str) -> bool:
        """Log a line, or count it as suppressed; return whether it was logged."""
        now = time.monotonic()
        if now - self._last.get(key, -QUIET_S) < QUIET_S:
            self._left_out[key] = self._left_out.get(key, 0) + 1
            return False
        if len(self._last) >= _KEYS_KEPT:
            self._last.clear()
            self._left_out.clear()
        self._last[key] = now
        left_out = self._left_out.pop(key, 0)
        self._log(f"{line} ({left_out} more like it since the last such line)" if left_out else line)
        return True

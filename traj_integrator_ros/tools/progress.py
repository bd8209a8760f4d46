"""Shows progress of long work in plain lines."""

from __future__ import annotations

import time

EVERY_S = 5.0
"""Time between two lines, s."""


class Progress:
    """A line for each stage, and one every few seconds during it; nothing where `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._total, self._told = None, 0.0

    def stage(self, text: str, total_s: float | None = None) -> None:
        """Begin a new stage, which lasts `total_s`, s, if that is known."""
        if not self._quiet:
            length = "" if total_s is None else f" ({total_s:.0f} s)"
            print(f"{text}{length} ...", flush=True)
        self._total, self._told = total_s, time.monotonic()

    def update(self, done: float, detail: str = "") -> None:
        """Report how much of the stage is done, s."""
        if not self._quiet and self._total is not None and (now := time.monotonic()) - self._told >= EVERY_S:
            self._told = now
            print(f"  {done:3.0f} of {self._total:.0f} s  {detail}", flush=True)

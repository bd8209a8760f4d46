"""Shows progress of long work in plain lines."""

from __future__ import annotations

import time

EVERY_S = 5.0
"""Time between two lines, s."""


class Progress:
    """A line for each stage, and one every few seconds during it; nothing where `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._total, self._unit, self._told = None, "s", 0.0

    def stage(self, text: str, total: float | None = None, unit: str = "s") -> None:
        """Begin a new stage; `total` is its length in seconds (or another unit), if known."""
        if not self._quiet:
            length = "" if total is None else f" ({total:.0f} {unit})"
            print(f"{text}{length} ...", flush=True)
        self._total, self._unit, self._told = total, unit, time.monotonic()

    def update(self, done: float, detail: str = "") -> None:
        """Report how much of the stage is done, in its unit."""
        if not self._quiet and self._total is not None and (now := time.monotonic()) - self._told >= EVERY_S:
            self._told = now
            print(f"  {done:3.0f} of {self._total:.0f} {self._unit}  {detail}", flush=True)

"""Shows progress: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, suppress

PLAIN_EVERY = 5.0


class Progress(AbstractContextManager):
    """A bar if standard output is a terminal (and rich is installed), else a line every few seconds, or nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet, self._bar, self._task = quiet, None, None
        self._total, self._unit, self._told = None, "s", 0.0
        if sys.stdout.isatty() and not quiet:
            with suppress(ImportError):
                self._bar = _bar()

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            if error[0] is None:
                self._fill()
            self._bar.stop()

    def stage(self, text: str, total: float | None = None, unit: str = "s") -> None:
        """Begin a new stage; `total` is its length in seconds (or another unit), if known."""
        if self._bar is not None:
            self._fill()
            self._task = self._bar.add_task(text, total=total, detail="")
        elif not self._quiet:
            length = "" if total is None else f" ({total:.0f} {unit})"
            print(f"{text}{length} ...", flush=True)
        self._total, self._unit, self._told = total, unit, time.monotonic()

    def update(self, done: float, detail: str = "") -> None:
        """Report how much of the stage is done, in its unit."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, detail=detail)
        elif not self._quiet and self._total is not None and (now := time.monotonic()) - self._told >= PLAIN_EVERY:
            self._told = now
            print(f"  {done:3.0f} of {self._total:.0f} {self._unit}  {detail}", flush=True)

    def _fill(self) -> None:
        if self._task is not None:
            self._bar.update(self._task, total=self._total or 1.0, completed=self._total or 1.0)


def _bar() -> object:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    texts = TextColumn("{task.description:<32}"), TextColumn("{task.fields[detail]}")
    return Progress(SpinnerColumn(), texts[0], BarColumn(bar_width=36), TimeRemainingColumn(), texts[1])

"""Shows progress: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager

PLAIN_EVERY = 5.0


class Progress(AbstractContextManager):
    """Reports the progress of something that takes a while; this one shows nothing."""

    def __exit__(self, *error: object) -> None:
        """Leave the terminal as it was."""

    def stage(self, text: str, total: float | None = None, unit: str = "s") -> None:
        """Begin a new stage, whose length in seconds (or another unit) is `total`, if that is known."""

    def update(self, done: float, detail: str = "") -> None:
        """Report how far the stage is, in its unit."""


def make_progress(quiet: bool = False) -> Progress:
    """A bar where standard output is a terminal (and rich is installed), plain lines otherwise, or nothing."""
    if quiet:
        return Progress()
    if sys.stdout.isatty():
        try:
            return BarProgress()
        except ImportError:
            pass
    return PlainProgress()


class PlainProgress(Progress):
    """One line for each stage, and one every few seconds."""

    def __init__(self) -> None:
        self._total, self._unit, self._told = None, "s", 0.0

    def stage(self, text: str, total: float | None = None, unit: str = "s") -> None:
        """Print the stage."""
        self._total, self._unit, self._told = total, unit, time.monotonic()
        length = "" if total is None else f" ({total:.0f} {unit})"
        print(f"{text}{length} ...", flush=True)

    def update(self, done: float, detail: str = "") -> None:
        """Print how far it is, every few seconds."""
        now = time.monotonic()
        if self._total is None or now - self._told < PLAIN_EVERY:
            return
        self._told = now
        print(f"  {done:3.0f} of {self._total:.0f} {self._unit}  {detail}", flush=True)


class BarProgress(Progress):
    """A progress bar by rich; a stage without a known length pulses."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        texts = TextColumn("{task.description:<32}"), TextColumn("{task.fields[detail]}")
        self._progress = Progress(SpinnerColumn(), texts[0], BarColumn(bar_width=36), TimeRemainingColumn(), texts[1])
        self._task = None
        self._total = 1.0

    def __enter__(self) -> Progress:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._finish()
        self._progress.stop()

    def stage(self, text: str, total: float | None = None, unit: str = "s") -> None:
        """End the previous bar and begin a new one."""
        self._finish()
        self._task, self._total = self._progress.add_task(text, total=total, detail=""), total or 1.0

    def update(self, done: float, detail: str = "") -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, detail=detail)

    def _finish(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=self._total, completed=self._total)

"""Error handling of all readers: any error of a library becomes one line with the file and the reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from .samples import RecordingError

Motion = TypeVar("Motion")
_LONGEST = 300
"""Largest number of characters of a library's reason, which may quote the file."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn every error of the `with` block into a RecordingError of one line, with the error as its cause.

    There is no list of types: each library behind the readers has its own errors, and raises those of struct, numpy and
    memory for sizes in damaged bytes.
    """
    try:
        yield
    except RecordingError:
        raise
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or reason(error)}") from error
    except RecursionError as error:
        raise RecordingError(f"{path}: cannot be read: its parts are nested too deeply") from error
    except MemoryError as error:
        raise RecordingError(f"{path}: cannot be read: a size in it is larger than the memory") from error
    except Exception as error:
        raise RecordingError(f"{path}: cannot be read: {reason(error)}") from error


def each_read(path: Path, motions: Iterator[Motion]) -> Iterator[Motion]:
    """Yield what an iterator reads from a file. Its errors become those of `reading`; errors of the consumer do not."""
    while True:
        with reading(path):
            try:
                motion = next(motions)
            except StopIteration:
                return
        yield motion


def reason(error: Exception) -> str:
    """Return what an error says, in one line; the name of its type if it says nothing."""
    text = " ".join(str(error).split())
    return f"{text[:_LONGEST]}{'...' if len(text) > _LONGEST else ''}" if text else type(error).__name__

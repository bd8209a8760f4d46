"""The one door of all readers: whatever a library raises for a file becomes one line: the file and the reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from .samples import RecordingError

Motion = TypeVar("Motion")
_LONGEST = 300
"""Characters of a library's reason; some quote the file."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn every error that the block meets in a file into a RecordingError of one line.

    No list of types: each of the libraries behind the readers has its own errors, and those of struct, numpy and memory
    for sizes that damage has made of other bytes. The error itself is the cause of the RecordingError.
    """
    try:
        yield
    except RecordingError:
        raise
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or _reason(error)}") from error
    except RecursionError as error:
        raise RecordingError(f"{path}: cannot be read: its parts are nested too deeply") from error
    except MemoryError as error:
        raise RecordingError(f"{path}: cannot be read: a size in it is larger than the memory") from error
    except Exception as error:
        raise RecordingError(f"{path}: cannot be read: {_reason(error)}") from error


def each_read(path: Path, motions: Iterator[Motion]) -> Iterator[Motion]:
    """What an iterator reads from a file, with its errors as in `reading`; those of who takes them are left alone."""
    while True:
        with reading(path):
            try:
                motion = next(motions)
            except StopIteration:
                return
        yield motion


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{text[:_LONGEST]}{'...' if len(text) > _LONGEST else ''}" if text else type(error).__name__

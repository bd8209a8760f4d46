"""Keeps freed memory for the next message: getting new pages from the system takes longer than filling them."""

from __future__ import annotations

import ctypes
import os

KEPT_BYTES = 64 * 2**20
"""Largest amount of freed memory at the end of a heap that the process keeps."""
LARGEST_BYTES = 32 * 2**20
"""Larger blocks are released at once (by default from 0.1 MiB on); the largest value that every glibc accepts."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt(3)
_SET_BY_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory, if it is glibc and the user has not set its parameters.

    Measured with batches of 1,000 x 32 x 7 (3.6 MB out): 2.3 ms instead of 7.2 ms from sequence to trajectories.

    Returns:
        Whether it does.

    """
    if any(name in os.environ for name in _SET_BY_USER):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    kept = ((_MMAP_THRESHOLD, LARGEST_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES))
    return all(mallopt(parameter, value) for parameter, value in kept)

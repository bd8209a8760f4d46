"""Shared memory of the middleware: removes segments that killed processes left behind.

Fast DDS keeps a segment for each participant and removes it when the participant ends. A process that is killed leaves
its segment in memory until the machine restarts. Each segment has a lock file, which is locked while its owner lives.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

FOLDER = Path("/dev/shm")
_SEGMENT = re.compile(r"fast(dds|rtps)_[0-9a-f]{16}")
_OF_MIDDLEWARE = re.compile(r"(sem\.)?fast(dds|rtps)_")
MANY_FILES = 100
"""Number of files beyond which the node warns: living processes seldom have more, and 148 files of killed nodes made
messages 4 ms slower.
"""
_LOCK_SUFFIX = "_el"
_OLDEST_START_S = 3.0
"""Age of a lock file, s, below which its process may have created it without having locked it yet."""


def remove_abandoned_segments(folder: Path = FOLDER) -> int:
    """Remove the segments of this user's dead processes, and their lock files; safe at any time.

    Files of ports are left: they are small, and Fast DDS reuses their names.

    Returns:
        Number of segments removed; 0 if there is no such folder.

    """
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    segments = (name.removesuffix(_LOCK_SUFFIX) for name in names if name.endswith(_LOCK_SUFFIX))
    return sum(_remove_if_abandoned(folder / name) for name in segments if _SEGMENT.fullmatch(name))


def files_of_middleware(folder: Path = FOLDER) -> int:
    """Count the files of Fast DDS in shared memory, of all users, with ports and semaphores; 0 without a folder.

    Each new participant reads all of them: with some hundred, messages take milliseconds longer.
    """
    try:
        return sum(_OF_MIDDLEWARE.match(name) is not None for name in os.listdir(folder))
    except OSError:
        return 0


def _remove_if_abandoned(segment: Path) -> bool:
    lock = segment.with_name(segment.name + _LOCK_SUFFIX)
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # The file is gone, or another user's.
        return False
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or time.time() - status.st_ctime < _OLDEST_START_S:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have removed it between opening and locking.
        if os.stat(lock, follow_symlinks=False).st_ino != status.st_ino:
            return False
        segment.unlink(missing_ok=True)
        lock.unlink()
        return True
    except OSError:  # The segment is in use, or gone by now.
        return False
    finally:
        os.close(descriptor)

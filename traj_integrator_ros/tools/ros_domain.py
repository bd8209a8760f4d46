"""A private ROS domain, for programs that must not hear others: tests, demo, soak, benchmarks and figures."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

DOMAINS = range(1, 102)  # larger ids collide with the ports that Linux hands out to ordinary connections
PARTICIPANTS = 10

_locks: list[int] = []  # file descriptors; a lock lasts as long as its process


def claim_domain() -> int:
    """A ROS domain id that no other process on this machine uses, locked until this process ends.

    No two processes that claim a domain this way get the same one, even if one has no node yet. Nodes of processes
    that claimed nothing are detected by their ports. The domain of this shell (ROS_DOMAIN_ID) is left to its user, who
    may start a robot there at any time.

    Raises:
        OSError: all domains are claimed or in use.

    """
    folder = Path(tempfile.gettempdir()) / "traj_integrator_ros_domains"
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)  # for all users, as the folder that it lies in
    candidates = [domain for domain in DOMAINS if domain != _domain_of_this_shell()]
    for domain in random.SystemRandom().sample(candidates, len(candidates)):
        lock = _try_to_lock(folder / f"{domain}.lock")
        if lock is None:
            continue
        if _is_silent(domain):
            _locks.append(lock)
            return domain
        os.close(lock)
    raise OSError(f"all {len(candidates)} ROS domains are claimed (locks in {folder}) or have nodes")


def _domain_of_this_shell() -> int | None:
    try:
        return int(os.environ.get("ROS_DOMAIN_ID", ""))
    except ValueError:  # unset, or nothing that rcl would take
        return None


def _try_to_lock(file: Path) -> int | None:
    try:
        try:
            lock = os.open(file, os.O_RDONLY)  # to read, for it may be another user's
        except FileNotFoundError:
            lock = os.open(file, os.O_RDONLY | os.O_CREAT, 0o644)
    except PermissionError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _is_silent(domain: int) -> bool:
    """Whether the ports at which the first participants of a domain listen are free."""
    for participant in range(PARTICIPANTS):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("", 7410 + 250 * domain + 2 * participant))
            except OSError:
                return False
    return True

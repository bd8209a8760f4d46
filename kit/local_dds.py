"""DDS that stays on this machine, in a ROS domain of its own: for tests, soak, benchmarks and figures.

Knows no ROS.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from traj_integrator_ros.wire.transport import PROFILE_VARIABLES, profile_variable

PROFILE = "fastdds_localhost.xml"
DOMAINS = range(1, 102)  # larger ids collide with the ports that Linux hands out to ordinary connections
PARTICIPANTS = 10

_locks: list[int] = []  # file descriptors; a lock lasts as long as its process


def stay_local(profile: str | None = PROFILE) -> None:
    """Restrict DDS of this process and its children to this machine; call it before anything imports rclpy.

    Discovery range, domain and transport profile (of config/; None: none) are kept if they are already set.
    """
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    if "ROS_DOMAIN_ID" not in os.environ:
        os.environ["ROS_DOMAIN_ID"] = str(claim_domain())
    if profile is not None and not any(name in os.environ for name in PROFILE_VARIABLES):
        os.environ[profile_variable()] = str(config_file(profile))


def isolate(profile: str | None = PROFILE) -> None:
    """Like `stay_local`, but set a domain of its own and this profile even if the environment has others."""
    for name in ("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_DOMAIN_ID", *PROFILE_VARIABLES):
        os.environ.pop(name, None)
    stay_local(profile)


def config_file(name: str) -> Path:
    """Return the path of a file of config/."""
    return Path(__file__).resolve().parents[1] / "config" / name


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
        folder.chmod(0o1777)  # open to all users, like the folder around it
    candidates = [domain for domain in DOMAINS if str(domain) != os.environ.get("ROS_DOMAIN_ID", "").strip()]
    for domain in random.SystemRandom().sample(candidates, len(candidates)):
        lock = _try_to_lock(folder / f"{domain}.lock")
        if lock is None:
            continue
        if _is_silent(domain):
            _locks.append(lock)
            return domain
        os.close(lock)
    raise OSError(f"all {len(candidates)} ROS domains are claimed (locks in {folder}) or have nodes")


def _try_to_lock(file: Path) -> int | None:
    """A lock on a file; None if another process has it, or the file cannot be made."""
    try:
        # Opened for reading, since it may belong to another user.
        lock = os.open(file, os.O_RDONLY) if file.exists() else os.open(file, os.O_RDONLY | os.O_CREAT, 0o644)
    except PermissionError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _is_silent(domain: int) -> bool:
    """Return whether the ports at which the first participants of a domain listen are free."""
    for participant in range(PARTICIPANTS):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("", 7410 + 250 * domain + 2 * participant))
            except OSError:
                return False
    return True

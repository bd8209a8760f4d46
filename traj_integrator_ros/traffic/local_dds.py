"""DDS that stays on this machine, in a ROS domain that nobody else here uses. Imports neither ROS nor torch."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import sys
import tempfile
from pathlib import Path

LARGEST_DOMAIN_ID = 101
"""Larger ids collide with the ports that Linux hands out to ordinary connections."""
PROFILE = "fastdds_localhost.xml"
PROFILE_VARIABLES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
"""Name a transport profile to Fast DDS 3 and to Fast DDS 2."""

_locks: list[int] = []  # file descriptors; the locks last as long as this process


class NoFreeDomain(Exception):
    """Every ROS domain is taken."""


def claim_domain() -> int:
    """Lock a ROS domain id for as long as this process lives, and return it.

    No two processes on this machine get the same one, whichever user they belong to; ids at whose ports other ROS nodes
    listen are left out. Raises NoFreeDomain.
    """
    folder = Path(tempfile.gettempdir()) / "traj_integrator_ros_domains"
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)  # other users lock here, too
    for domain_id in random.SystemRandom().sample(range(1, LARGEST_DOMAIN_ID + 1), LARGEST_DOMAIN_ID):
        lock = _opened(folder / f"{domain_id}.lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        if _is_silent(domain_id):
            _locks.append(lock)
            return domain_id
        os.close(lock)
    raise NoFreeDomain(f"all {LARGEST_DOMAIN_ID} ROS domain ids are in use or locked; see {folder}")


def stay_local() -> None:
    """Set the environment of this process and its children; call it before anything imports rclpy.

    What is set already stays: discovery range, domain, transport profile.
    """
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    if "ROS_DOMAIN_ID" not in os.environ:
        os.environ["ROS_DOMAIN_ID"] = str(claim_domain())
    if not any(name in os.environ for name in PROFILE_VARIABLES):
        os.environ.update(profile_environment(PROFILE))


def isolate(profile: str | None = PROFILE) -> None:
    """As `stay_local`, whatever is set already: a domain of its own, and this profile of config/ (None: no profile)."""
    for name in ("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_DOMAIN_ID", *PROFILE_VARIABLES):
        os.environ.pop(name, None)
    os.environ.update(ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST", ROS_DOMAIN_ID=str(claim_domain()))
    if profile is not None:
        os.environ.update(profile_environment(profile))


def profile_environment(profile: str) -> dict[str, str]:
    """The variable that names a transport profile of config/ to Fast DDS; empty where that file is not installed."""
    file = config_file(profile)
    # Fast DDS 3 renamed the variable, and warns of the old name.
    has_fast_dds_2 = os.environ.get("ROS_DISTRO") in ("humble", "iron", "jazzy")
    return {PROFILE_VARIABLES[has_fast_dds_2]: str(file)} if file is not None else {}


def config_file(name: str) -> Path | None:
    """A file of config/, in the source tree or installed; None if there is none."""
    source = Path(__file__).resolve().parents[2] / "config" / name
    if source.is_file():
        return source
    for prefix in [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]:
        installed = Path(prefix) / "share" / "traj_integrator_ros" / "config" / name
        if prefix and installed.is_file():
            return installed
    return None


def _opened(file: Path) -> int:
    """A descriptor of a lock file, which may be another user's: a lock needs no permission to write."""
    try:
        return os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(file, os.O_RDONLY | os.O_CREAT, 0o644)


def _is_silent(domain_id: int) -> bool:
    """Whether the ports of the domain's first participants are free."""
    for participant in range(4):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("", 7410 + 250 * domain_id + 2 * participant))
            except OSError:
                return False
    return True

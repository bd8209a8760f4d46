"""DDS that stays on this machine, in a ROS domain of its own. Knows no ROS."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..tools.ros_domain import claim_domain
from ..wire.fast_dds import PROFILE_VARIABLES, profile_variable

PROFILE = "fastdds_localhost.xml"


def stay_local() -> None:
    """Set the environment of this process and its children; call it before anything imports rclpy.

    Discovery range, domain and transport profile are kept if they are already set.
    """
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    if "ROS_DOMAIN_ID" not in os.environ:
        os.environ["ROS_DOMAIN_ID"] = str(claim_domain())
    if not any(name in os.environ for name in PROFILE_VARIABLES):
        os.environ.update(profile_environment(PROFILE))


def isolate(profile: str | None = PROFILE) -> None:
    """Like `stay_local`, overriding the environment: a domain of its own, and this profile of config/ (None: none)."""
    for name in ("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_DOMAIN_ID", *PROFILE_VARIABLES):
        os.environ.pop(name, None)
    os.environ.update(ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST", ROS_DOMAIN_ID=str(claim_domain()))
    if profile is not None:
        os.environ.update(profile_environment(profile))


def profile_environment(profile: str) -> dict[str, str]:
    """The variable that names a transport profile of config/ to Fast DDS; empty if that file is not installed."""
    file = config_file(profile)
    return {profile_variable(): str(file)} if file is not None else {}


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

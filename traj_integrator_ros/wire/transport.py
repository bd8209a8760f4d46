"""Transports that fit the size of the messages, chosen before the middleware starts. Knows no ROS.

Between processes on one machine, Fast DDS sends through shared memory that belongs to the sender, 0.5 MiB by default.
The part of a larger message that does not fit is lost, and is sent again in rounds of 5 ms and more.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROFILE_VARIABLES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
"""Names of the variables with a transport profile: for Fast DDS 3 (Kilted and later) and 2 (Humble, Jazzy)."""
_LIBRARIES = ("libfastdds.so*", "libfastrtps.so*")
LIMIT_VARIABLE = "TRAJ_INTEGRATOR_SHARED_MEMORY_MIB"
"""Name of the variable with the largest shared memory of a process, MiB; 0 leaves transports as they are."""
DEFAULT_LIMIT_MIB = 16
MIB = 2**20
SHARED_MEMORY = Path("/dev/shm")
ARRAYS_IN_MESSAGE = 5
"""Number of arrays in the largest message: actions and four upstream gradients; an answer has four trajectories."""
_FITS_DEFAULT_BYTES = MIB // 4
_MESSAGES_IN_FLIGHT = 2
_MESSAGES_THAT_WAIT = 8192
"""Number of messages that may wait in shared memory until the middleware's thread reads them. The default is 512: then
13,500 messages/s fill it while that thread waits 40 ms for a core, and a call that finds no place comes 1 to 3 s late.
"""
_SHARE_OF_FREE = 4
"""A process takes at most one part in so many of the free shared memory, because its peers need some, too."""
_FAST_RTPS = ("", "rmw_fastrtps_cpp", "rmw_fastrtps_dynamic_cpp")
_CHOSEN_BY_USER = (*PROFILE_VARIABLES, "FASTDDS_BUILTIN_TRANSPORTS", "RMW_FASTRTPS_USE_QOS_FROM_XML")
_FILES_OF_USER = ("DEFAULT_FASTDDS_PROFILES.xml", "DEFAULT_FASTRTPS_PROFILES.xml")
"""Files in the working directory that Fast DDS reads by itself."""
_SEGMENT_IN_USE = re.compile(r"/dev/shm/fast(dds|rtps)_[0-9a-f]{16}")


@dataclass(frozen=True)
class Transport:
    """The chosen transports, with the reason."""

    reason: str
    """Description of the choice, for the log."""
    segment_bytes: int = 0
    """Shared memory for messages that the process sends, bytes; 0 if transports stay as they are."""
    is_short: bool = False
    """True if large messages will be slow for lack of shared memory; then the reason is a warning."""


def prepare_transport(batch: int, horizon: int, dof: int) -> Transport:
    """Let this process send batches of up to this size fast; call it before rclpy makes the first node.

    Sets the environment variable that names a transport profile; child processes inherit it. Nothing changes if
    messages are small, if the user has chosen transports, if there is too little shared memory, or with a middleware
    other than Fast DDS.

    Raises:
        ValueError: TRAJ_INTEGRATOR_SHARED_MEMORY_MIB is not a whole number.
        RuntimeError: the middleware has started already.

    """
    variable = installed_profile_variable()
    message_bytes = 4 * ARRAYS_IN_MESSAGE * batch * horizon * dof
    transport = choose_transport(message_bytes, os.environ, _free_bytes(), has_fast_dds=variable is not None)
    if transport.segment_bytes:
        if _has_started():
            raise RuntimeError("transports: expected a choice before the first node is made, got it after that")
        try:
            os.environ[variable] = str(_profile_file(transport.segment_bytes, stays_local(os.environ)))
        except OSError as error:
            return Transport(f"transports are left as they are: no profile can be written: {error}", is_short=True)
    return transport


def choose_transport(
    message_bytes: int, environment: Mapping[str, str], free_bytes: int | None, *, has_fast_dds: bool = True
) -> Transport:
    """Choose transports by the largest message, bytes, the environment, and the free shared memory, bytes.

    Raises:
        ValueError: TRAJ_INTEGRATOR_SHARED_MEMORY_MIB is not a whole number.

    """
    limit_mib = environment.get(LIMIT_VARIABLE, "") or str(DEFAULT_LIMIT_MIB)
    if not re.fullmatch(r"\d{1,6}", limit_mib):
        raise ValueError(f"{LIMIT_VARIABLE}: expected a whole number of MiB, 0 for none; got {limit_mib!r}")
    limit = int(limit_mib) * MIB
    middleware = environment.get("RMW_IMPLEMENTATION", "")
    size = f"messages of up to {message_bytes / 1e6:.3g} MB"
    if middleware not in _FAST_RTPS:
        return Transport(f"transports are left to {middleware}")
    if not has_fast_dds:
        return Transport("transports are left to the middleware: there is no Fast DDS")
    if limit == 0:
        return Transport(f"transports are left as they are: {LIMIT_VARIABLE} is 0")
    if (named := _choice_of_user(environment)) is not None:
        if named in PROFILE_VARIABLES and free_bytes is not None and free_bytes < 1.1 * DEFAULT_LIMIT_MIB * MIB:
            return Transport(_shortage(free_bytes, f"the profile of {named} may need more"), is_short=True)
        return Transport(f"transports are those of {named}")
    if message_bytes <= _FITS_DEFAULT_BYTES:
        return Transport(f"transports are left as they are: {size} fit")
    wanted = min(limit, -(-_MESSAGES_IN_FLIGHT * message_bytes // MIB) * MIB + MIB)
    if free_bytes is None:
        return Transport(f"{size} go by UDP, which is slower: there is no {SHARED_MEMORY}", is_short=True)
    possible = min(wanted, free_bytes // _SHARE_OF_FREE // MIB * MIB)
    if possible == 0:
        return Transport(_shortage(free_bytes, f"{size} would take {wanted // MIB}"), is_short=True)
    reason = f"shared memory of {possible // MIB} MiB for {size}"
    if possible < min(wanted, message_bytes + MIB):
        return Transport(f"{reason}: {_shortage(free_bytes, 'a part of them')}", possible, is_short=True)
    return Transport(reason, possible)


def profile_variable() -> str:
    """Return the name of the variable with the transport profile, by default that of Fast DDS 3."""
    return installed_profile_variable() or PROFILE_VARIABLES[0]


def installed_profile_variable() -> str | None:
    """Return the name of the variable for the installed Fast DDS; None if there is none.

    Fast DDS 3 has renamed the variable and its library. The first prefix of the environment with one of the two
    libraries decides; setting both variables would cause a warning about the old name.
    """
    for prefix in [*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)), sys.prefix]:
        for variable, library in zip(PROFILE_VARIABLES, _LIBRARIES, strict=True):
            # Debian's multiarch folders hold the libraries of some installations.
            if any(Path(prefix).glob(f"lib/{library}")) or any(Path(prefix).glob(f"lib/*-linux-gnu/{library}")):
                return variable
    return None


def stays_local(environment: Mapping[str, str]) -> bool:
    """Return whether ROS is restricted to this machine, so that the profile must send nothing out."""
    by_range = environment.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "").upper() == "LOCALHOST"
    return by_range or environment.get("ROS_LOCALHOST_ONLY") == "1"  # The second name is used up to Humble.


def profile(segment_bytes: int, local: bool) -> str:
    """Return a Fast DDS profile like those in config/: shared memory of this size, and UDP, if `local` on loopback."""
    loopback = "<interfaceWhiteList><address>127.0.0.1</address></interfaceWhiteList>" if local else ""
    return f"""<?xml version="1.0" encoding="UTF-8" ?>
<dds xmlns="http://www.eprosima.com">
  <profiles>
    <transport_descriptors>
      <transport_descriptor>
        <transport_id>shared_memory</transport_id>
        <type>SHM</type>
        <segment_size>{segment_bytes}</segment_size>
        <port_queue_capacity>{_MESSAGES_THAT_WAIT}</port_queue_capacity>
      </transport_descriptor>
      <transport_descriptor>
        <transport_id>udp</transport_id>
        <type>UDPv4</type>{loopback}
      </transport_descriptor>
    </transport_descriptors>
    <participant profile_name="large_messages" is_default_profile="true">
      <rtps>
        <useBuiltinTransports>false</useBuiltinTransports>
        <userTransports>
          <transport_id>shared_memory</transport_id>
          <transport_id>udp</transport_id>
        </userTransports>
      </rtps>
    </participant>
  </profiles>
</dds>
"""


def _choice_of_user(environment: Mapping[str, str]) -> str | None:
    """Return the variable or file by which the user has chosen transports; None if there is none."""
    set_ones = (name for name in _CHOSEN_BY_USER if environment.get(name))
    return next(set_ones, None) or next((name for name in _FILES_OF_USER if Path(name).is_file()), None)


def _shortage(free_bytes: int, what: str) -> str:
    return (
        f"{SHARED_MEMORY} has {free_bytes / MIB:.0f} MiB left, and {what}: large messages go by UDP or in pieces, "
        "which is slower (in Docker: --shm-size=256m)"
    )


def _free_bytes() -> int | None:
    """Return the free shared memory, bytes; None if there is no shared memory."""
    try:
        space = os.statvfs(SHARED_MEMORY)
    except OSError:
        return None
    return space.f_bavail * space.f_frsize


def _has_started() -> bool:
    """Return whether the middleware has allocated its shared memory, and so has read its profile."""
    return _SEGMENT_IN_USE.search(Path("/proc/self/maps").read_text(encoding="utf-8")) is not None


def _profile_file(segment_bytes: int, local: bool) -> Path:
    """Write the profile to ROS's own folder, where users can read it, or to a temporary file where that is read-only.

    Processes with equal needs share a file, so files do not accumulate; it is replaced atomically, even while being
    read.

    Raises OSError.
    """
    text = profile(segment_bytes, local).encode()
    folder = Path(os.environ.get("ROS_HOME") or Path.home() / ".ros") / "traj_integrator_ros"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, written = tempfile.mkstemp(dir=folder)
    except (OSError, RuntimeError):  # There is no home directory.
        descriptor, written = tempfile.mkstemp(prefix="traj_integrator_ros_", suffix=".xml")
        folder = None
    with open(descriptor, "wb") as file:
        file.write(text)
    if folder is None:
        return Path(written)
    name = f"fastdds_{segment_bytes // MIB}_mib{'_localhost' if local else ''}.xml"
    return Path(written).replace(folder / name)

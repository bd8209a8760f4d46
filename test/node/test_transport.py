"""The transport profiles of config/ are honoured by the installed middleware."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from node_fixtures import ClientFactory, NodeFactory
from ros_client import sequence

from traj_integrator_ros.node.shared_memory import SEGMENT_BYTES

pytestmark = pytest.mark.ros


@pytest.mark.parametrize("profile", ["fastdds_shared_memory", "fastdds_localhost"])
def test_a_profile_gives_the_node_a_large_segment_and_others_still_reach_it(
    start_node: NodeFactory, connect: ClientFactory, monkeypatch: pytest.MonkeyPatch, project_root: Path, profile: str
) -> None:
    for variable in ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"):
        monkeypatch.setenv(variable, str(project_root / "config" / f"{profile}.xml"))
    process = start_node()
    client = connect()
    client.wait_until_active()
    segments = mapped_segments(process.pid)
    assert any(SEGMENT_BYTES <= size < 1.1 * SEGMENT_BYTES for size in segments), segments
    client.answer(sequence(np.zeros((64, 64, 3)), position=np.zeros(3)))
    if profile == "fastdds_localhost":
        receiving = {address for address, port in udp_sockets(process.pid) if 7000 <= port < 32_768}
        assert receiving == {"127.0.0.1"}


def mapped_segments(pid: int) -> list[int]:
    """Sizes of the shared memory that the middleware has mapped, bytes."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    spans = [line.split()[0].split("-") for line in lines if re.search(r"/dev/shm/fast(dds|rtps)_[0-9a-f]{16}", line)]
    return [int(end, 16) - int(begin, 16) for begin, end in spans]


def udp_sockets(pid: int) -> list[tuple[str, int]]:
    """Local address and port of each UDP socket of a process; ports below 32768 are those of discovery and data."""
    links = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()]
    inodes = {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
    found = []
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        columns = line.split()
        if columns[9] in inodes:
            address, port = columns[1].split(":")
            found.append((".".join(str(byte) for byte in reversed(bytes.fromhex(address))), int(port, 16)))
    return found

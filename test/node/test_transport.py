"""Transports as the installed middleware has them: chosen by size, or profiles of config/."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import large_batch
import node_variants
import numpy as np
import pytest
from large_batch import mapped_segments
from node_fixtures import NodeServer

from traj_integrator_ros.traffic.messages import sequence
from traj_integrator_ros.wire.transport import DEFAULT_LIMIT_MIB, MIB

pytestmark = pytest.mark.ros
PROFILE_BYTES = DEFAULT_LIMIT_MIB * MIB


def large_batch_through_a_node(*command: str) -> dict[str, object]:
    program = [*command, sys.executable, large_batch.__file__]
    done = subprocess.run(program, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_large_batch_goes_through_shared_memory_without_any_setting() -> None:
    found = large_batch_through_a_node()
    assert found["client"] == "shared memory of 10 MiB for messages of up to 4.48 MB"
    assert found["node"] == [found["client"]]
    assert any(10 * MIB <= size < 11 * MIB for size in found["segments"]), found


@pytest.mark.skipif(not node_variants.may_mount(), reason="no permission to mount a small /dev/shm")
def test_without_room_in_shared_memory_it_goes_by_udp_and_both_sides_say_so() -> None:
    found = large_batch_through_a_node(*node_variants.shared_memory_of("100k"))
    assert len(found["node"]) == 1 and not found["segments"]
    for reason in (found["client"], *found["node"]):
        assert "/dev/shm has 0 MiB left" in reason and "UDP" in reason


@pytest.mark.parametrize("profile", ["fastdds_shared_memory", "fastdds_localhost"])
def test_a_profile_gives_the_node_a_large_segment_and_others_still_reach_it(
    serve: NodeServer, monkeypatch: pytest.MonkeyPatch, project_root: Path, profile: str
) -> None:
    for variable in ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"):
        monkeypatch.setenv(variable, str(project_root / "config" / f"{profile}.xml"))
    process, client = serve()
    segments = mapped_segments(process.pid)
    assert any(PROFILE_BYTES <= size < 1.1 * PROFILE_BYTES for size in segments), segments
    client.answer(sequence(np.zeros((64, 64, 3)), position=np.zeros(3)))
    if profile == "fastdds_localhost":
        receiving = {address for address, port in udp_sockets(process.pid) if 7000 <= port < 32_768}
        assert receiving == {"127.0.0.1"}


def udp_sockets(pid: int) -> list[tuple[str, int]]:
    """Local address and port of each UDP socket of a process; ports below 32768 serve discovery and data."""
    links = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()]
    inodes = {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
    found = []
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        columns = line.split()
        if columns[9] in inodes:
            address, port = columns[1].split(":")
            found.append((".".join(str(byte) for byte in reversed(bytes.fromhex(address))), int(port, 16)))
    return found

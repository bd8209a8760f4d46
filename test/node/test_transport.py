"""Transports as the installed middleware has them: chosen by size, or profiles of config/."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import large_batch
import node_variants
import numpy as np
import pytest
from node_fixtures import NodeFactory, NodeServer

from kit.node_process import NodeProcess, source_environment
from traj_integrator_ros.client import sequence
from traj_integrator_ros.wire import transport
from traj_integrator_ros.wire.transport import DEFAULT_LIMIT_MIB, MIB, PROFILE_VARIABLES

pytestmark = pytest.mark.ros
PROFILE_BYTES = DEFAULT_LIMIT_MIB * MIB


@pytest.fixture
def send_large_batch(start_node: NodeFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple]:
    """Sends a large batch to a node; returns the node, and the logs of client and node about transports."""

    def send(*size: str, **options: object) -> tuple[NodeProcess, str, list[str]]:
        for name in PROFILE_VARIABLES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("ROS_HOME", str(tmp_path))
        names = ("max_batch", "max_horizon")
        changes = {"joint_names": large_batch.JOINTS, **dict(zip(names, large_batch.SHAPE, strict=False))}
        node = start_node(changes, **options)
        command = [sys.executable, large_batch.__file__, *size]
        environment = {**os.environ, **source_environment()}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stdout + done.stderr + node.output
        reasons = [line.rpartition("]: ")[2] for line in node.output.splitlines() if "messages of up to" in line]
        return node, done.stdout.splitlines()[-1], reasons

    return send


def test_a_large_batch_goes_through_shared_memory_without_any_setting(send_large_batch: Callable[..., tuple]) -> None:
    node, chosen, reasons = send_large_batch()
    assert chosen == "shared memory of 10 MiB for messages of up to 4.48 MB"
    assert reasons == ["shared memory of 16 MiB for messages of up to 36.7 MB"]
    segments = mapped_segments(node.pid)
    assert any(16 * MIB <= size < 17 * MIB for size in segments), segments


@pytest.mark.skipif(not node_variants.may_mount(), reason="no permission to mount a small /dev/shm")
def test_without_room_in_shared_memory_it_goes_by_udp_and_says_so(
    send_large_batch: Callable[..., tuple],
) -> None:
    _, chosen, [told] = send_large_batch("100k", variant=node_variants.with_hardly_any_shared_memory)
    for reason in (chosen, told):
        assert "/dev/shm has 0 MiB left" in reason and "UDP" in reason


@pytest.mark.parametrize("profile", ["fastdds_shared_memory", "fastdds_localhost"])
def test_a_profile_gives_a_large_segment_and_others_still_reach_it(
    serve: NodeServer, monkeypatch: pytest.MonkeyPatch, project_root: Path, profile: str
) -> None:
    for variable in PROFILE_VARIABLES:
        monkeypatch.setenv(variable, str(project_root / "config" / f"{profile}.xml"))
    process, client = serve()
    segments = mapped_segments(process.pid)
    assert any(PROFILE_BYTES <= size < 1.1 * PROFILE_BYTES for size in segments), segments
    client.answer(sequence(np.zeros((64, 64, 3)), position=np.zeros(3)))
    assert transport._has_started(), "this process can tell that it is too late for a choice"
    if profile == "fastdds_localhost":
        receiving = {address for address, port in udp_sockets(process.pid) if 7000 <= port < 32_768}
        assert receiving == {"127.0.0.1"}


def mapped_segments(pid: int) -> list[int]:
    """Sizes of the shared memory that the middleware has mapped, bytes."""
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    spans = [line.split()[0].split("-") for line in lines if re.search(r"/dev/shm/fast(dds|rtps)_[0-9a-f]{16}", line)]
    return [int(end, 16) - int(begin, 16) for begin, end in spans]


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

"""Remains of killed processes are removed, and nothing else; too little shared memory stops no process."""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

import pytest
from node_fixtures import SEQUENCE, NodeServer

from traj_integrator_ros.node import shared_memory
from traj_integrator_ros.node.shared_memory import files_of_middleware, remove_abandoned_segments

pytestmark = pytest.mark.ros


def segment(folder: Path, name: str) -> Path:
    """Make a segment and its lock file; returns the latter."""
    lock = folder / f"{name}_el"
    for file in (folder / name, lock):
        file.write_bytes(b"")
    return lock


def test_only_what_dead_processes_of_this_user_have_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [segment(tmp_path, name) for name in ("fastdds_0123456789abcdef", "fastrtps_0123456789abcdef")]
    in_use = segment(tmp_path, "fastdds_3333333333333333")
    for name in ("fastdds_port7411", "somebodys_0123456789abcdef", "fastdds_0123456789abcdef0"):
        segment(tmp_path, name)
    (tmp_path / "fastdds_0000000000000000").write_bytes(b"no lock file: its owner is just starting")
    (tmp_path / "fastdds_1111111111111111_el").symlink_to(tmp_path / "fastdds_port7411")
    (tmp_path / "fastdds_2222222222222222_el").mkdir()
    before = {*tmp_path.iterdir()}
    with in_use.open("rb") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        assert remove_abandoned_segments(tmp_path) == 0, "all are as young as of processes that are just starting"
        monkeypatch.setattr(shared_memory, "_OLDEST_START_S", 0.0)
        with monkeypatch.context() as others:
            others.setattr(os, "geteuid", lambda: os.getuid() + 1)
            assert remove_abandoned_segments(tmp_path) == 0
        assert remove_abandoned_segments(tmp_path) == len(left)
        assert before - {*tmp_path.iterdir()} == {*left, *(lock.with_name(lock.name[:-3]) for lock in left)}
        assert remove_abandoned_segments(tmp_path) == 0 == remove_abandoned_segments(tmp_path / "none")


def test_files_of_the_middleware_are_counted_whoever_left_them(tmp_path: Path) -> None:
    names = "fastdds_port7411", "fastdds_port7411_el", "sem.fastdds_port7411_mutex", "fastrtps_0123456789abcdef"
    for name in (*names, "somebodys_fastdds_1", "data"):
        (tmp_path / name).write_bytes(b"")
    assert files_of_middleware(tmp_path) == len(names) and files_of_middleware(tmp_path / "none") == 0


def test_the_segments_of_a_killed_node_go_when_the_next_one_starts(serve: NodeServer) -> None:
    process, client = serve()
    left = own_segments(process.pid)
    assert left
    living = own_segments(os.getpid())
    process.kill()
    time.sleep(shared_memory._OLDEST_START_S)
    process.start()
    process.wait_for_output("active")
    assert not any(file.exists() for file in left)
    assert living and all(file.exists() for file in living)
    client.wait_until_active()
    client.answer(SEQUENCE)


def own_segments(pid: int) -> list[Path]:
    """The segments of a process, by the lock files that it holds open."""
    links = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()]
    return [Path(match[1]) for link in links if (match := re.fullmatch(r"(/dev/shm/fast\w+_[0-9a-f]{16})_el", link))]

"""Recordings that bad sectors, power cuts and killed recorders have damaged."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import time
from pathlib import Path

import numpy as np
from joint_state_rows import joint_state, states
from recorded_messages import JOINT_STATE, write_bag

from traj_integrator_ros.motions.files import read_samples, read_trajectories
from traj_integrator_ros.motions.samples import RecordingError
from traj_integrator_ros.motions.sequences import read_sequences

MOST_BYTES, MOST_S = 2**30, 10.0
"""Memory, and time of the processor, s, that no damaged file may take."""
FORMATS = (
    "db3",
    "mcap",
    "db3.zstd",
    "mcap of zstd chunks",
    "metadata.yaml",
    "db3 with a log",
    "csv",
    "npz",
    "npz packed",
)


def write_whole(folder: Path, kind: str) -> Path:
    """A folder with a recording of this format, of which `damaged` changes one file."""
    folder.mkdir()
    rows = states()
    topics = [("/joint_states", JOINT_STATE, [(row.recorded_ns, joint_state(row)) for row in rows])]
    times = np.array([row.stamp_ns for row in rows])
    position = np.stack([row.position for row in rows])
    if kind in ("db3", "mcap", "metadata.yaml", "db3.zstd", "mcap of zstd chunks", "db3 with a log"):
        storage = "MCAP" if kind.startswith("mcap") else "SQLITE3"
        compression = {"db3.zstd": "FILE", "mcap of zstd chunks": "STORAGE"}.get(kind, "")
        write_bag(folder / "bag", topics, storage=storage, compression=compression)
        if kind == "db3 with a log":
            killed_recorder(folder / "bag")
            shutil.rmtree(folder / "bag")
    elif kind == "csv":
        lines = [f"{at},{','.join(map(repr, row))}" for at, row in zip(times.tolist(), position.tolist(), strict=True)]
        (folder / "a.csv").write_text("\n".join(["time,position_a,position_b", *lines]))
    else:
        save = np.savez_compressed if kind == "npz packed" else np.savez
        save(folder / "a.npz", time=times, position=position, joint_names=["a", "b"])
    (folder / "kind").write_text(kind)
    return folder


def killed_recorder(bag: Path, kept: int = 30) -> Path:
    """The recording as it is when its recorder in WAL mode is killed: the rows behind `kept` are in the log only."""
    (file,) = bag.glob("*.db3")
    recorder = sqlite3.connect(file)
    recorder.execute("PRAGMA journal_mode=WAL")
    recorder.execute("PRAGMA wal_autocheckpoint=0")
    rows = recorder.execute("SELECT topic_id, timestamp, data FROM messages ORDER BY id").fetchall()
    recorder.execute("DELETE FROM messages WHERE id > ?", [kept])
    recorder.commit()
    recorder.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for row in rows[kept:]:
        recorder.execute("INSERT INTO messages(topic_id, timestamp, data) VALUES (?, ?, ?)", row)
        recorder.commit()
    killed = Path(shutil.copytree(bag, bag.with_name("killed")))
    recorder.close()
    return killed


def damaged(whole: Path, to: Path, random: np.random.Generator) -> Path:
    """A copy with one file damaged; returns what a user would give to a tool."""
    shutil.copytree(whole, to)
    kind = (whole / "kind").read_text()
    path = next(one for one in sorted(to.iterdir()) if one.name != "kind")
    suffix = {"metadata.yaml": ".yaml", "db3 with a log": "-wal"}.get(kind)
    files = (
        [path]
        if path.is_file()
        else [one for one in path.iterdir() if one.name.endswith(suffix or "") and one.is_file()]
    )
    file = next(one for one in sorted(files) if suffix or path.is_file() or one.name != "metadata.yaml")
    file.write_bytes(_changed(file.read_bytes(), random))
    return path


def _changed(content: bytes, random: np.random.Generator) -> bytes:
    """Bad sectors, power cuts, and sizes that became others: a part is lost, or something else in its place."""
    begin = int(random.integers(len(content) + 1))
    length = int(random.choice([1, 8, max(2, len(content) // 8), len(content)]))
    part = content[begin : begin + length]
    others = b"", bytes(len(part)), b"\xff" * min(len(part), 8), random.bytes(len(part) + 1), 2 * part
    return content[:begin] + others[int(random.integers(len(others)))] + content[begin + length :]


def assert_read_or_refused(path: Path) -> None:
    """Read a file in every way that there is: within the bounds, or refused in one line about it."""
    begin, before = time.process_time(), _most_bytes()
    for read in (
        lambda: read_samples(path, None, lambda _: None),
        lambda: [*read_trajectories(path, None, lambda _: None)],
        lambda: read_sequences(path, "position", None, lambda _: None),
    ):
        try:
            read()
        except RecordingError as told:
            line = str(told)
            assert len(line.splitlines()) == 1 and path.name in line, repr(line)
            assert line.encode(errors="replace") == line.encode(errors="surrogatepass"), "it can be printed"
    assert time.process_time() - begin <= MOST_S
    assert _most_bytes() - before <= MOST_BYTES


def _most_bytes() -> int:
    """The most memory that this process has had so far: with a torch for CUDA, it has more than 1 GiB by itself."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

"""Recordings that bad sectors, power cuts and killed recorders have damaged."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import time
from dataclasses import dataclass
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
DAMAGES = ("byte", "bytes", "cut", "zeros", "moved", "size", "repeated", "noise", "longer", "empty")


@dataclass(frozen=True)
class Outcome:
    """What reading a file came to: seconds, largest memory in bytes, and an error that is no line about the file."""

    path: Path
    seconds: float
    memory: int
    error: str

    @property
    def is_fine(self) -> bool:
        """Return whether it kept the bounds."""
        return not self.error and self.seconds <= MOST_S and self.memory <= MOST_BYTES


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


def damaged(whole: Path, to: Path, random: np.random.Generator, damage: str) -> Path:
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
    file.write_bytes(_changed(file.read_bytes(), random, damage))
    return path


def _changed(content: bytes, random: np.random.Generator, damage: str) -> bytes:
    """Bad sectors, power cuts, and sizes that became others."""
    changed, size = bytearray(content), len(content)
    at = int(random.integers(size))
    length = int(random.integers(1, max(2, size // 8)))
    if damage in ("byte", "bytes"):
        for place in random.integers(size, size=1 if damage == "byte" else 20):
            changed[place] ^= int(random.integers(1, 256))
    elif damage == "cut":
        del changed[at:]
    elif damage == "zeros":
        changed[at : at + length] = bytes(len(changed[at : at + length]))
    elif damage == "moved":
        del changed[at : at + length]
    elif damage == "size":
        changed[at : at + 8] = b"\xff" * int(random.choice([1, 4, 7]))
    elif damage == "noise":
        changed[at : at + length] = random.bytes(len(changed[at : at + length]))
    elif damage == "longer":
        changed += random.bytes(length)
    elif damage == "empty":
        del changed[int(random.choice([0, 1, 16, 100])) :]
    else:
        changed[at:at] = changed[at : at + length]
    return bytes(changed)


def outcome(path: Path) -> Outcome:
    """Read a file in every way that there is."""
    begin, error = time.process_time(), ""
    for read in (
        lambda: read_samples(path, None, lambda _: None),
        lambda: [*read_trajectories(path, None, lambda _: None)],
        lambda: read_sequences(path, "position", None, lambda _: None),
    ):
        try:
            read()
        except RecordingError as told:
            line = str(told)
            if len(line.splitlines()) != 1 or path.name not in line or not _can_be_printed(line):
                error = f"not one line with the file that can be printed: {line!r}"
        except BaseException as other:  # also what ends a process
            error = f"{type(other).__name__}: {other}"
    memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Outcome(path, time.process_time() - begin, memory, error)


def _can_be_printed(line: str) -> bool:
    return line.encode(errors="replace") == line.encode(errors="surrogatepass")

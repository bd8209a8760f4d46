"""Recordings of rosbag2: what is in them is read, and what a recorder or damage left out is told."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest
from recordings import JOINT_STATE, JOINT_TRAJECTORY, TRAJECTORY_BATCH, Message, bag_of, states, write_bag

from traj_integrator_ros.motions.door import each_read, reading
from traj_integrator_ros.motions.files import read_samples, read_trajectories
from traj_integrator_ros.motions.samples import QUANTITIES, RecordingError
from traj_integrator_ros.motions.sequences import read_sequences

POSITIONS = np.array([[0.0, 0.5], [0.1, 0.4], [0.3, 0.2]])
TIMES_NS = 0, 250_000_000, 1_500_000_000
COUNT = 100


def trajectory(scale: float = 1.0) -> Message:
    times = [{"sec": time // 10**9, "nanosec": time % 10**9} for time in TIMES_NS]
    points = [{"positions": scale * row, "time_from_start": time} for row, time in zip(POSITIONS, times, strict=True)]
    return {"joint_names": ["a", "b"], "points": points}


BATCH = {
    "joint_names": ["a", "b"],
    "batch": 2,
    "horizon": 3,
    "time_from_start": [time * 1e-9 for time in TIMES_NS],
    **{name: np.concatenate([POSITIONS, 2 * POSITIONS]).ravel() for name in QUANTITIES},
}


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


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    return bag_of(tmp_path / "bag", {"/joint_states": states()})


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
def test_joint_states_or_trajectories_of_a_bag_come_first_as_asked(tmp_path: Path, storage: str) -> None:
    plans = "/plan", JOINT_TRAJECTORY, [(1, trajectory()), (2, trajectory(2.0))]
    bag = bag_of(tmp_path / "bag", {"/joint_states": states()}, plans, storage=storage)
    assert len(read_samples(bag, None, pytest.fail).time) == COUNT
    second = read_samples(bag, None, pytest.fail, 1, states_first=False)
    np.testing.assert_array_equal(second.position, 2 * POSITIONS)
    np.testing.assert_allclose(second.time, np.array(TIMES_NS) * 1e-9)
    np.testing.assert_array_equal(read_samples(bag, "/plan", pytest.fail, 0).position, POSITIONS)
    assert [len(one.points) for one in read_trajectories(bag, None, pytest.fail)] == [3, 3]
    assert [len(one.points) for one in read_trajectories(bag, "/joint_states", pytest.fail)] == [COUNT]
    with pytest.raises(RecordingError, match="expected one joint_trajectory, got 2"):
        read_samples(bag, "/plan", pytest.fail)
    with pytest.raises(RecordingError, match="expected a trajectory below 2, got 2"):
        read_samples(bag, "/plan", pytest.fail, 2)


def test_batches_are_read_where_there_are_no_plans_for_a_controller(tmp_path: Path) -> None:
    topics = [("/batch", TRAJECTORY_BATCH, [(1, BATCH), (2, BATCH)])]
    bag = write_bag(tmp_path / "bag", topics)
    notes: list[str] = []
    np.testing.assert_allclose(read_samples(bag, None, notes.append).position, POSITIONS, atol=1e-7)
    assert notes == ["motion 0 of 4 taken, the others left out"]
    np.testing.assert_allclose(read_samples(bag, None, pytest.fail, 3).jerk, 2 * POSITIONS, atol=1e-7)
    both = write_bag(tmp_path / "both", [*topics, ("/plan", JOINT_TRAJECTORY, [(1, trajectory())])])
    assert len([*read_trajectories(both, None, pytest.fail)]) == 1
    assert len([*read_trajectories(both, "/batch", pytest.fail)]) == 4


def test_topics_that_somebody_only_subscribes_to_are_no_choice(tmp_path: Path) -> None:
    """Rosbag2 records such topics without messages."""
    topics = [("/asked", JOINT_TRAJECTORY, []), ("/joint_states", JOINT_STATE, [])]
    bag = write_bag(tmp_path / "bag", [*topics, ("/sent", JOINT_TRAJECTORY, [(1, trajectory())])])
    np.testing.assert_array_equal(read_samples(bag, None, pytest.fail).position, POSITIONS)
    with pytest.raises(RecordingError, match="expected a trajectory, got none"):
        read_samples(bag, "/asked", pytest.fail)
    with pytest.raises(RecordingError, match="expected joint states with positions, got no messages"):
        read_samples(write_bag(tmp_path / "empty", topics), None, pytest.fail)


@pytest.mark.parametrize("has_metadata", [True, False])
@pytest.mark.parametrize("whole", [True, False], ids=["folder", "file"])
def test_the_log_of_a_killed_recorder_is_read(bag: Path, has_metadata: bool, whole: bool) -> None:
    killed, notes = killed_recorder(bag), []
    if not has_metadata:
        (killed / "metadata.yaml").unlink()
    before = {one: one.read_bytes() for one in killed.iterdir()}
    assert len(read_samples(killed if whole else next(killed.glob("*.db3")), None, notes.append).time) == COUNT
    assert notes == ["bag.db3 was not closed: read with its write-ahead log"]
    assert {one: one.read_bytes() for one in killed.iterdir()} == before, "a recording is not changed by reading it"


def test_other_messages_than_the_metadata_counts_are_told_with_both_numbers(bag: Path) -> None:
    (file,) = bag.glob("*.db3")
    with sqlite3.connect(file) as database:
        database.execute("DELETE FROM messages WHERE id > 60")
    notes: list[str] = []
    assert len(read_samples(bag, None, notes.append).time) == 60
    assert notes == ["60 messages are there, where metadata.yaml counts 100"]


def test_a_split_recording_is_read_as_a_whole(tmp_path: Path) -> None:
    rows = states()
    parts = [bag_of(tmp_path / f"p{k}", {"/joint_states": rows[50 * k : 50 * k + 50]}) for k in (0, 1)]
    (second,) = parts[1].glob("*.db3")
    shutil.copy(second, parts[0] / "second.db3")
    (parts[0] / "metadata.yaml").unlink()
    assert len(read_samples(parts[0], None, pytest.fail).time) == COUNT


def test_a_message_that_cannot_be_read_is_named_by_its_place(bag: Path) -> None:
    (file,) = bag.glob("*.db3")
    with sqlite3.connect(file) as database:
        database.execute("UPDATE messages SET data = x'00010000ff' WHERE id = 8")
    with pytest.raises(RecordingError, match=rf"{bag}: message 7 of /joint_states cannot be read: "):
        read_samples(bag, None, pytest.fail)


@pytest.mark.parametrize(
    "error", [RecursionError(), MemoryError(), KeyError("x"), EOFError("two\nlines"), OSError(5, "bad")]
)
def test_any_error_of_a_library_is_one_line_with_the_file(error: Exception) -> None:
    with pytest.raises(RecordingError) as told, reading(Path("a.db3")):
        raise error
    assert str(told.value).startswith("a.db3: ") and "\n" not in str(told.value) and told.value.__cause__ is error


def test_errors_of_who_takes_motions_are_left_alone() -> None:
    with pytest.raises(KeyError):
        for _ in each_read(Path("a"), iter([1])):
            raise KeyError


# Bad sectors, power cuts and killed recorders


MOST_BYTES, MOST_S = 2**30, 10.0
"""Memory, and time of the processor, s, that no damaged file may take."""
KINDS = {
    # storage and compression of a bag, and the file that is damaged
    "db3": ("SQLITE3", "", "*.db3"),
    "mcap": ("MCAP", "", "*.mcap"),
    "db3.zstd": ("SQLITE3", "FILE", "*.zstd"),
    "mcap of zstd chunks": ("MCAP", "STORAGE", "*.mcap"),
    "metadata.yaml": ("SQLITE3", "", "*.yaml"),
    "db3 with a log": ("SQLITE3", "", "*-wal"),
    **{name: ("", "", name) for name in ("a.csv", "a.npz", "packed.npz")},
}


def write_whole(folder: Path, kind: str) -> Path:
    """A recording of a kind in a new folder."""
    folder.mkdir()
    rows, (storage, compression, _) = states(), KINDS[kind]
    if storage:
        bag = bag_of(folder / "bag", {"/joint_states": rows}, storage=storage, compression=compression)
        return killed_recorder(bag) if "log" in kind else bag
    times, position = [row.stamp_ns for row in rows], np.stack([row.position for row in rows])
    if kind == "a.csv":
        lines = [f"{at},{','.join(map(repr, row))}" for at, row in zip(times, position.tolist(), strict=True)]
        (folder / kind).write_text("\n".join(["time,position_a,position_b", *lines]))
    else:
        save = np.savez_compressed if kind == "packed.npz" else np.savez
        save(folder / kind, time=np.array(times), position=position, joint_names=["a", "b"])
    return folder / kind


def damaged(whole: Path, kind: str, to: Path, random: np.random.Generator) -> Path:
    """A copy with one file damaged: a part is lost, or something else in its place."""
    path = Path(shutil.copytree(whole.parent, to)) / whole.name
    file = path if path.is_file() else next(path.glob(KINDS[kind][2]))
    content = file.read_bytes()
    begin = int(random.integers(len(content) + 1))
    length = int(random.choice([1, 8, max(2, len(content) // 8), len(content)]))
    part = content[begin : begin + length]
    others = b"", bytes(len(part)), b"\xff" * min(len(part), 8), random.bytes(len(part) + 1), 2 * part
    file.write_bytes(content[:begin] + others[int(random.integers(len(others)))] + content[begin + length :])
    return path


def most_bytes() -> int:
    """The most memory that this process has had so far: with a torch for CUDA, it has more than 1 GiB by itself."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    """In every way that there is to read them, and within the bounds."""
    whole, random = write_whole(tmp_path / "whole", kind), np.random.default_rng(5)
    for number in range(12):
        path = damaged(whole, kind, tmp_path / f"{number}", random)
        begin, before = time.process_time(), most_bytes()
        for read in (
            lambda path: read_samples(path, None, lambda _: None),
            lambda path: [*read_trajectories(path, None, lambda _: None)],
            lambda path: read_sequences(path, "position", None, lambda _: None),
        ):
            try:
                read(path)
            except RecordingError as told:
                line = str(told)
                assert len(line.splitlines()) == 1 and path.name in line, repr(line)
                assert line.encode(errors="replace") == line.encode(errors="surrogatepass"), "it can be printed"
        assert time.process_time() - begin <= MOST_S
        assert most_bytes() - before <= MOST_BYTES

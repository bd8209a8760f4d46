"""What is read of a recording is compared with what it counts; what damage left is read or refused in one line."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import yaml
from damaged_files import DAMAGES, FORMATS, damaged, killed_recorder, outcome, write_whole
from joint_state_rows import joint_state, states
from recorded_messages import JOINT_STATE, write_bag

from traj_integrator_ros.motions.door import each_read, reading
from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.samples import RecordingError
from traj_integrator_ros.motions.sequences import read_sequences

COUNT = 100


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    recorded = [(row.recorded_ns, joint_state(row)) for row in states()]
    return write_bag(tmp_path / "bag", [("/joint_states", JOINT_STATE, recorded)], storage="SQLITE3")


@pytest.mark.parametrize("metadata", ["whole", "of the begin", "missing"])
@pytest.mark.parametrize("whole", [True, False], ids=["folder", "file"])
def test_the_log_of_a_killed_recorder_is_read(bag: Path, metadata: str, whole: bool) -> None:
    killed, notes = killed_recorder(bag), []
    file = killed / "metadata.yaml"
    if metadata == "missing":
        file.unlink()
    elif metadata == "of the begin":
        found = yaml.safe_load(file.read_text())
        found["rosbag2_bagfile_information"]["topics_with_message_count"] = []
        file.write_text(yaml.safe_dump(found))
    before = {one: one.read_bytes() for one in killed.iterdir()}
    assert len(read_samples(killed if whole else next(killed.glob("*.db3")), None, notes.append).time) == COUNT
    assert any("read with its write-ahead log" in note and "lost" not in note for note in notes)
    assert {one: one.read_bytes() for one in killed.iterdir()} == before, "a recording is not changed by reading it"


def test_what_of_a_log_is_damaged_is_told_with_both_numbers(bag: Path) -> None:
    killed, notes = killed_recorder(bag), []
    (log,) = killed.glob("*-wal")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0x55
    log.write_bytes(content)
    assert 30 <= len(read_samples(killed, None, notes.append).time) < COUNT
    assert any("pages in it were not complete and are lost" in note for note in notes)
    assert any("messages of /joint_states are there and read, where metadata.yaml counts 100" in note for note in notes)


def test_an_open_transaction_is_taken_back_as_its_journal_says(bag: Path) -> None:
    (file,) = bag.glob("*.db3")
    recorder = sqlite3.connect(file, isolation_level=None)
    recorder.execute("PRAGMA cache_size=1")
    recorder.execute("BEGIN")
    recorder.execute("UPDATE messages SET data = zeroblob(900)")
    recorder.execute("PRAGMA cache_spill=1")
    killed = Path(shutil.copytree(bag, bag.with_name("killed")))
    recorder.execute("ROLLBACK")
    recorder.close()
    assert len(read_samples(killed, None, lambda _: None).time) == COUNT


def test_fewer_messages_than_the_metadata_counts_are_told_with_both_numbers(bag: Path) -> None:
    (file,) = bag.glob("*.db3")
    with sqlite3.connect(file) as database:
        database.execute("DELETE FROM messages WHERE id > 60")
    notes: list[str] = []
    assert len(read_samples(bag, None, notes.append).time) == 60
    assert notes == ["60 messages of /joint_states are there and read, where metadata.yaml counts 100"]


DISAGREEING = {
    "100 messages of all topics are there, where metadata.yaml counts 777": {"message_count": 777},
    "100 messages of all topics are in bag.db3, where metadata.yaml counts 120": {
        "files": [{"path": "bag.db3", "message_count": 120}]
    },
    "metadata.yaml: 1 of its counts of messages cannot be read, and nothing is compared with them": {
        "topics_with_message_count": 5
    },
}


@pytest.mark.parametrize("told", DISAGREEING)
def test_every_count_of_the_metadata_is_compared(bag: Path, told: str) -> None:
    file, notes = bag / "metadata.yaml", []
    found = yaml.safe_load(file.read_text())
    found["rosbag2_bagfile_information"] |= DISAGREEING[told]
    file.write_text(yaml.safe_dump(found))
    assert len(read_samples(bag, None, notes.append).time) == COUNT
    assert notes == [told]


def test_the_journal_of_a_finished_transaction_says_nothing(bag: Path) -> None:
    (file,) = bag.glob("*.db3")
    file.with_name(f"{file.name}-journal").write_bytes(bytes(4096))
    assert len(read_samples(bag, None, pytest.fail).time) == COUNT


def test_a_message_that_cannot_be_read_is_named_by_its_place(bag: Path) -> None:
    (file,) = bag.glob("*.db3")
    with sqlite3.connect(file) as database:
        database.execute("UPDATE messages SET data = x'00010000ff' WHERE id = 8")
    with pytest.raises(RecordingError, match=rf"{bag}: message 7 of /joint_states cannot be read: "):
        read_samples(bag, None, pytest.fail)


def test_messages_of_no_topic_are_told(bag: Path) -> None:
    (file,) = bag.glob("*.db3")
    with sqlite3.connect(file) as database:
        database.execute("UPDATE messages SET topic_id = 9 WHERE id > 90")
    notes: list[str] = []
    assert len(read_samples(bag, None, notes.append).time) == 90
    assert any("10 of 100 messages of" in note and "belong to no topic" in note for note in notes)


def test_files_that_the_metadata_does_not_name_are_told_and_missing_ones_refused(bag: Path) -> None:
    (file,) = bag.glob("*.db3")
    shutil.copy(file, bag / "second.db3")
    notes: list[str] = []
    assert len(read_samples(bag, None, notes.append).time) == COUNT
    assert notes == ["left out: second.db3, which metadata.yaml does not name (1 of 2 files)"]
    file.unlink()
    with pytest.raises(RecordingError, match=f"that metadata.yaml names, {file.name} missing"):
        read_samples(bag, None, notes.append)


def test_a_split_recording_is_read_as_a_whole_and_its_parts_say_so(tmp_path: Path) -> None:
    rows = [(row.recorded_ns, joint_state(row)) for row in states()]
    parts = [
        write_bag(tmp_path / f"p{k}", [("/joint_states", JOINT_STATE, rows[50 * k : 50 * k + 50])]) for k in (0, 1)
    ]
    (second,) = parts[1].glob("*.db3")
    shutil.copy(second, parts[0] / "second.db3")
    file = parts[0] / "metadata.yaml"
    found = yaml.safe_load(file.read_text())
    information = found["rosbag2_bagfile_information"]
    information["relative_file_paths"].append("second.db3")
    information["topics_with_message_count"][0]["message_count"] = information["message_count"] = COUNT
    file.write_text(yaml.safe_dump(found))
    assert len(read_samples(parts[0], None, pytest.fail).time) == COUNT
    notes: list[str] = []
    assert len(read_samples(parts[0] / "second.db3", None, notes.append).time) == 50
    assert notes == ["second.db3 is one of 2 files of a recording; its folder is read as a whole"]


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


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    whole = write_whole(tmp_path / "whole", kind)
    random = np.random.default_rng(5)
    for number in range(12):
        path = damaged(whole, tmp_path / f"{number}", random, DAMAGES[number % len(DAMAGES)])
        told = outcome(path)
        assert told.is_fine, told


def test_what_files_are_called_and_hold_does_not_control_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\nb.csv"
    path.write_text("time,position_j\x07\x9b31m,position_k\n0,zero,0\n")
    with pytest.raises(RecordingError) as told:
        read_samples(path, None, pytest.fail)
    line = str(told.value)
    assert line.isprintable() and r"a\x1b[31m\nb.csv" in line and r"j\x07\x9b31m," in line


@pytest.mark.parametrize("gap", [1e-9, 1e-3, 1.0, 1e6, 1e9])
def test_rates_at_the_start_are_found_however_far_apart_samples_are(tmp_path: Path, gap: float) -> None:
    times = np.array([0.0, 0.01, 0.02, 0.02 + gap])
    position = np.column_stack([3 + 2 * times, 0.5 * times**2])
    np.savez(tmp_path / "a.npz", time_s=times, position=position)
    (found,) = read_sequences(tmp_path / "a.npz", "position", None, lambda _: None)
    np.testing.assert_allclose(found.fields["start_velocity"], [[2, 0]], atol=1e-6)
    np.testing.assert_allclose(found.fields["start_acceleration"], [[0, 1]], atol=1e-3)

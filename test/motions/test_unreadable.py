"""Files that no reader can use are refused in one line that names the file and what is wrong in it."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from joint_state_rows import joint_state, states
from recorded_messages import printed

from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.samples import QUANTITIES, RecordingError

ROW, NEXT = states(count=2)
POINT = "joint_names: [a]\npoints: [{positions: %s, time_from_start: 0}]"
BATCH = {"joint_names": ["a"], "batch": 2, "horizon": 3, "time_from_start": [0.0, 0.1, 0.2],
         **{name: [0.0] * 6 for name in QUANTITIES}}  # fmt: skip
IN_HOURS = {"joint_names": ["a"], "points": [{"positions": [1.0], "time_from_start": {"hours": 1, "nanosec": 0}}]}
OF_CENTURIES = {"header": {"stamp": {"sec": 10**10, "nanosec": 0}}, "joint_names": ["a"], "points": []}
ALIASES = "a0: &a0 [1]\n" + "".join(f"a{k + 1}: &a{k + 1} [{','.join([f'*a{k}'] * 9)}]\n" for k in range(9))
TABLES = {
    "": "the file is empty",
    "a,b\n1,2\n": "expected columns time, position_<joint>",
    "time,velocity_j\n0,1\n": "expected columns time, position_<joint>",
    "timestamp|target_q_0\n": "with comma, semicolon, tab, space between them, got timestamp|target_q_0",
    "position_j,velocity_j\n0,1\n": "column time is missing",
    "time,position_i,position_j,velocity_j\n0,1,2,3\n": "column velocity_i is missing",
    "time,position_j,position_j\n0,1,2\n": "expected column position_j once, got it 2 times",
    "time,position_j\n0,zero\n": "expected a number in column position_j, row 2, got 'zero'",
    "time,position_j\n0,1\n1,nan\n": "expected finite numbers, got nan as position of j in sample 1",
    "time,position_j,velocity_j\n0,1\n": "expected a number in column velocity_j, row 2, got nothing",
    "time,position_a\n0,1\n1\n2,3\n": "expected a number in column position_a, row 3, got nothing",
    "time,position_a\n0,0,1,5\n": (
        "expected 2 cells, as in the header, got 4 in row 2 (columns are separated by comma, so that it cannot be the "
    ),
    "time;position_a\n0,0;1.000,5\n": (
        "expected a number with decimal commas in column position_a, row 2, got '1.000,5'"
    ),
    "time;position_a\n0,0;1,5\n0.5;2\n": "with decimal commas in column time, row 3, got '0.5'",
    "time,position_a\n": "expected samples, got none",
    'time,position_a,note\n0,1,"of\n1,2,\n2,3,\n': "not a CSV table: unexpected end of data",
    "time [ns],position_a\n1e999999999,1\n1,2\n": "expected a time in column time [ns], row 2, got '1e999999999'",
    f"time,{'position_a' * 10_000}\n0,zero\n": " ... ",
}
PRINTED = {
    "": "messages with name and position, as ros2 topic echo prints them, got no message",
    "- 1.0\n": "got no message",
    "a: [": "not a YAML file: did not find expected node content in line 2, column 1",
    "[" * 100_000: "its parts are nested too deeply",
    "- " * 100_000: "its parts are nested too deeply",
    "a: &a {b: *a}": "its parts are nested too deeply",
    ALIASES: "expected values, got aliases that stand for 9e+08 of them",
    "pose: {x: 1}\nframe: base\n---\n": "got messages with the keys pose, frame",
    "joint_trajectory: 3": "got messages with the keys joint_trajectory",
    printed(IN_HOURS): "a time has sec and nanosec, got hours",
    POINT.replace("start: 0", "start: {sec: 1.5}") % "[1]": "a time has whole numbers of sec and nanosec",
    "header: 3\n" + POINT % "[1]": "expected JointTrajectory messages with joint_names and points",
    printed(OF_CENTURIES): "no message has a time of 1e+10 s",
    "header: {stamp: .nan}\n" + POINT % "[1]": "header.stamp is not a number",
    POINT % "[1, 2]": "expected 1 positions in every point, got [2]",
    POINT % "[]": "expected 1 positions in every point, got [0]",
    POINT % "[x]": "could not convert string to float: 'x'",
    (POINT % "[1]").replace(" 0}", " .nan}"): "expected finite numbers, got nan as time in sample 0",
    (POINT % "[1, 2]").replace("[a]", "[a, a]"): "expected every joint once, got a twice",
    (POINT % "[1]").replace("}]", "}, {positions: [2], time_from_start: 0}]"): "expected increasing times",
    (POINT % "[1]").replace("}]", "}, '...']"): "give it --full-length",
    f"{POINT}\n---\n{POINT}" % ("[1]", "[2]"): "expected one joint_trajectory, got 2",
    printed(joint_state(ROW, position=[0.0, "..."])): "give it --full-length",
    printed(joint_state(ROW), joint_state(NEXT) | {"header": {}}): "expected stamps that go on",
    printed({**BATCH, "batch": None}): "expected JointTrajectory messages with joint_names and points, Trajectory",
    printed({**BATCH, "jerk": [1.0, "..."]}): "give it --full-length",
    printed({**BATCH, "jerk": [1.0]}): "expected a batch of [2, 3, 1] numbers in every field, got 3 times, 6, 6, 6, 1",
    printed({**BATCH, "position": []}): "got 3 times, 0, 6, 6, 6 numbers",
}
FILES = [
    *(("a.csv", text, told) for text, told in TABLES.items()),
    *(("a.yaml", text, told) for text, told in PRINTED.items()),
    ("a.csv", bytes(range(256)) * 20, "not a text file"),
    ("a.db3", b"this is no database" * 100, "cannot be read"),
    ("a.mcap", b"this is no database" * 100, "cannot be read"),
    ("a.npz", b"PK\x03\x04 no archive", "cannot be read"),
    ("a.db3", b"", "the file is empty"),
    ("a.mcap", b"\x89MCAP0\r\n" * 2 + b"\x01", "got one that was not closed, as of a killed recorder; `mcap recover`"),
    ("folder", None, "one without metadata.yaml"),
    ("none.db3", None, "no such file"),
    ("photo.png", b"x", "expected a rosbag2 folder or a file ending in .db3, .mcap"),
]


@pytest.mark.parametrize(("name", "content", "told"), FILES)
def test_what_cannot_be_read_is_named_in_one_line(
    tmp_path: Path, name: str, content: str | bytes | None, told: str
) -> None:
    path = tmp_path / name
    (tmp_path / "folder").mkdir()
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(RecordingError) as refused:
        read_samples(path, None, lambda _: None)
    assert told in str(refused.value) and str(path) in str(refused.value) and "\n" not in str(refused.value)


SHAPES = {
    "expected arrays time and position, got time": {"position": None},
    "expected position of shape [N, D] or [B, N, D], got [3]": {"position": np.zeros(3)},
    "expected position of shape [N, D] or [B, N, D], got [3, 0]": {"position": np.zeros((3, 0))},
    "expected time of shape [N] or [B, N], got a single number": {"time": np.zeros(())},
    "expected velocity of shape [3, 2] to go with position, got [2, 2]": {"velocity": np.zeros((2, 2))},
    "expected time of shape [3] to go with position, got [4]": {"time": np.arange(4.0)},
    "expected 2 joint_names, got shape [1]": {"joint_names": ["a"]},
    "expected numbers in jerk, got <U1": {"jerk": np.full((3, 2), "x")},
}


@pytest.mark.parametrize("told", SHAPES)
def test_arrays_that_do_not_go_together_are_named(tmp_path: Path, told: str) -> None:
    arrays = {"time": np.arange(3.0), "position": np.zeros((3, 2)), **SHAPES[told]}
    np.savez(tmp_path / "a.npz", **{name: values for name, values in arrays.items() if values is not None})
    with pytest.raises(RecordingError) as refused:
        read_samples(tmp_path / "a.npz", None, pytest.fail)
    assert str(refused.value) == f"{tmp_path / 'a.npz'}: {told}"


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("time", "position"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.zeros((5_000_000, 1)))
    with pytest.raises(RecordingError, match="expected arrays of a motion, got 76 MiB packed into next to nothing"):
        read_samples(tmp_path / "a.npz", None, pytest.fail)


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.zeros((3, 2)))
    with pytest.raises(RecordingError, match="expected an archive of named arrays"):
        read_samples(tmp_path / "a.npz", None, pytest.fail)


def test_a_table_of_thousands_of_columns_is_read_in_seconds(tmp_path: Path) -> None:
    joints, begin = range(20_000), time.process_time()
    (tmp_path / "a.csv").write_text(f"time,{','.join(f'position_{k}' for k in joints)}\n0{',1' * len(joints)}\n")
    assert read_samples(tmp_path / "a.csv", None, pytest.fail).dof == len(joints)
    assert time.process_time() - begin < 10

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import yaml
from motion_tables import write_table
from motions import JOINTS, sine_motion

from traj_integrator_ros.demo.motion import Motion, load_recording
from traj_integrator_ros.motions.samples import Nature, RecordingError


def assert_same(loaded: Motion, motion: Motion, *, atol: float = 2e-9) -> None:
    """To the bit, but for times, which are nanoseconds in some files."""
    assert loaded.joint_names == motion.joint_names
    np.testing.assert_allclose(loaded.time, motion.time, atol=atol)
    np.testing.assert_array_equal(loaded.position, motion.position)
    np.testing.assert_array_equal(loaded.velocity, motion.velocity)


@pytest.mark.parametrize(
    ("quantities", "nature"),
    [
        (("position", "velocity", "acceleration"), Nature.EXACT),
        (("position", "velocity"), Nature.MEASURED),
        (("position",), Nature.MEASURED),
    ],
)
def test_a_table_comes_back_and_velocities_it_lacks_are_those_of_its_positions(tmp_path, sine, quantities, nature):
    loaded = load_recording(write_table(tmp_path / "m.csv", sine, quantities))
    if "velocity" in quantities:
        assert_same(loaded, sine)
    else:
        np.testing.assert_allclose(loaded.velocity[1:-1], sine.velocity[1:-1], atol=1e-3)
        assert "no velocities" in loaded.notes[0]
    assert (loaded.acceleration is not None) == ("acceleration" in quantities) and loaded.nature is nature
    if loaded.acceleration is not None:
        np.testing.assert_allclose(loaded.acceleration, sine.acceleration)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_the_log_of_a_controller_with_any_line_end(tmp_path, line_end):
    motion = sine_motion(40, 0.04)
    header = ["time", "timestamp"] + [f"target_{q}_{i}" for q in ("q", "qd", "qdd") for i in range(3)]
    columns = np.concatenate([motion.position, motion.velocity, motion.acceleration], axis=1)
    rows = [["", str(1550304.53 + t), *map(repr, row)] for t, row in zip(motion.time, columns.tolist(), strict=True)]
    path = tmp_path / "log.csv"
    path.write_bytes(line_end.join(",".join(row) for row in [header, *rows]).encode())
    loaded = load_recording(path)
    assert_same(dataclasses.replace(loaded, joint_names=JOINTS), motion, atol=1e-8)
    np.testing.assert_allclose(loaded.acceleration, motion.acceleration)
    assert loaded.nature is Nature.SET_POINTS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.position.__setitem__((7, 1), np.nan), "got nan as position of .* in sample 7"),
        (lambda m: np.subtract(m.time[100:], 1.5, out=m.time[100:]), "as of another recording"),
        (lambda m: m.velocity.fill(0), "nothing moves"),
        (lambda m: np.multiply(m.time, 1e-3, out=m.time), "too short: expected at least 0.3 s"),
    ],
)
def test_numbers_that_are_no_motion_are_refused(tmp_path, sine, change, message):
    change(sine)
    with pytest.raises(RecordingError, match=message):
        load_recording(write_table(tmp_path / "m.csv", sine))


@pytest.mark.parametrize(("storage", "topic"), [("SQLITE3", "/joint_states"), ("MCAP", "/arm/states")])
def test_a_bag_and_its_bare_file_come_back_by_the_names_of_the_joints(tmp_path, write_bag, sine, storage, topic):
    folder = write_bag([(topic, sine)], storage=storage, reorder=True)
    assert_same(load_recording(folder), sine)
    (file,) = [f for f in folder.iterdir() if f.suffix in (".db3", ".mcap")]
    bare = tmp_path / f"alone{file.suffix}"
    shutil.copy(file, bare)
    assert_same(load_recording(bare), sine)


def test_joint_states_is_preferred_topic_decides_and_what_is_ambiguous_is_listed(write_bag, sine):
    other = sine_motion(100)
    folder = write_bag([("/other", other), ("/joint_states", sine)])
    assert load_recording(folder).samples == sine.samples
    assert load_recording(folder, "/other").samples == other.samples
    with pytest.raises(RecordingError, match="expected a JointState topic /c, got /joint_states, /other"):
        load_recording(folder, "/c")
    shutil.rmtree(folder)
    with pytest.raises(RecordingError, match="choose one by --topic: /a, /b"):
        load_recording(write_bag([("/a", sine), ("/b", sine)]))


@pytest.mark.parametrize(
    "as_time", [float, lambda t: {"sec": int(t), "nanosec": round(t % 1 * 1e9)}], ids=["seconds", "sec_nanosec"]
)
def test_points_of_a_planned_trajectory_come_back(tmp_path, as_time):
    motion = sine_motion(20, 0.1)
    points = [
        {"positions": position.tolist(), "velocities": velocity.tolist(), "time_from_start": as_time(float(time))}
        for time, position, velocity in zip(motion.time, motion.position, motion.velocity, strict=True)
    ]
    planned = {"joint_trajectory": {"joint_names": list(JOINTS), "points": points}}
    (tmp_path / "plan.yml").write_text(yaml.safe_dump(planned))
    assert_same(load_recording(tmp_path / "plan.yml"), motion)


YAML_POINT = "joint_names: [a]\npoints: [{positions: %s, time_from_start: 0}]"
UNUSABLE = [
    ("bad.csv", "", "the file is empty"),
    ("bad.csv", "a,b\n1,2\n", "expected columns time, position_<joint>"),
    ("bad.csv", "time,velocity_j\n0,1\n", "expected columns time, position_<joint>"),
    ("bad.csv", "position_j,velocity_j\n0,1\n", "column time is missing"),
    ("bad.csv", "time,position_i,position_j,velocity_j\n0,1,2,3\n", "column velocity_i is missing"),
    ("bad.csv", "time,position_j,position_j\n0,1,2\n", "expected column position_j once, got it 2 times"),
    ("bad.csv", "time,position_j\n0,zero\n", "expected a number in column position_j, row 2, got 'zero'"),
    ("bad.csv", "time,position_j,velocity_j\n0,1\n", "expected a number in column velocity_j, row 2, got nothing"),
    ("bad.csv", "time,position_j\n0,1\n1,2\n", "too short: expected at least 16 samples, got 2"),
    ("garbage.csv", bytes(range(256)) * 20, "not a text file"),
    ("garbage.db3", b"this is no database" * 100, "not a readable rosbag2 recording"),
    ("garbage.mcap", b"this is no database" * 100, "not a readable rosbag2 recording"),
    ("folder", None, "one without metadata.yaml"),
    ("bad.yaml", "[1, 2]", "expected JointTrajectory messages with joint_names and points"),
    ("bad.yaml", "joint_trajectory: 3", "expected JointTrajectory messages with joint_names"),
    ("bad.yaml", "joint_names: [a]\npoints: [{positions: [1]}]", "'time_from_start' is missing"),
    ("bad.yaml", YAML_POINT % "[1, 2]", "expected 1 positions in every point, got [2]"),
    ("bad.yaml", YAML_POINT % "[x]", "could not convert string to float: 'x'"),
    ("bad.yaml", (YAML_POINT % "[1]").replace(" 0}", " .nan}"), "expected finite numbers, got nan as time in sample 0"),
    ("bad.yaml", YAML_POINT % "[]", "expected 1 positions in every point, got [0]"),
    ("bad.yaml", (YAML_POINT % "[1, 2]").replace("[a]", "[a, a]"), "expected every joint once, got a twice"),
    ("bad.yaml", (YAML_POINT % "[1]").replace("}]", "}, {positions: [2], time_from_start: 0}]"), "increasing times"),
    ("bad.yaml", "a: [", "not a YAML file"),
    ("bad.yaml", f"{YAML_POINT}\n---\n{YAML_POINT}" % ("[1]", "[2]"), "expected one joint_trajectory, got 2"),
    ("none.db3", None, "no such file"),
    ("photo.png", b"x", "expected a rosbag2 folder or a file ending in .db3, .mcap"),
]


@pytest.mark.parametrize(("name", "content", "message"), UNUSABLE)
def test_what_cannot_be_used_is_named_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    (tmp_path / "folder").mkdir()
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(RecordingError) as error:
        load_recording(path)
    assert message in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("quantities", [("position",), ("position", "velocity")])
def test_angles_that_pass_pi_go_on_and_a_long_way_in_a_long_step_stays(tmp_path, sine, quantities):
    turning = np.linspace(2.5, 15.0, sine.samples)
    position, velocity = sine.position.copy(), sine.velocity.copy()
    position[:, 1], velocity[:, 1] = (turning + np.pi) % (2 * np.pi) - np.pi, 12.5 / sine.duration
    wrapped = dataclasses.replace(sine, position=position, velocity=velocity)
    loaded = load_recording(write_table(tmp_path / "m.csv", wrapped, quantities))
    np.testing.assert_allclose(loaded.position[:, 1], turning, atol=1e-12)
    np.testing.assert_allclose(loaded.velocity[:, 1], velocity[:, 1], atol=1e-9)
    assert f"{JOINTS[1]}: turned on where angles pass pi" in loaded.notes
    np.testing.assert_array_equal(np.delete(loaded.position, 1, axis=1), np.delete(position, 1, axis=1))
    slow = dataclasses.replace(sine, time=sine.time * 60, position=2 * np.pi * np.sign(sine.position))  # of 1.2 s
    np.testing.assert_array_equal(load_recording(write_table(tmp_path / "m.csv", slow)).position, slow.position)


def test_bag_equals_its_independent_extraction(shared_data):
    bag = load_recording(shared_data("unisa-panda-exciting/panda_exciting_trajectory.db3"))
    table = load_recording(shared_data("unisa-panda-exciting/panda_exciting_trajectory.derived.csv"))
    assert_same(bag, table)

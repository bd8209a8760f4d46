from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from motion_tables import write_table
from motions import JOINTS, sine_motion

from traj_integrator_ros.demo.motion import Motion
from traj_integrator_ros.demo.recordings import load_recording
from traj_integrator_ros.motions.samples import Nature, RecordingError


def assert_same(loaded: Motion, motion: Motion, tolerance: float = 1e-12) -> None:
    assert loaded.joint_names == motion.joint_names
    np.testing.assert_allclose(loaded.time, motion.time, atol=2e-9)
    np.testing.assert_allclose(loaded.position, motion.position, atol=tolerance)
    np.testing.assert_allclose(loaded.velocity, motion.velocity, atol=tolerance)


class TestCsv:
    def test_own_columns_come_back(self, tmp_path, sine):
        loaded = load_recording(write_table(tmp_path / "m.csv", sine, ("position", "velocity", "acceleration")))
        assert_same(loaded, sine)
        np.testing.assert_allclose(loaded.acceleration, sine.acceleration)
        assert loaded.nature is Nature.EXACT

    def test_states_without_accelerations_count_as_measured(self, tmp_path, sine):
        loaded = load_recording(write_table(tmp_path / "m.csv", sine))
        assert loaded.acceleration is None
        assert loaded.nature is Nature.MEASURED

    def test_missing_velocities_are_those_of_the_positions_and_said_so(self, tmp_path, sine):
        loaded = load_recording(write_table(tmp_path / "m.csv", sine, ("position",)))
        np.testing.assert_allclose(loaded.velocity[1:-1], sine.velocity[1:-1], atol=1e-3)
        assert "no velocities" in loaded.notes[0]

    @pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
    def test_rtde_log_with_any_line_end(self, tmp_path, line_end):
        motion = sine_motion(40, 0.04)
        header = ["time", "timestamp"] + [f"target_{q}_{i}" for q in ("q", "qd", "qdd") for i in range(3)]
        columns = np.concatenate([motion.position, motion.velocity, motion.acceleration], axis=1)
        rows = [
            ["", str(1550304.53 + t), *map(repr, row)] for t, row in zip(motion.time, columns.tolist(), strict=True)
        ]
        path = tmp_path / "log.csv"
        path.write_bytes(line_end.join(",".join(row) for row in [header, *rows]).encode())
        loaded = load_recording(path)
        np.testing.assert_allclose(loaded.position, motion.position)
        np.testing.assert_allclose(loaded.velocity, motion.velocity)
        np.testing.assert_allclose(loaded.acceleration, motion.acceleration)
        np.testing.assert_allclose(loaded.time, motion.time, atol=1e-8)
        assert loaded.nature is Nature.SET_POINTS

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda m: m.position.__setitem__((7, 1), np.nan), "got nan as position of .* in sample 7"),
            (lambda m: m.time.__setitem__(9, m.time[8]), "expected increasing times"),
            (lambda m: m.velocity.fill(0), "nothing moves"),
            (lambda m: np.multiply(m.time, 1e-3, out=m.time), "too short: expected at least 0.3 s"),
        ],
    )
    def test_numbers_that_are_no_motion_are_refused(self, tmp_path, sine, change, message):
        change(sine)
        with pytest.raises(RecordingError, match=message):
            load_recording(write_table(tmp_path / "m.csv", sine))


class TestBag:
    @pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
    def test_folder_and_bare_file_come_back(self, tmp_path, write_bag, sine, storage):
        folder = write_bag([("/joint_states", sine)], storage=storage)
        assert_same(load_recording(folder), sine)
        (file,) = [f for f in folder.iterdir() if f.suffix in (".db3", ".mcap")]
        bare = tmp_path / f"alone{file.suffix}"
        shutil.copy(file, bare)
        assert_same(load_recording(bare), sine)

    def test_columns_are_found_by_name_in_every_message(self, write_bag, sine):
        assert_same(load_recording(write_bag([("/joint_states", sine)], reorder=True)), sine)

    def test_only_joint_state_topic_is_taken_whatever_its_name(self, write_bag, sine):
        assert_same(load_recording(write_bag([("/arm/states", sine)])), sine)

    def test_joint_states_is_preferred_and_topic_decides(self, write_bag, sine):
        other = sine_motion(100)
        folder = write_bag([("/other", other), ("/joint_states", sine)])
        assert load_recording(folder).samples == sine.samples
        assert load_recording(folder, "/other").samples == other.samples

    def test_ambiguous_or_unknown_topic_is_an_error_that_lists_them(self, write_bag, sine):
        folder = write_bag([("/a", sine), ("/b", sine)])
        with pytest.raises(RecordingError, match="choose one by --topic: /a, /b"):
            load_recording(folder)
        with pytest.raises(RecordingError, match="expected a JointState topic /c, got /a, /b"):
            load_recording(folder, "/c")


class TestRobotTrajectory:
    POINTS = 20

    def write(self, path: Path, points: list[str], head: str = "joint_trajectory:\n") -> Path:
        names = f"  joint_names: [{', '.join(JOINTS)}]\n"
        path.write_text(head + "  points:\n" + "".join(points) + names, encoding="utf-8")
        return path

    def point(self, k: int, time: str) -> str:
        motion = sine_motion(self.POINTS, 0.1)
        fields = [
            f"{name}: {getattr(motion, name[:-3] + 'y' if name != 'positions' else 'position')[k].tolist()}"
            for name in ("positions", "velocities")
        ]
        return f"    - {{{', '.join([*fields, f'time_from_start: {time}'])}}}\n"

    @pytest.mark.parametrize(
        "as_time",
        [lambda t: repr(t), lambda t: f"{{sec: {int(t)}, nanosec: {round(t % 1 * 1e9)}}}"],
        ids=["seconds", "sec_nanosec"],
    )
    def test_points_come_back(self, tmp_path, as_time):
        motion = sine_motion(self.POINTS, 0.1)
        points = [self.point(k, as_time(float(t))) for k, t in enumerate(motion.time)]
        assert_same(load_recording(self.write(tmp_path / "plan.yml", points)), motion)


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
    ("garbage.csv", bytes(range(256)) * 20, "not a CSV table"),
    ("garbage.db3", b"this is no database" * 100, "not a readable rosbag2 recording"),
    ("garbage.mcap", b"this is no database" * 100, "not a readable rosbag2 recording"),
    ("folder", None, "one without metadata.yaml"),
    ("bad.yaml", "[1, 2]", "expected JointTrajectory messages with joint_names and points"),
    ("bad.yaml", "joint_trajectory: 3", "expected JointTrajectory messages with joint_names"),
    ("bad.yaml", "joint_names: [a]\npoints: [{positions: [1]}]", "'time_from_start' is missing"),
    ("bad.yaml", YAML_POINT % "[1, 2]", "expected 1 positions in every point, got [2]"),
    ("bad.yaml", YAML_POINT % "[x]", "could not convert string to float: 'x'"),
    ("bad.yaml", YAML_POINT % "[]", "expected 1 positions in every point, got [0]"),
    ("bad.yaml", (YAML_POINT % "[1, 2]").replace("[a]", "[a, a]"), "expected every joint once, got a twice"),
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


@pytest.mark.parametrize(
    ("path", "samples", "dof", "repeated"),
    [
        ("unisa-panda-exciting/panda_exciting_trajectory.db3", 727, 7, 14),
        ("unisa-panda-exciting/panda_exciting_trajectory.derived.csv", 727, 7, 14),
        ("rad-ur3e-rtde/L0L1.csv", 29, 6, 0),
        ("rad-ur3e-rtde/L1L2.csv", 65, 6, 0),  # at rest at first: equal frames, but not repeated ones
        ("rad-ur3e-rtde/L2L3.csv", 40, 6, 0),
        ("robowflex-fetch-planned/fetch_path.yml", 29, 8, 0),
        ("generated-ruckig/panda_ruckig_p2p_500hz.csv", 488, 7, 0),
    ],
)
def test_real_recordings_load(shared_data, path, samples, dof, repeated):
    motion = load_recording(shared_data(path))
    assert (motion.samples, motion.dof, int(motion.repeated.sum())) == (samples, dof, repeated)


def test_bag_equals_its_independent_extraction(shared_data):
    bag = load_recording(shared_data("unisa-panda-exciting/panda_exciting_trajectory.db3"))
    table = load_recording(shared_data("unisa-panda-exciting/panda_exciting_trajectory.derived.csv"))
    assert_same(bag, table, tolerance=0.0)

"""Tables and archives with the documented columns are read in their units, and others are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.samples import Nature, RecordingError, Samples
from traj_integrator_ros.motions.sequences import read_sequences
from traj_integrator_ros.motions.table_times import TIME_UNITS
from traj_integrator_ros.motions.units import GivenUnits

COUNT = 40
SECONDS = 0.02 * np.arange(COUNT)
ANGLES = np.column_stack([np.sin(SECONDS), 0.5 * np.cos(SECONDS)])
EPOCH_NS, SIMULATED_NS = 1_700_000_000_000_000_000, 31_950_000_000


def table(
    path: Path, header: str, times: object = SECONDS, values: np.ndarray = ANGLES, separator: str = ",", end: str = "\n"
) -> Path:
    rows = [[str(time), *map(repr, row)] for time, row in zip(np.asarray(times).tolist(), values.tolist(), strict=True)]
    path.write_bytes(end.join([header.replace(",", separator), *map(separator.join, rows)]).encode())
    return path


def read(path: Path, *told: str, **options: object) -> Samples:
    """The motion in a file, with exactly these notes."""
    notes: list[str] = []
    samples = read_samples(path, None, notes.append, **options)
    assert notes == list(told)
    return samples


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t", ", "])
def test_tables_are_read_with_any_of_the_separators(tmp_path: Path, separator: str, end: str) -> None:
    found = read(table(tmp_path / "a.csv", "time,position_a,position_b", separator=separator, end=end))
    assert found.joint_names == ("a", "b") and found.velocity is None and found.nature is Nature.MEASURED
    np.testing.assert_allclose(found.time, SECONDS, atol=1e-12)
    np.testing.assert_array_equal(found.position, ANGLES)


def test_cut_rows_and_columns_of_no_joint_are_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,position_a,velocity_a,velocity_b\n0,1,2,3\n0.1,2,4,3\n0.2,3,4")
    found = read(tmp_path / "a.csv", "the last row is cut off, and left out", "columns left out: velocity_b")
    np.testing.assert_allclose(found.velocity, [[2.0], [4.0]])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([*TIME_UNITS]),
    st.sampled_from([0, SIMULATED_NS, EPOCH_NS]),
    st.sampled_from([1.0, 2.0, 5.0, 10.0, 20.0, 33.0, 100.0, 200.0, 1000.0, 2500.0]),
    st.sampled_from(["csv", "npz"]),
)
def test_times_without_a_unit_have_that_of_their_steps(
    tmp_path_factory: pytest.TempPathFactory, unit: str, begin_ns: int, step_ms: float, kind: str
) -> None:
    path = tmp_path_factory.mktemp("times") / f"motion.{kind}"
    size = 10 ** TIME_UNITS[unit]
    ns = begin_ns + np.arange(COUNT, dtype=np.int64) * round(step_ms * 1e6)
    times = ns // size if unit != "s" else ns / size
    if kind == "csv":
        table(path, "time,position_a,position_b", times)
    else:
        np.savez(path, time=times, position=ANGLES)
    notes: list[str] = []
    try:
        found = read_samples(path, None, notes.append)
    except RecordingError as refused:
        assert "--time-unit (s, ms, us, ns)" in str(refused) and not 5 < step_ms < 500 and begin_ns != EPOCH_NS
        found = read_samples(path, None, notes.append, units=GivenUnits(time=unit))
    np.testing.assert_allclose(found.time, (ns - ns[0]) * 1e-9, atol=1e-6 * step_ms + (unit == "s") * 3e-7)
    assert bool(notes) == (unit != "s") or "--time-unit" in str(notes) or begin_ns != EPOCH_NS


@pytest.mark.parametrize("step", [7.0, 30.0, 3000.0])
def test_steps_of_few_rows_that_may_mean_two_units_are_asked_for(tmp_path: Path, step: float) -> None:
    path = table(tmp_path / "a.csv", "time,position_a,position_b", step * np.arange(5), ANGLES[:5])
    with pytest.raises(RecordingError, match="--time-unit"):
        read_samples(path, None, pytest.fail)
    assert read(path, units=GivenUnits(time="s")).duration == pytest.approx(4 * step)
    assert read(path, units=GivenUnits(time="ms")).duration == pytest.approx(4e-3 * step)


@pytest.mark.parametrize("form", ["time [{}]", "time({})", "time_{}"])
@pytest.mark.parametrize("unit", TIME_UNITS)
def test_the_header_may_name_the_unit_of_times(tmp_path: Path, unit: str, form: str) -> None:
    times = np.round(SECONDS * 10.0 ** (9 - TIME_UNITS[unit]), 6)
    found = read(table(tmp_path / "a.csv", f"{form.format(unit)},position_a,position_b", times))
    np.testing.assert_allclose(found.time, SECONDS, atol=1e-9)


@pytest.mark.parametrize("form", ["{}", "{}Z", "{} UTC", "{}+0200", "{}+02:00", "{}-05"])
def test_times_may_be_dates_with_offsets(tmp_path: Path, form: str) -> None:
    dates = np.datetime64("2023-11-14T23:59:59.5") + (20 * np.arange(COUNT)).astype("timedelta64[ms]")
    times = np.array([form.format(date) for date in dates.astype("datetime64[ms]").astype(str)])
    times[COUNT // 2 :] = [one.replace("T", " ", 1) for one in times[COUNT // 2 :]]
    found = read(table(tmp_path / "a.csv", "time,position_a,position_b", times))
    np.testing.assert_allclose(found.time, SECONDS, atol=1e-9)
    table(tmp_path / "a.csv", "time,position_a,position_b", [*times[:-1], "2023-11-15 noon"])
    with pytest.raises(
        RecordingError, match="expected a date with a time in column time, row 41, got '2023-11-15 noon'"
    ):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "header",
    [
        "time,position,,velocity,\n,a,b,a,b",
        "time,position,position,velocity,velocity\n,a,b,a,b",
        ",position,position,velocity,velocity\ntime,a,b,a,b",
        ",position,position,velocity,velocity\n,a,b,a,b\ntime,,,,",
    ],
)
def test_a_header_may_have_quantities_above_joints(tmp_path: Path, header: str) -> None:
    found = read(table(tmp_path / "a.csv", header, values=np.hstack([ANGLES, 2 * ANGLES])))
    assert found.joint_names == ("a", "b")
    np.testing.assert_array_equal(found.time, SECONDS)
    np.testing.assert_array_equal(found.velocity, 2 * ANGLES)


@pytest.mark.parametrize("form", ["{} [deg]", "{} (deg)", "{}_deg", "{}[deg]"])
def test_degrees_in_a_header_are_converted_and_told(tmp_path: Path, form: str) -> None:
    header = ",".join(["time", *map(form.format, ("position_a", "position_b")), "velocity_a [deg/s]", "velocity_b_deg"])
    values = np.degrees(np.hstack([ANGLES, 2 * ANGLES]))
    told = "converted to rad (or m), as the header says: position_a, position_b, velocity_a, velocity_b"
    found = read(table(tmp_path / "a.csv", header, values=values), told)
    assert found.joint_names == ("a", "b")
    np.testing.assert_allclose(found.position, ANGLES, atol=1e-12)
    np.testing.assert_allclose(found.velocity, 2 * ANGLES, atol=1e-12)


@pytest.mark.parametrize("columns", ["position_a [deg],position_b", "position_b,velocity_b [deg/s]"])
def test_an_angle_without_a_unit_beside_degrees_is_asked_for(tmp_path: Path, columns: str) -> None:
    path = table(tmp_path / "a.csv", f"time,{columns}")
    with pytest.raises(RecordingError, match=r"expected a unit of position_b, .* --angle-unit \(rad, deg\)"):
        read_samples(path, None, lambda _: None)
    read_samples(path, None, lambda _: None, units=GivenUnits(angle="deg"))


def test_angles_as_large_as_degrees_are_told_unless_their_unit_is_known(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "time,position_a,position_b [rad]", values=np.degrees(ANGLES))
    np.savez(tmp_path / "a.npz", time=SECONDS, position=np.degrees(ANGLES), joint_names=["a", "b"])
    told = f"a is at up to {np.degrees(ANGLES[:, 0].max()):g}, taken as rad (degrees: --angle-unit deg)"
    for one in (path, tmp_path / "a.npz"):
        read(one, told)
        np.testing.assert_allclose(read(one, units=GivenUnits(angle="deg")).position[:, 0], ANGLES[:, 0])
        read(one, units=GivenUnits(angle="rad"))


TABLES = {
    "": "the file is empty",
    "a,b\n1,2\n": "expected columns time, position_<joint>",
    "time,velocity_j\n0,1\n": "expected columns time, position_<joint>",
    "position_j,velocity_j\n0,1\n": "column time is missing",
    "time,position_i,position_j,velocity_j\n0,1,2,3\n": "column velocity_i is missing",
    "time,position_j,position_j\n0,1,2\n": "expected column position_j once, got it 2 times",
    "time,position_j\n0,zero\n": "expected a number in column position_j, row 2, got 'zero'",
    "time,position_j\n0,1\n1,nan\n": "expected finite numbers, got nan as position of j in sample 1",
    "time,position_j\n0,1\n1,\n": "expected finite numbers, got nan as position of j in sample 1",
    "time,position_j\n0,1\n2,1\n1,1\n": "expected increasing times, got 1.000000 s after 2.000000 s in sample 2",
    "time,position_a\n0,1\n1\n2,3\n": "expected a number in column position_a, row 3, got nothing",
    "time,position_a\n0,0,1,5\n": "expected 2 cells, as in the header, got 4 in row 2 (separated by ',')",
    "time;position_a\n0,5;1,5\n": "expected a number in column position_a, row 2, got '1,5'",
    "time [min],position_a\n0,1\n": "column time is missing",
    "time,position_a [ticks]\n0,1\n": "expected a unit such as deg or rad/s in column position_a [ticks], got 'ticks'",
    "time,position_a\n": "expected samples, got none",
    'time,position_a,note\n0,1,"of\n1,2,\n2,3,\n': "not a CSV table: unexpected end of data",
    f"time,{'position_a' * 10_000}\n0,zero\n": " ... ",
}
FILES = [
    *(("a.csv", text, told) for text, told in TABLES.items()),
    ("a.csv", bytes(range(256)) * 20, "not a text file"),
    ("a.db3", b"this is no database" * 100, "cannot be read"),
    ("a.mcap", b"this is no database" * 100, "cannot be read"),
    ("a.npz", b"PK\x03\x04 no archive", "cannot be read"),
    ("a.db3", b"", "cannot be read"),
    ("a.mcap", b"\x89MCAP0\r\n" * 2 + b"\x01", "cannot be read"),
    ("folder", None, "metadata file"),
    ("none.db3", None, "no such file"),
    ("plan.yaml", b"x", "expected a rosbag2 folder or a file ending in .db3, .mcap, .csv, .txt, .npz"),
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


def test_what_files_are_called_and_hold_does_not_control_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\nb.csv"
    path.write_text("time,position_j\x07\x9b31m,position_k\n0,zero,0\n")
    with pytest.raises(RecordingError) as told:
        read_samples(path, None, pytest.fail)
    line = str(told.value)
    assert line.isprintable() and r"a\x1b[31m\nb.csv" in line and r"j\x07\x9b31m," in line


SHAPES = {
    "expected arrays time and position, got time": {"position": None},
    "expected position of shape [N, D] or [B, N, D], got [3]": {"position": np.zeros(3)},
    "expected position of shape [N, D] or [B, N, D], got [3, 0]": {"position": np.zeros((3, 0))},
    "expected time of shape [3] to go with position, got []": {"time": np.zeros(())},
    "expected velocity of shape [3, 2] to go with position, got [2, 2]": {"velocity": np.zeros((2, 2))},
    "expected time of shape [3] to go with position, got [4]": {"time": np.arange(4.0)},
    "expected 2 joint_names, got shape [1]": {"joint_names": ["a"]},
    "expected numbers in jerk, got <U1": {"jerk": np.full((3, 2), "x")},
    "expected numbers in velocity, got Object arrays cannot be loaded when allow_pickle=False": {
        "velocity": np.full((3, 2), None)
    },
}


@pytest.mark.parametrize("told", SHAPES)
def test_arrays_that_do_not_go_together_are_named(tmp_path: Path, told: str) -> None:
    arrays = {"time": np.arange(3.0), "position": np.zeros((3, 2)), **SHAPES[told]}
    np.savez(tmp_path / "a.npz", **{name: values for name, values in arrays.items() if values is not None})
    with pytest.raises(RecordingError) as refused:
        read_samples(tmp_path / "a.npz", None, pytest.fail)
    assert str(refused.value) == f"{tmp_path / 'a.npz'}: {told}"


def test_archives_are_read_whatever_else_is_in_them(tmp_path: Path) -> None:
    others = {"info": np.array({"robot": "x"}, dtype=object), "joint_names": np.array([b"a", b"b"])}
    both = np.stack([ANGLES, 2 * ANGLES])
    np.savez(tmp_path / "a.npz", time=SECONDS, position=both, **others)
    found = read(tmp_path / "a.npz", "motion 0 of 2 taken, the others left out")
    np.testing.assert_array_equal(found.position, ANGLES)
    assert found.joint_names == ("a", "b")
    np.testing.assert_array_equal(read(tmp_path / "a.npz", row=1).position, 2 * ANGLES)
    with (tmp_path / "b.npz").open("wb") as file:
        np.save(file, ANGLES)
    with pytest.raises(RecordingError, match="expected an archive of named arrays"):
        read_samples(tmp_path / "b.npz", None, pytest.fail)


@pytest.mark.parametrize("gap", [1e-9, 1e-3, 1.0, 1e6, 1e9])
def test_rates_at_the_start_are_found_however_far_apart_samples_are(tmp_path: Path, gap: float) -> None:
    times = np.array([0.0, 0.01, 0.02, 0.02 + gap])
    position = np.column_stack([3 + 2 * times, 0.5 * times**2])
    np.savez(tmp_path / "a.npz", time=times, position=position)
    given_ = {"made_of": lambda motion: motion, "units": GivenUnits(time="s")}
    (found,) = read_sequences(tmp_path / "a.npz", "position", None, lambda _: None, **given_)
    np.testing.assert_allclose(found.fields["start_velocity"], [[2, 0]], atol=1e-6)
    np.testing.assert_allclose(found.fields["start_acceleration"], [[0, 1]], atol=1e-3)

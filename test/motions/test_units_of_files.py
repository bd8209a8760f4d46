"""Times and angles of tables and archives are read in their units, or the option that decides them is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.samples import RecordingError
from traj_integrator_ros.motions.table_times import TIME_UNITS
from traj_integrator_ros.motions.units import GivenUnits

COUNT = 40
SECONDS = 0.02 * np.arange(COUNT)
ANGLES = np.column_stack([np.sin(SECONDS), 0.5 * np.cos(SECONDS)])
EPOCH_NS, SIMULATED_NS = 1_700_000_000_000_000_000, 31_950_000_000


def table(path: Path, header: str, times: list[object], angles: np.ndarray = ANGLES) -> Path:
    rows = [",".join([str(time), *map(repr, row)]) for time, row in zip(times, angles.tolist(), strict=True)]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


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
        table(path, "time,position_a,position_b", times.tolist())
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
    path = table(tmp_path / "a.csv", "time,position_a,position_b", [step * k for k in range(5)], ANGLES[:5])
    with pytest.raises(RecordingError, match="--time-unit"):
        read_samples(path, None, pytest.fail)
    assert read_samples(path, None, pytest.fail, units=GivenUnits(time="s")).duration == pytest.approx(4 * step)
    assert read_samples(path, None, lambda _: None, units=GivenUnits(time="ms")).duration == pytest.approx(4e-3 * step)


@pytest.mark.parametrize("offset", ["", "Z", "+00:00", "+02:00", "-0530", "+02", " UTC"])
@pytest.mark.parametrize("sign", ["-", "/"])
def test_dates_have_offsets(tmp_path: Path, offset: str, sign: str) -> None:
    dates = [f"2024{sign}02{sign}03T04:05:{6 + 0.02 * k:09.6f}{offset}" for k in range(COUNT)]
    found = read_samples(table(tmp_path / "a.csv", "time,position_a,position_b", dates), None, pytest.fail)
    np.testing.assert_allclose(found.time, SECONDS, atol=1e-9)


def test_dates_with_offsets_that_change_go_on(tmp_path: Path) -> None:
    dates = [f"2024-03-31 {1 + 2 * (k >= 20)}:59:{58 + 0.02 * k:07.4f}+0{1 + (k >= 20) * 2}:00" for k in range(COUNT)]
    found = read_samples(
        table(tmp_path / "a.csv", "time,position_a,position_b", [f"{d[:11]}0{d[11:]}" for d in dates]),
        None,
        pytest.fail,
    )
    np.testing.assert_allclose(found.time, SECONDS, atol=1e-9)


FORMS = [
    *("{} [deg]", "{} (deg)", "{}_deg", "{} [\u00b0]", "{}[degrees]", "{} [\u00ba]", "{}{{deg}}", "{} [Deg.]"),
    *("{} deg", "{}/deg", "{}.degrees", "{} in deg", "{} \u00b0", "{}_DEG"),
    *("{} <deg>", "{}|deg", "{}:deg", "{}-deg", "{} 'deg'", "{} / deg"),
    *("{}_in_degrees", "{} (in deg)", "{}\u00a0[deg]"),
]


@pytest.mark.parametrize("form", FORMS)
def test_degrees_in_a_header_are_converted_and_told(tmp_path: Path, form: str) -> None:
    names = ["position_a", "position_b"]
    rates = [f"velocity_{joint} [deg/s]" for joint in "ab"]
    header = ",".join(["time [ms]", *map(form.format, names), *rates])
    values = np.degrees(np.hstack([ANGLES, 2 * ANGLES]))
    notes: list[str] = []
    found = read_samples(table(tmp_path / "a.csv", header, [20 * k for k in range(COUNT)], values), None, notes.append)
    assert found.joint_names == ("a", "b")
    np.testing.assert_allclose(found.position, ANGLES, atol=1e-12)
    np.testing.assert_allclose(found.velocity, 2 * ANGLES, atol=1e-12)
    (told,) = notes
    assert told.startswith("converted to rad (or m), as the header says: position_a")


def test_an_angle_without_a_unit_beside_degrees_is_asked_for(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "time,position_a [deg],position_b", SECONDS.tolist(), np.degrees(ANGLES))
    with pytest.raises(RecordingError, match=r"expected a unit of position_b, .* --angle-unit \(rad, deg\)"):
        read_samples(path, None, lambda _: None)
    found = read_samples(path, None, lambda _: None, units=GivenUnits(angle="deg"))
    np.testing.assert_allclose(found.position, ANGLES, atol=1e-12)


@pytest.mark.parametrize("form", ["position_deg_{}", "position[deg]_{}", "position (deg) {}", "position_degrees_{}"])
def test_degrees_may_stand_before_the_joint(tmp_path: Path, form: str) -> None:
    header = ",".join(["time", *map(form.format, "ab")])
    notes: list[str] = []
    found = read_samples(table(tmp_path / "a.csv", header, SECONDS.tolist(), np.degrees(ANGLES)), None, notes.append)
    assert found.joint_names == ("a", "b") and "as the header says" in notes[0]
    np.testing.assert_allclose(found.position, ANGLES, atol=1e-12)


UNITS_OF_TIME = {
    "s": "s sec secs second seconds",
    "ms": "ms msec milliseconds",
    "us": "us usec \u00b5s \u03bcs microseconds",
    "ns": "ns nsec nanosec nanoseconds",
}
WRITTEN = [(unit, text) for unit, texts in UNITS_OF_TIME.items() for text in texts.split()]


@pytest.mark.parametrize(("unit", "text"), WRITTEN)
def test_units_of_time_are_known_as_people_write_them(tmp_path: Path, unit: str, text: str) -> None:
    times = np.round(SECONDS * 10.0 ** (9 - TIME_UNITS[unit]), 6)
    found = []
    for form in (f"time [{text}]", f"time({text})", f"time_{text}"):
        found.append(table(tmp_path / f"{len(found)}.csv", f"{form},position_a,position_b", times.tolist()))
        np.savez(tmp_path / f"{len(found)}.npz", **{form: times, "position": ANGLES})
        found.append(tmp_path / f"{len(found)}.npz")
    found.append(table(tmp_path / "below.csv", f"time,position_a,position_b\n{text},rad,rad", times.tolist()))
    for path in found:
        np.testing.assert_allclose(read_samples(path, None, pytest.fail).time, SECONDS, atol=1e-9)


@pytest.mark.parametrize("text", ["min", "hours", "frames"])
def test_other_units_of_time_are_refused_with_those_that_are_known(tmp_path: Path, text: str) -> None:
    path = table(tmp_path / "a.csv", f"time [{text}],position_a,position_b", SECONDS.tolist())
    with pytest.raises(RecordingError, match=rf"expected s, ms, us or ns in column time \[{text}\]"):
        read_samples(path, None, pytest.fail)


def test_times_without_a_sign_may_go_back_and_no_time_is_refused(tmp_path: Path) -> None:
    ns = EPOCH_NS + (1e9 * SECONDS).round().astype(np.uint64)
    np.savez(tmp_path / "a.npz", time=ns[::-1], position=ANGLES[::-1])
    found = read_samples(tmp_path / "a.npz", None, lambda _: None)
    np.testing.assert_allclose(found.time, SECONDS, atol=1e-9)
    np.testing.assert_array_equal(found.position, ANGLES)
    np.savez(tmp_path / "b.npz", time=np.array(["NaT"] * COUNT, "datetime64[ns]"), position=ANGLES)
    with pytest.raises(RecordingError, match="expected times, got NaT in time"):
        read_samples(tmp_path / "b.npz", None, pytest.fail)


def test_units_in_rad_say_nothing_and_unknown_ones_are_named(tmp_path: Path) -> None:
    times = SECONDS.tolist()
    path = table(tmp_path / "a.csv", "time [s],position_a [rad],position_b_rad", times)
    np.testing.assert_array_equal(read_samples(path, None, pytest.fail).position, ANGLES)
    with pytest.raises(RecordingError, match=r"expected a unit such as deg .* in column position_a \[ticks\]"):
        read_samples(table(path, "time,position_a [ticks],position_b", times), None, pytest.fail)


def test_angles_as_large_as_degrees_are_told_unless_their_unit_is_known(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "time,position_a,position_b", SECONDS.tolist(), np.degrees(ANGLES))
    notes: list[str] = []
    read_samples(path, None, notes.append)
    assert notes == [f"a is at up to {np.degrees(ANGLES[:, 0].max()):g}, taken as rad (degrees: --angle-unit deg)"]
    np.testing.assert_allclose(read_samples(path, None, pytest.fail, units=GivenUnits(angle="deg")).position, ANGLES)
    read_samples(path, None, pytest.fail, units=GivenUnits(angle="rad"))


TWO_LINES = {
    "units below": "time,position_a,position_b\nms,deg,deg",
    "units below, in brackets": "time,position_a,position_b\n[ms],[deg],[deg]",
    "a title before": "recording of an arm\n# of today\ntime [ms],position_a [deg],position_b [deg]",
    "quantities above": "time [ms],position,\n,a [deg],b [deg]",
    "quantities above, units below": "time,position,\n,a,b\nms,deg,deg",
}


@pytest.mark.parametrize("header", TWO_LINES.values(), ids=TWO_LINES)
def test_headers_of_two_lines_are_read(tmp_path: Path, header: str) -> None:
    path = table(tmp_path / "a.csv", header, [20 * k for k in range(COUNT)], np.degrees(ANGLES))
    found = read_samples(path, None, lambda _: None)
    assert found.joint_names == ("a", "b")
    np.testing.assert_allclose(found.position, ANGLES, atol=1e-12)
    np.testing.assert_allclose(found.time, SECONDS, atol=1e-12)


@pytest.mark.parametrize("name", ["yes", "~", "off"])
def test_names_that_yaml_reads_as_others_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.yaml").write_text(f"joint_names: [{name}]\npoints: [{{positions: [1.0], time_from_start: 0}}]")
    with pytest.raises(RecordingError, match="have to be quoted"):
        read_samples(tmp_path / "a.yaml", None, pytest.fail)


def test_archives_have_units_in_names_and_times_as_dates(tmp_path: Path) -> None:
    dates = np.datetime64("2024-02-03T04:05:06") + (1e9 * SECONDS).round().astype("timedelta64[ns]")
    notes: list[str] = []
    np.savez(tmp_path / "a.npz", time=dates, position_deg=np.degrees(ANGLES))
    found = read_samples(tmp_path / "a.npz", None, notes.append)
    np.testing.assert_allclose(found.position, ANGLES, atol=1e-12)
    np.testing.assert_allclose(found.time, SECONDS, atol=1e-12)
    assert notes == ["converted to rad (or m), as their names say: position"]
    np.savez(tmp_path / "b.npz", time_ms=1e3 * SECONDS, position=ANGLES.astype(np.float32))
    np.testing.assert_allclose(read_samples(tmp_path / "b.npz", None, pytest.fail).time, SECONDS, atol=1e-12)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize(("step", "choice"), [(1.0, "between 1 Hz and 1 kHz"), (60.0, "a minute, or 60 ms")])
def test_times_that_may_be_of_two_units_are_asked_for(tmp_path: Path, unit: str, step: float, choice: str) -> None:
    begin = EPOCH_NS // 10**9 if step > 5 else 0
    times = [(begin + step * k) * 10 ** (9 - TIME_UNITS[unit]) for k in range(COUNT)]
    path = table(tmp_path / "a.csv", "time,position_a,position_b", times)
    with pytest.raises(RecordingError, match="--time-unit"):
        read_samples(path, None, pytest.fail)
    found = read_samples(path, None, lambda _: None, units=GivenUnits(time=unit))
    assert found.duration == pytest.approx(step * (COUNT - 1)), choice


def test_a_pause_of_an_hour_makes_no_dates_of_times(tmp_path: Path) -> None:
    seconds = np.concatenate([SECONDS[:20], 3600 + SECONDS[:20]])
    path = table(tmp_path / "a.csv", "time,position_a,position_b", (1e6 * seconds).round().astype(int).tolist())
    np.testing.assert_allclose(read_samples(path, None, lambda _: None).time, seconds, atol=1e-6)


def test_times_in_32_bits_are_read_over_their_whole_range(tmp_path: Path) -> None:
    ms = np.linspace(-2_147_483_000, 2_147_483_000, COUNT).astype(np.int32)
    np.savez(tmp_path / "a.npz", time_ms=ms, position=ANGLES)
    found = read_samples(tmp_path / "a.npz", None, pytest.fail)
    assert found.duration == pytest.approx(4_294_966.0)


OTHER_COLUMNS = {
    "position_a [deg],velocity_a": "velocity_a",
    "position_a,velocity_a [deg/s]": "position_a",
    "/joint_states/a/position,/joint_states/a/velocity [deg/s]": "/joint_states/a/position",
}


@pytest.mark.parametrize("columns", OTHER_COLUMNS)
def test_an_angle_without_a_unit_beside_rates_in_degrees_is_asked_for(tmp_path: Path, columns: str) -> None:
    path = table(tmp_path / "a.csv", f"time [s],{columns}", SECONDS.tolist())
    with pytest.raises(RecordingError, match=rf"expected a unit of {OTHER_COLUMNS[columns]}, .* --angle-unit"):
        read_samples(path, None, lambda _: None)
    read_samples(path, None, lambda _: None, units=GivenUnits(angle="deg"))
    np.savez(tmp_path / "a.npz", time=SECONDS, position_deg=ANGLES, velocity=ANGLES)
    with pytest.raises(RecordingError, match=r"expected a unit of velocity, since position has one; .* --angle-unit"):
        read_samples(tmp_path / "a.npz", None, lambda _: None)


@pytest.mark.parametrize("unit", ["deg\u00b7s\u207b\u00b9", "deg*s^-1", "\u00b0/s", "degrees per second", "dps"])
def test_rates_in_degrees_are_known_as_people_write_them(tmp_path: Path, unit: str) -> None:
    path = table(tmp_path / "a.csv", f"time,position_a [rad],velocity_a [{unit}]", SECONDS.tolist())
    found = read_samples(path, None, lambda _: None)
    np.testing.assert_allclose(found.velocity, np.radians(ANGLES[:, 1:]), atol=1e-12)


def test_plotjuggler_columns_may_have_units(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "__time,/joint_states/a/position [deg],/joint_states/b/position [deg]",
                 (1.7e9 + SECONDS).tolist(), np.degrees(ANGLES))  # fmt: skip
    np.testing.assert_allclose(read_samples(path, None, lambda _: None).position, ANGLES, atol=1e-12)


def test_dates_and_numbers_are_not_mixed(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "time,position_a,position_b", ["2024-02-03T04:05:06Z", 1.5], ANGLES[:2])
    with pytest.raises(RecordingError, match=r"expected a time in column time, row 3, got '1.5'"):
        read_samples(path, None, pytest.fail)


@pytest.mark.parametrize("name", ["1", "01", "010", "0x10", "1_0", "1:30", "1.10", "1e3", ".inf"])
def test_numbers_that_are_not_quoted_are_names_as_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.yaml").write_text(f"joint_names: [{name}]\npoints: [{{positions: [1.0], time_from_start: 0}}]")
    assert read_samples(tmp_path / "a.yaml", None, pytest.fail).joint_names == (name,)

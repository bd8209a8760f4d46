"""Tables in all common forms, and archives whose names are bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from traj_integrator_ros.motions.files import read_samples, read_trajectories
from traj_integrator_ros.motions.read_csv import UR_JOINTS
from traj_integrator_ros.motions.samples import Nature, RecordingError
from traj_integrator_ros.motions.trajectories import PlannedTrajectory

COUNT = 20
TIME = 5230.112 + 0.002 * np.arange(COUNT)
POSITION = np.sin(TIME[:, None] + np.arange(6))
VELOCITY = np.cos(TIME[:, None] + np.arange(6))


def log(which: str = "target", separator: str = ",", sign: str = ".", *, end: str = "", quote: str = "") -> str:
    """A log of a UR controller."""
    names = ["timestamp", *(f"{which}_{q}_{i}" for q in ("q", "qd") for i in range(6))]
    cells = [
        [repr(x).replace(".", sign) for x in row] for row in np.hstack([TIME[:, None], POSITION, VELOCITY]).tolist()
    ]
    return "".join(separator.join(f"{quote}{one}{quote}" for one in row) + end + "\n" for row in [names, *cells])


def read(tmp_path: Path, text: str, *told: str):
    (tmp_path / "log.csv").write_bytes(text.encode())
    notes: list[str] = []
    samples = read_samples(tmp_path / "log.csv", None, notes.append)
    assert notes == list(told)
    return samples


FORMS = {
    "comma": log(),
    "space": log(separator=" "),
    "spaces": log(separator="   "),
    "tab": log(separator="\t"),
    "semicolon": log(separator=";"),
    "semicolon, decimal comma": log(separator=";", sign=","),
    "tab, decimal comma": log(separator="\t", sign=","),
    "space, decimal comma": log(separator=" ", sign=","),
    "comma and space": log(separator=", "),
    "comma, quoted decimal comma": log(sign=",", quote='"'),
    "separator at the end": log(separator=";", end=";"),
    "space at the end": log(separator=" ", end=" "),
    "header of numpy.savetxt": f"# {log(separator=' ')}",
    "lines end as on Windows": log().replace("\n", "\r\n"),
    "lines end as in a spreadsheet": log().replace("\n", "\r"),
}


@pytest.mark.parametrize("which", ["target", "actual"])
@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_the_log_of_a_controller_is_read_in_any_form(tmp_path: Path, text: str, which: str) -> None:
    found = read(tmp_path, text.replace("target", which))
    assert found.joint_names == UR_JOINTS
    np.testing.assert_allclose(found.time, TIME - TIME[0], atol=1e-12)
    np.testing.assert_array_equal(found.position, POSITION)
    np.testing.assert_array_equal(found.velocity, VELOCITY)
    assert found.nature is (Nature.SET_POINTS if which == "target" else Nature.MEASURED)


def test_set_points_go_before_what_was_measured_which_is_told(tmp_path: Path) -> None:
    lines = zip(log().splitlines(), log("actual").splitlines(), strict=True)
    names = ", ".join(f"actual_q_{i}" for i in range(6))
    found = read(
        tmp_path, "\n".join(map(",".join, lines)).replace("timestamp,a", "x,a"), f"columns left out: {names} and 6 more"
    )
    np.testing.assert_array_equal(found.position, POSITION)


def test_cut_rows_and_columns_of_no_joint_are_left_out_and_told(tmp_path: Path) -> None:
    text = "time,position_a,velocity_a,velocity_b\n0,1,2,3\n0.1,2,,3\n0.2,3,4"
    told = (
        "the last row is cut off, and left out",
        "columns left out: velocity_b",
        "velocity of a by differences where it was not given",
    )
    found = read(tmp_path, text, *told)
    np.testing.assert_allclose(found.velocity, [[2.0], [10.0]])


ORDERED = np.column_stack([TIME, POSITION[:, :2], VELOCITY[:, :2]])
AGAIN = np.arange(COUNT).repeat(1 + (np.arange(COUNT) % 7 == 3))
SWAPPED = np.r_[0:4, 5, 4, 6:COUNT]
IN_ORDER = {
    "a row twice": (AGAIN, ["3 rows left out, with the time of another one"]),
    "rows that overtook each other": (SWAPPED, ["1 row out of order, sorted by their times"]),
    "backwards": (np.arange(COUNT)[::-1], ["19 rows out of order, sorted by their times"]),
    "later part first": (np.r_[12:COUNT, 0:12], ["12 rows out of order, sorted by their times"]),
    "shuffled": (np.random.default_rng(3).permutation(COUNT), ["17 rows out of order, sorted by their times"]),
    "swapped and twice": (
        SWAPPED[AGAIN],
        ["1 row out of order, sorted by their times", "3 rows left out, with the time of another one"],
    ),
}


@pytest.mark.parametrize("step", [0.002, 0.4], ids=["milliseconds", "seconds"])
@pytest.mark.parametrize("kind", ["csv", "npz"])
@pytest.mark.parametrize(("order", "told"), IN_ORDER.values(), ids=IN_ORDER)
def test_rows_are_put_in_order_once_each_with_a_note(
    tmp_path: Path, order: np.ndarray, told: list[str], kind: str, step: float
) -> None:
    rows, path = ORDERED.copy(), tmp_path / f"motion.{kind}"
    rows[:, 0] = step * np.arange(COUNT)
    if kind == "csv":
        header = ",".join(["time", *(f"{quantity}_{joint}" for quantity in ("position", "velocity") for joint in "ab")])
        path.write_text("\n".join([header, *(",".join(map(repr, row)) for row in rows[order].tolist())]))
    else:
        time, position, velocity = np.split(rows[order], [1, 3], axis=1)
        np.savez(path, time=time[:, 0], position=position, velocity=velocity, joint_names=["a", "b"])
    for read_one in (read_samples, lambda *given: next(read_trajectories(*given))):
        notes: list[str] = []
        found = read_one(path, None, notes.append)
        assert notes == told
        if isinstance(found, PlannedTrajectory):
            assert [point.time_ns for point in found.points] == [round(1e9 * time) for time in rows[:, 0]]
            np.testing.assert_array_equal(found.rows("positions"), rows[:, 1:3])
            continue
        np.testing.assert_allclose(found.time, rows[:, 0], atol=1e-12)
        np.testing.assert_array_equal(found.position, rows[:, 1:3])
        np.testing.assert_array_equal(found.velocity, rows[:, 3:])


def test_two_recordings_in_one_table_are_refused(tmp_path: Path) -> None:
    rows = [f"{0.1 * k},{0.1 * k}" for k in range(100)]
    (tmp_path / "log.csv").write_text("\n".join(["time,position_a", *rows, *rows]))
    with pytest.raises(RecordingError, match=r"0\.000000 s after 9\.900000 s in sample 100, as of another recording"):
        read_samples(tmp_path / "log.csv", None, pytest.fail)


@pytest.mark.parametrize("count", [90, 40, 9])
@pytest.mark.parametrize("shift", [0.0, 0.005])
def test_two_recordings_within_a_second_are_refused_too(tmp_path: Path, count: int, shift: float) -> None:
    rows = [f"{0.01 * k + shift * (k >= count) - 0.01 * count * (k >= count)},{0.01 * k}" for k in range(2 * count)]
    (tmp_path / "log.csv").write_text("\n".join(["time,position_a", *rows]))
    with pytest.raises(RecordingError, match="as of another recording"):
        read_samples(tmp_path / "log.csv", None, pytest.fail)


STATES = np.column_stack([np.sin(0.01 * np.arange(COUNT)), 0.5 * np.cos(0.01 * np.arange(COUNT))])
RATES = np.column_stack([np.cos(0.01 * np.arange(COUNT)), -0.5 * np.sin(0.01 * np.arange(COUNT))])
EPOCH, STEP_NS = 1_700_000_000, 10_000_000
SECONDS = [f"{EPOCH}.{10 * k:03d}" for k in range(COUNT)]
SINCE = [k * STEP_NS for k in range(COUNT)]
NS = [EPOCH * 10**9 + since for since in SINCE]
BOTH = ["/joint_states/a/position", "/joint_states/b/position"]
ISO = [f"2023-11-14T22:13:20.{10 * k:03d}Z" for k in range(COUNT)]
DATES = [f"2023-11-14 22:13:20.{10 * k:03d}" for k in range(COUNT)]


def table(*columns: tuple[str, object], separator: str = ",") -> str:
    """A table of the columns; the last two names are those of the positions of a and b."""
    names = [name for name, _ in columns]
    cells = [
        [str(values[k]) if isinstance(values, list) else str(values) for _, values in columns] for k in range(COUNT)
    ]
    return "\n".join(separator.join(row) for row in [names, *cells])


def positions(*names: str) -> list[tuple[str, list[float]]]:
    return [(name, STATES[:, k].tolist()) for k, name in enumerate(names)]


def parts(begin: str, second: str = "sec", rest: str = "nanosec") -> list[tuple[str, object]]:
    return [(f"{begin}{second}", EPOCH), (f"{begin}{rest}", SINCE)]


OWN = positions("position_a", "position_b")
TOLD_NS = "times in time are taken as ns, as large as they are"
EXPORTS = {
    # tables of the same motion of a and b, and the notes about them
    "PlotJuggler": (table(("__time", SECONDS), *positions(*BOTH)), ()),
    "PlotJuggler, semicolons": (table(("__time", SECONDS), *positions(*BOTH), separator=";"), ()),
    "PlotJuggler, in a namespace": (
        table(("__time", SECONDS), *positions("/arm/joint_states/a/position", "/arm/joint_states/b/position")), ()
    ),
    "PlotJuggler, by the stamp": (
        table(("__time", SECONDS[:1] * COUNT), ("/joint_states/header/stamp", SECONDS), *positions(*BOTH)), ()
    ),
    "PlotJuggler, by two parts of the stamp": (
        table(("__time", SECONDS), *parts("/joint_states/header/stamp/"), *positions(*BOTH)), ()
    ),
    "PlotJuggler, of one topic of two": (
        table(("__time", SECONDS), ("/command/a/position", 0), *positions(*BOTH)),
        ("topic /joint_states taken, left out: /command (--topic)",),
    ),
    "PlotJuggler, from 0 on": (table(("__time", [0.01 * k for k in range(COUNT)]), *positions(*BOTH)), ()),
    "time_ns": (table(("time_ns", NS), *OWN), ()),
    "timestamp_ns": (table(("timestamp_ns", NS), *OWN), ()),
    "time in brackets": (table(("time [ms]", [10 * k for k in range(COUNT)]), *OWN), ()),
    "time of the size of ns": (table(("time", NS), *OWN), (TOLD_NS,)),
    "dates": (table(("time", DATES), *OWN), ()),
    "dates of ISO": (table(("timestamp", ISO), *positions("a/position", "b/position")), ()),
    "timestamp": (table(("timestamp", SECONDS), *OWN), ()),
    **{f"{begin}sec": (table(*parts(begin), *OWN), ()) for begin in ("header.stamp.", "header/stamp/", "stamp_", "")},
    "header.stamp.secs": (table(*parts("header.stamp.", "secs", "nsecs"), *OWN), ()),
    "a.position": (table(("header.stamp", SECONDS), *positions("a.position", "b.position")), ()),
    "a_position": (table(("time", SECONDS), *positions("a_position", "b_position")), ()),
    "rostopic echo -p": (
        table(("%time", NS), ("field.header.stamp", NS), ("field.name0", "a"), ("field.name1", "b"),
              *positions("field.position0", "field.position1")), ()
    ),
    "name[0]": (
        table(("__time", SECONDS), ("/joint_states/name[0]", "a"), ("/joint_states/name[1]", "b"),
              *positions("/joint_states/position[0]", "/joint_states/position[1]")), ()
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told"), EXPORTS.values(), ids=EXPORTS)
def test_usual_exports_of_joint_states_are_read(tmp_path: Path, text: str, told: tuple[str, ...]) -> None:
    found = read(tmp_path, text, *told)
    # with the precision of floats, so long after 1970
    np.testing.assert_allclose(found.time, 0.01 * np.arange(COUNT), atol=3e-7)
    np.testing.assert_array_equal(found.position, STATES)
    assert found.joint_names == ("a", "b") and found.velocity is None


def test_rows_of_other_topics_are_no_states(tmp_path: Path) -> None:
    header = ["__time", *BOTH, *(one.replace("position", "velocity") for one in BOTH), "/other/x/data"]
    rows = [header]
    for k in range(COUNT):
        rows += [
            [SECONDS[k], *map(repr, [*STATES[k].tolist(), *RATES[k].tolist()]), ""],
            [f"{EPOCH + 0.01 * k + 0.004}", "", "", "", "", "1"],
        ]
    found = read(tmp_path, "\n".join(map(",".join, rows)))
    np.testing.assert_allclose(found.time, 0.01 * np.arange(COUNT), atol=1e-9)
    np.testing.assert_array_equal(found.velocity, RATES)


def test_of_several_topics_in_a_table_one_is_to_be_chosen(tmp_path: Path) -> None:
    text = table(("__time", SECONDS), ("/left/a/position", 0), *positions("/right/a/position", "/right/b/position"))
    with pytest.raises(RecordingError, match=r"of one topic \(--topic\), got those of /left, /right"):
        read(tmp_path, text)
    np.testing.assert_array_equal(read_samples(tmp_path / "log.csv", "/right", lambda _: None).position, STATES)


@pytest.mark.parametrize("time", ["x", "2023-11-14 22:13:20+2", "2023-13-14 22:13:20"])
def test_a_time_that_is_none_is_named(tmp_path: Path, time: str) -> None:
    with pytest.raises(RecordingError, match="expected a time in column __time, row 2, got"):
        read(tmp_path, table(("__time", time), *positions(*BOTH)))
    with pytest.raises(RecordingError, match="expected a column with times, such as __time"):
        read(tmp_path, table(*positions(*BOTH)))


BESIDE = {
    "info": np.array({"robot": "x"}, dtype=object),
    "frames": np.array([np.zeros((2, 2)), np.zeros(3)], dtype=object),
    "joint_names": np.array(["a", "b"], dtype=object),
    "velocity": np.full((COUNT, 2), None),
    "record": np.zeros(2, dtype=[("a", object), ("b", float)]),
}


@pytest.mark.parametrize("name", BESIDE)
def test_an_array_of_objects_beside_good_ones_is_named_and_left_out(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "motion.npz", time=TIME, position=STATES, **{name: BESIDE[name]})
    notes: list[str] = []
    found = read_samples(tmp_path / "motion.npz", None, notes.append)
    np.testing.assert_array_equal(found.position, STATES)
    assert notes == [f"array left out: {name}, which holds objects"] and found.velocity is None


@pytest.mark.parametrize("name", ["time", "position"])
def test_an_array_of_objects_without_which_there_is_no_motion_is_named(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "motion.npz", **{"time": TIME, "position": STATES, name: np.array([None, 1])})
    with pytest.raises(RecordingError, match=f"motion.npz: expected numbers in {name}, got objects"):
        read_samples(tmp_path / "motion.npz", None, pytest.fail)


def test_an_array_that_is_damaged_is_left_out_and_the_others_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "motion.npz", time=TIME, position=STATES, image=np.arange(1000.0))
    content = (tmp_path / "motion.npz").read_bytes()
    (tmp_path / "motion.npz").write_bytes(content.replace(np.arange(1000.0)[500:].tobytes(), bytes(4000)))
    notes: list[str] = []
    np.testing.assert_array_equal(read_samples(tmp_path / "motion.npz", None, notes.append).position, STATES)
    assert notes == ["array left out: image, which holds what cannot be read"]


@pytest.mark.parametrize("names", [[b"a", b"b"], ["a", "b"]], ids=["bytes", "text"])
def test_names_of_an_archive_are_text_or_bytes(tmp_path: Path, names: list[object]) -> None:
    arrays = {"time": TIME, "position": POSITION[:, :2], "joint_names": np.array(names)}
    np.savez(tmp_path / "motion.npz", **arrays)
    assert read_samples(tmp_path / "motion.npz", None, pytest.fail).joint_names == ("a", "b")


def test_of_several_motions_of_an_archive_the_one_that_is_taken_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "motion.npz", time=TIME, position=np.stack([POSITION, 2 * POSITION]))
    notes: list[str] = []
    np.testing.assert_array_equal(read_samples(tmp_path / "motion.npz", None, notes.append).position, POSITION)
    assert notes == ["motion 0 of 2 taken, the others left out"]
    np.testing.assert_array_equal(read_samples(tmp_path / "motion.npz", None, pytest.fail, 1).position, 2 * POSITION)

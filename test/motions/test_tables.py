"""Tables in all the forms that are about, and archives whose names are bytes."""

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


def test_a_row_that_is_cut_off_and_columns_of_no_joint_are_left_out_and_told(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("step", [0.002, 10.0], ids=["milliseconds", "seconds"])
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
    rows = [f"{0.1 * k},{k}" for k in range(100)]
    (tmp_path / "log.csv").write_text("\n".join(["time,position_a", *rows, *rows]))
    with pytest.raises(RecordingError, match=r"0\.000000 s after 9\.900000 s in sample 100, as of another recording"):
        read_samples(tmp_path / "log.csv", None, pytest.fail)


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

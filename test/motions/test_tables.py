"""Tables in all the forms that are about, and archives whose names are bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.read_csv import UR_JOINTS
from traj_integrator_ros.motions.samples import Nature, RecordingError

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
    (tmp_path / "log.csv").write_text(text)
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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            log(sign=","),
            "expected 13 cells, as in the header, got 26 in row 2 (columns are separated by comma, so that",
        ),
        (log(separator="|"), "with comma, semicolon, tab, space between them, got timestamp|target_q_0|"),
        (
            "time;position_a\n0,0;1.000,5\n",
            "expected a number with decimal commas in column position_a, row 2, got '1.000,5'",
        ),
        ("time;position_a\n0,0;1,5\n0.5;2\n", "with decimal commas in column time, row 3, got '0.5'"),
        ("time,position_a\n0,1\n1\n2,3\n", "expected a number in column position_a, row 3, got nothing"),
    ],
)
def test_what_cannot_be_told_is_refused_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(RecordingError) as refused:
        read(tmp_path, text)
    assert told in str(refused.value) and "\n" not in str(refused.value)


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

"""One motion from many joint states: nothing is lost silently, whoever published them and in whatever order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from joint_state_rows import BEGIN_NS, bag_of, states

from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.joint_states import StateRow, motion_of_states
from traj_integrator_ros.motions.samples import RecordingError, Samples

BETWEEN = 2e-4
"""Error between samples 0.1 s apart of sin(t): a cubic is off by h^4/384, a line beyond the last by a h^2/2."""


def motion(rows: list[StateRow], *told: str) -> Samples:
    """The motion of messages, with exactly these notes."""
    notes: list[str] = []
    found = motion_of_states(rows, "here", "test", notes.append).checked()
    assert notes == list(told)
    return found


def assert_is_that_of(found: Samples, rows: list[StateRow]) -> None:
    """Equal to the bit, by the stamps."""
    assert found.joint_names == rows[0].names
    np.testing.assert_allclose(found.time, [(row.stamp_ns - rows[0].stamp_ns) * 1e-9 for row in rows], atol=1e-12)
    np.testing.assert_array_equal(found.position, [row.position for row in rows])
    np.testing.assert_array_equal(found.velocity, [row.velocity for row in rows])


def by_recording(rows: list[StateRow]) -> list[StateRow]:
    return sorted(rows, key=lambda row: row.recorded_ns)


def turned(row: StateRow) -> StateRow:
    return row._replace(names=row.names[::-1], position=row.position[::-1], velocity=row.velocity[::-1])


@pytest.mark.parametrize("step", [0.01, 0.1, 0.033], ids=["faster", "slower", "uneven"])
@pytest.mark.parametrize("begin", [-0.0005, 0.0, 0.003])
def test_a_gripper_is_merged_at_the_times_of_the_arm(step: float, begin: float) -> None:
    gripper = states(["finger"], round(1.98 / step) + 1, step, begin)
    notes: list[str] = []
    rows = by_recording(gripper + states())
    found = motion_of_states(rows, "here", "test", notes.append).checked()
    assert found.joint_names == ("a", "b", "finger")
    np.testing.assert_array_equal(found.position[:, :2], [row.position for row in states()])
    np.testing.assert_allclose(found.position[:, 2], np.sin(found.time / 2), atol=BETWEEN)
    np.testing.assert_allclose(found.velocity[:, 2], np.cos(found.time / 2) / 2, atol=0.01)
    assert any(f"finger ({len(gripper)})" in note for note in notes)
    if (step, begin) != (0.01, 0.0):
        assert f"finger ({len(gripper)} messages) interpolated at the times of a, b (100 messages)" in notes


def test_two_arms_are_merged_where_both_are_covered() -> None:
    left, right = states(["left"], 100), states(["right"], 90, begin=0.2)
    found = motion(
        by_recording(left + right),
        "merged by name: messages with left (100); right (90)",
        "right (90 messages) interpolated at the times of left (100 messages)",
        "9 of 100 samples left out, at whose times not all joints are known",
    )
    np.testing.assert_array_equal(found.position[:, 0], [row.position[0] for row in left[9:]])
    assert found.joint_names == ("left", "right")


def test_a_first_message_with_some_of_the_joints_hides_no_others() -> None:
    rows = states()
    rows[0] = rows[0]._replace(names=("a",), position=rows[0].position[:1], velocity=rows[0].velocity[:1])
    found = motion(
        rows,
        "merged by name: messages with a (1); a, b (99)",
        "b (99 messages) interpolated at the times of a (100 messages)",
    )
    np.testing.assert_allclose(found.position, [row.position for row in states()], atol=BETWEEN)


def test_nothing_is_made_up_across_the_end_of_an_angles_range() -> None:
    slow = enumerate(states(["wrist"], 21, 0.1))
    wrist = [row._replace(position=np.array([3.1 if k < 10 else -3.1]), velocity=()) for k, row in slow]
    found = motion_of_states(by_recording(states() + wrist), "here", "test", lambda _: None)
    assert np.abs(found.position[:, 2]).min() > 3.0


EMPTY = StateRow((), (), (), BEGIN_NS, BEGIN_NS)
WHEELS = StateRow(("left", "right"), (), (1.0, 1.0), BEGIN_NS, BEGIN_NS)
UNEQUAL = StateRow(("a", "b"), (1.0,), (), BEGIN_NS, BEGIN_NS)


ROWS = states()
TWICE = "left out of {} messages: {} received twice"
THE_SAME = {
    # messages of which only the motion of ROWS remains, and the notes about them
    "of one publisher": (ROWS, ()),
    "joints in any order": ([turned(row) if k % 2 else row for k, row in enumerate(ROWS)], ()),
    "a joint that is known for a moment only": (
        by_recording(ROWS + states(["finger"], 1, begin=0.5)),
        (
            "merged by name: messages with a, b (100); finger (1)",
            "left out: finger, known from 0.500 s to 0.500 s only (1 message)",
        ),
    ),
    "some without positions": (
        [EMPTY, WHEELS, *ROWS, EMPTY, UNEQUAL],
        (
            "left out of 104 messages: 2 without positions, 1 with velocities only (left, right), "
            "1 whose positions do not go with their names",
        ),
    ),
    "one recorded again": (
        [*ROWS[:50], ROWS[49]._replace(recorded_ns=ROWS[49].recorded_ns + 1), *ROWS[50:]], (TWICE.format(101, 1),)
    ),
    "the first one twice": ([ROWS[0], *ROWS], (TWICE.format(101, 1),)),
    "each twice": ([row for row in ROWS for _ in range(2)], (TWICE.format(200, 100),)),
    "all of them again": ([*ROWS, *ROWS], (TWICE.format(200, 100),)),
    "another one with the same stamp": (
        [*ROWS[:8], ROWS[7]._replace(position=ROWS[7].position + 1e-6), *ROWS[8:]],
        ("1 message left out, with the stamp of another one",),
    ),
    "some that overtook others": (
        [*ROWS[:20], ROWS[21], ROWS[20], *ROWS[22:60], ROWS[61], ROWS[60], *ROWS[62:]],
        ("2 messages out of order, sorted by their stamps",),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "told"), THE_SAME.values(), ids=THE_SAME)
def test_what_messages_have_too_much_is_left_out_and_told(rows: list[StateRow], told: tuple[str, ...]) -> None:
    assert_is_that_of(motion(rows, *told), ROWS)


@pytest.mark.parametrize(
    ("rows", "got"), [([WHEELS], "1 with velocities only (left, right)"), ([EMPTY], "1 without positions"), ([], "no")]
)
def test_where_no_message_has_positions_what_they_are_is_told(rows: list[StateRow], got: str) -> None:
    with pytest.raises(RecordingError, match="here: expected joint states with positions, got") as refused:
        motion_of_states(rows, "here", "test", print)
    assert f"got {got}" in str(refused.value)


def test_positions_and_velocities_that_are_nan_are_not_given() -> None:
    lost = [row._replace(velocity=np.full(2, np.nan)) for row in states()]
    assert motion(lost).velocity is None
    some = [row._replace(velocity=np.array([np.nan, row.velocity[1]])) for row in states()]
    found = motion(some, "velocity of a by differences where it was not given")
    np.testing.assert_array_equal(found.velocity[:, 1], [row.velocity[1] for row in states()])
    # Second differences of sin(t / 2), 0.02 s apart: off by h^2 / 6 / 8, at the ends by h^2 / 3 / 8.
    np.testing.assert_allclose(found.velocity[:, 0], [row.velocity[0] for row in states()], atol=2e-5)
    wheel = [row._replace(position=np.array([row.position[0], np.nan])) for row in states()]
    assert motion(wheel, "left out: b, whose positions are not given (NaN)").joint_names == ("a",)
    short = [row._replace(velocity=(1.0,)) for row in states()]
    told = "left out of 100 messages: 100 whose velocities do not go with their names (only those)"
    assert motion(short, told).velocity is None


@pytest.mark.parametrize("stamp", [0, BEGIN_NS], ids=["none", "that stands still"])
def test_stamps_that_do_not_go_on_give_way_to_the_times_of_recording(stamp: int) -> None:
    rows = [row._replace(stamp_ns=stamp) for row in states()]
    told = "100 messages timed by their recording, since their stamps do not go on"
    recorded = [(row.recorded_ns - BEGIN_NS) * 1e-9 for row in rows]
    np.testing.assert_allclose(motion(rows, told).time, recorded, atol=1e-12)
    with pytest.raises(RecordingError, match="expected stamps that go on"):
        motion_of_states([row._replace(recorded_ns=None) for row in rows], "here", "test", print)


def test_after_a_clock_was_set_back_recording_times_go_on() -> None:
    before, after = states(count=50, begin=100.0), states(["a", "b"], 50, begin=0.0)
    last_ns = before[-1].recorded_ns
    later = [row._replace(recorded_ns=last_ns + (k + 1) * 20_000_000) for k, row in enumerate(after)]
    found = motion(before + later, "50 messages timed by their recording, since their stamps do not go on")
    np.testing.assert_allclose(found.time, np.arange(100) * 0.02, atol=0.0015)  # delays of recordings
    unstamped = by_recording(states() + [row._replace(stamp_ns=0) for row in states(["finger"])])
    notes: list[str] = []
    found = motion_of_states(unstamped, "here", "test", notes.append)
    assert "100 messages timed by their recording, since their stamps do not go on" in notes
    np.testing.assert_allclose(found.position[:, 2], np.sin(found.time / 2), atol=0.0015)


def episodes(
    count: int, rate: float, runs: int, shift: float = 0.0, pace: float = 1.0, first: float = 1.0
) -> list[StateRow]:
    """A simulation that is reset again and again, `pace` times as fast as it is recorded, without a pause.

    Stamps begin at `first` steps, those of each run `shift` s later.
    """
    rows = []
    for run in range(runs):
        for k, row in enumerate(states(count=count, step=1 / rate, begin=first / rate + run * shift)):
            stamp_ns = row.stamp_ns - BEGIN_NS
            at = round((run * count + k) * 1e9 / rate / pace)
            rows.append(row._replace(stamp_ns=stamp_ns, recorded_ns=BEGIN_NS + at, position=row.position + run))
    return rows


@pytest.mark.parametrize("runs", [2, 5])
@pytest.mark.parametrize(("count", "rate"), [(90, 100.0), (450, 500.0), (6, 10.0), (40, 100.0), (9, 10.0)])
@pytest.mark.parametrize("shift", [0.0, 0.001, 0.005])
@pytest.mark.parametrize("pace", [0.3, 1.0, 4.0])
def test_a_simulation_that_is_reset_early_gives_all_of_its_runs(
    count: int, rate: float, runs: int, shift: float, pace: float
) -> None:
    """Resets within the first second, with the same stamps in each run, or stamps between those of another."""
    rows = episodes(count, rate, runs, shift, pace)
    notes: list[str] = []
    found = motion_of_states(rows, "here", "test", notes.append).checked()
    np.testing.assert_array_equal(found.position, [row.position for row in rows])
    assert pace != 1 or np.allclose(np.diff(found.time), 1 / rate, rtol=0, atol=shift * runs + 1e-9)
    assert [note for note in notes if note.endswith("since their stamps do not go on")] == notes
    printed = [row._replace(recorded_ns=None) for row in rows]
    with pytest.raises(RecordingError, match="expected stamps that go on"):
        motion_of_states(printed, "here", "test", print)


def test_a_clock_that_begins_with_0_is_none_that_was_set_back() -> None:
    rows = episodes(90, 100.0, 1, first=0.0)
    found = motion(rows, "1 message timed by their recording, since their stamps do not go on")
    np.testing.assert_allclose(np.diff(found.time)[1:], 0.01, rtol=0, atol=1e-9)


def test_a_reset_counts_for_all_publishers() -> None:
    """It counts for a publisher that has sent too few messages to notice the reset by itself."""
    arm, finger = episodes(90, 100.0, 2), [row._replace(names=("finger",), position=row.position[:1], velocity=())
                                           for row in episodes(90, 100.0, 2)[45::30]]  # fmt: skip
    found = motion_of_states(by_recording(arm + finger), "here", "test", lambda _: None)
    np.testing.assert_array_equal(found.position[:, :2], [row.position for row in arm[-len(found.time) :]])
    np.testing.assert_allclose(found.position[:, 2], found.position[:, 0], atol=0.6)
    assert np.ptp(found.position[:, 2]) > 1.0 and len(found.time) > 100


LATE = {
    # places of ROWS in the order of recording; none of these is a reset
    "one of them": [*range(40), *range(41, 60), 40, *range(60, 100)],
    "every fourth": [k + (2 if k % 4 == 0 else -1 if k % 4 in (1, 2) else 0) for k in range(96)] + [*range(96, 100)],
    "a block": [*range(40), *range(60, 80), *range(40, 60), *range(80, 100)],
    "the last ones": [*range(90), 95, 96, 97, 98, 99, 90, 91, 92, 93, 94],
    "one publisher behind the other": [k - 6 * (k % 2) for k in range(8, 100)],
    "shuffled": np.random.default_rng(0).permutation(40).tolist(),
}


@pytest.mark.parametrize("places", LATE.values(), ids=LATE)
def test_what_is_late_is_no_reset(places: list[int]) -> None:
    notes: list[str] = []
    found = motion_of_states([ROWS[k] for k in places], "here", "test", notes.append).checked()
    assert_is_that_of(found, [ROWS[k] for k in sorted(set(places))])
    assert any("out of order, sorted by their stamps" in note for note in notes)


@pytest.mark.parametrize(
    ("names", "told"),
    [(("a", "b"), "100 messages left out, with the stamp of another one"),
     (("b", "a"), "100 positions of a, b left out, with the stamp of another one"),
     (("b", "c"), "100 positions of b left out, with the stamp of another one"),
     (("c", "a", "b"), "100 positions of a, b left out, with the stamp of another one")],
)  # fmt: skip
def test_two_publishers_of_the_same_joints_are_told(names: tuple[str, ...], told: str) -> None:
    zeros = [row._replace(names=names, position=(0.0,) * len(names), velocity=()) for row in ROWS]
    for rows in (zip(ROWS, zeros, strict=True), zip(zeros, ROWS, strict=True)):
        notes: list[str] = []
        motion_of_states([row for pair in rows for row in pair], "here", "test", notes.append)
        assert told in notes or told.replace("a, b", "b, a") in notes


def test_a_joint_twice_in_a_message_is_refused() -> None:
    with pytest.raises(RecordingError, match="here: expected every joint once, got a twice in message 1"):
        motion_of_states([states()[0], states(("a", "a"))[0]], "here", "test", print)


def test_topics_left_out_are_told_and_a_choice_is_the_users(tmp_path: Path) -> None:
    notes: list[str] = []
    bag = bag_of(tmp_path / "bag", {"/joint_states": states(), "/other/joint_states": states(["c"])})
    assert_is_that_of(read_samples(bag, None, notes.append), states())
    assert notes == ["topic /joint_states taken, left out: /other/joint_states (--topic)"]
    assert_is_that_of(read_samples(bag, "/other/joint_states", pytest.fail), states(["c"]))
    with pytest.raises(RecordingError, match="expected a JointState topic /c, got /joint_states, /other/joint_states"):
        read_samples(bag, "/c", pytest.fail)
    with pytest.raises(RecordingError, match="several JointState topics, choose one by --topic: /a, /b"):
        read_samples(bag_of(tmp_path / "two", {"/a": states(), "/b": states()}), None, pytest.fail)


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
def test_the_bare_file_of_a_bag_is_read_as_its_folder(tmp_path: Path, storage: str) -> None:
    folder = bag_of(tmp_path / "bag", {"/arm/states": states()}, storage=storage)
    (folder / "metadata.yaml").unlink()
    (file,) = folder.iterdir()
    assert_is_that_of(read_samples(file, None, pytest.fail), states())

"""One motion from many joint states: nothing is lost silently, whoever published them and in whatever order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recordings import BEGIN_NS, bag_of, states

from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.joint_states import StateRow, motion_of_states
from traj_integrator_ros.motions.samples import RecordingError, Samples

BETWEEN = 2e-3
"""Largest error between samples h = 0.1 s apart of sin(t): a line is off by h^2/8."""


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
    found = motion_of_states(by_recording(gripper + states()), "here", "test", notes.append).checked()
    assert sorted(found.joint_names) == ["a", "b", "finger"]
    position = {name: found.position[:, k] for k, name in enumerate(found.joint_names)}
    since = [row for row in states() if row.stamp_ns >= gripper[0].stamp_ns][: len(found.time)]
    np.testing.assert_array_equal(position["b"], [row.position[1] for row in since])
    np.testing.assert_allclose(position["finger"], position["a"], atol=BETWEEN)
    if (step, begin) != (0.01, 0.0):
        assert f"finger ({len(gripper)} messages) interpolated at the times of a (100)" in notes
    assert len(found.time) >= 95


def test_two_arms_are_merged_where_both_are_covered() -> None:
    left, right = states(["left"], 100), states(["right"], 90, begin=0.2)
    found = motion(
        by_recording(left + right),
        "merged by name: messages with left (100); right (90)",
        "right (90 messages) interpolated at the times of left (100)",
        "10 of 100 samples left out, at whose times not all joints are known",
    )
    np.testing.assert_array_equal(found.position[:, 0], [row.position[0] for row in left[10:]])
    assert found.joint_names == ("left", "right")


def test_a_first_message_with_some_of_the_joints_hides_no_others() -> None:
    rows = states()
    rows[0] = rows[0]._replace(names=("a",), position=rows[0].position[:1], velocity=rows[0].velocity[:1])
    found = motion_of_states(rows, "here", "test", lambda _: None)
    np.testing.assert_array_equal(found.position, [row.position for row in states()[1:]])


def test_nothing_is_made_up_across_the_end_of_an_angles_range() -> None:
    slow = enumerate(states(["wrist"], 21, 0.1))
    wrist = [row._replace(position=np.array([3.1 if k < 10 else -3.1]), velocity=()) for k, row in slow]
    found = motion_of_states(by_recording(states() + wrist), "here", "test", lambda _: None)
    assert np.abs(found.position[:, 2]).min() > 3.0


EMPTY = StateRow((), (), (), BEGIN_NS, BEGIN_NS)
WHEELS = StateRow(("left", "right"), (), (1.0, 1.0), BEGIN_NS, BEGIN_NS)
UNEQUAL = StateRow(("a", "b"), (1.0,), (), BEGIN_NS, BEGIN_NS)
ROWS = states()
TWICE = "{} positions of a, b left out, with the time of another one"
THE_SAME = {
    # messages of which only the motion of ROWS remains, and the notes about them
    "of one publisher": (ROWS, ()),
    "joints in any order": ([turned(row) if k % 2 else row for k, row in enumerate(ROWS)], ()),
    "a joint that is known for a moment only": (
        by_recording(ROWS + states(["finger"], 1, begin=0.5)),
        (
            "merged by name: messages with a, b (100); finger (1)",
            "left out: finger, known from 0.500 s to 0.500 s only",
        ),
    ),
    "some without positions": (
        [EMPTY, WHEELS, *ROWS, EMPTY, UNEQUAL],
        (
            "left out of 104 messages: 2 without positions, 1 with velocities only (left, right), "
            "1 whose positions do not go with their names",
        ),
    ),
    "each twice": ([row for row in ROWS for _ in range(2)], (TWICE.format(100),)),
    "another one with the same stamp": (
        [*ROWS[:8], ROWS[7]._replace(position=ROWS[7].position + 1e-6), *ROWS[8:]],
        (TWICE.format(1),),
    ),
    "some that overtook others": (
        [*ROWS[:20], ROWS[21], ROWS[20], *ROWS[22:60], ROWS[61], ROWS[60], *ROWS[62:]],
        ("2 messages out of order, sorted by their stamps",),
    ),
    "a block that came late": (
        [*ROWS[:40], *ROWS[50:60], *ROWS[40:50], *ROWS[60:]],
        ("10 messages out of order, sorted by their stamps",),
    ),
}


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
    assert motion([row._replace(velocity=(1.0,)) for row in states()]).velocity is None


@pytest.mark.parametrize("stamp", [0, BEGIN_NS], ids=["none", "that stands still"])
def test_stamps_that_do_not_go_on_give_way_to_the_times_of_recording(stamp: int) -> None:
    rows = [row._replace(stamp_ns=stamp) for row in states()]
    told = "100 messages timed by their recording, since their stamps do not go on"
    recorded = [(row.recorded_ns - BEGIN_NS) * 1e-9 for row in rows]
    np.testing.assert_allclose(motion(rows, told).time, recorded, atol=1e-12)


@pytest.mark.parametrize("back_s", [0.7, 100.0])
def test_after_a_clock_was_set_back_recording_times_count(back_s: float) -> None:
    """As after a reset of a simulation."""
    before, after = states(count=50, begin=100.0), states(count=50, begin=101.0)
    later = [row._replace(stamp_ns=row.stamp_ns - round(back_s * 1e9)) for row in after]
    found = motion(before + later, "100 messages timed by their recording, since their stamps do not go on")
    np.testing.assert_allclose(found.time, np.arange(100) * 0.02, atol=0.0015)  # delays of recordings
    np.testing.assert_array_equal(found.position, [row.position for row in before + after])


@pytest.mark.parametrize(("names", "told"), [(("b", "a"), "a, b"), (("b", "c"), "b"), (("c", "a", "b"), "a, b")])
def test_two_publishers_of_the_same_joints_are_told(names: tuple[str, ...], told: str) -> None:
    zeros = [row._replace(names=names, position=(0.0,) * len(names), velocity=()) for row in ROWS]
    for rows in (zip(ROWS, zeros, strict=True), zip(zeros, ROWS, strict=True)):
        notes: list[str] = []
        motion_of_states([row for pair in rows for row in pair], "here", "test", notes.append)
        told_ = [f"100 positions of {one} left out, with the time of another one" for one in (told, "b, a")]
        assert any(one in notes for one in told_)


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

"""Grippers meet objects: that never brakes or refuses, is told, and changes no bit of the arm's motion."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pipelines import NOW_S, ArmLoop, SimulatedNode, rejected

from traj_integrator_ros.limits.urdf import read_urdf
from traj_integrator_ros.parameters.in_force import RobotLimits
from traj_integrator_ros.parameters.parameters import InvalidParameters, NodeParameters
from traj_integrator_ros.requests.rejection import RejectionReason

OPEN, CLOSED = 0.04, 0.0
LAG_S = 0.04
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""A failure is found in seconds, and made smaller in minutes."""
AHEAD = 0.04 * np.arange(1, 25)
LIMITS = {
    "limits__velocity": [2.0, 0.2],
    "limits__acceleration": [8.0, 2.0],
    "limits__jerk": [80.0, 40.0],
    "limits__position_min": [-3.0, -0.001],
    "limits__position_max": [3.0, 0.041],
}


class Hand(NamedTuple):
    """What holds a gripper: between two times it goes no further than an object."""

    object: float = -1.0
    since: float = 0.0
    until: float = np.inf
    dead: bool = False
    wall: float = np.inf
    """Position that the arm cannot pass, rad."""


def loop_of(hand: Hand, *, reports: bool = True, **parameters: object) -> ArmLoop:
    """An arm joint `a` and a gripper joint `finger`, which follow 40 ms later, except for what the hand says."""

    def read(arm: ArmLoop, _: np.ndarray) -> np.ndarray:
        wanted = arm.command(arm.time - LAG_S)[0] if arm.time > 0 else np.array([0.0, OPEN])
        holds = hand.since <= arm.time < hand.until
        finger = OPEN if hand.dead else max(wanted[1], hand.object) if holds else wanted[1]
        return np.array([min(wanted[0], hand.wall), finger])

    given = LIMITS | {"start_from": "previous", "joint_names": ["a", "finger"]} | parameters
    loop = ArmLoop(SimulatedNode(**given), read, reports)
    loop.place = loop.held = np.array([0.0, OPEN])
    loop.run(0.5)
    return loop


def policy(loop: ArmLoop, at: Callable[[np.ndarray], np.ndarray], reach: float = 0.3) -> Callable[[float], object]:
    """A sender of chunks: the arm swings, and the gripper is `at` a place, m, by the time, s `[N]`."""
    begin = loop.time

    def send(time: float) -> object:
        times = time - begin + AHEAD
        rows = np.stack([reach * (1 - np.cos(1.5 * times)) / 2, at(times)], axis=1)
        return loop.node.send(rows, dt=0.04, now=NOW_S + time, stamp=NOW_S + time)

    return send


def closing(times: np.ndarray) -> np.ndarray:
    """Opened, closed from 0.5 s on, opened again from 2.2 s on, as policies do: at once."""
    return np.where((times > 0.5) & (times < 2.2), CLOSED, OPEN)


objects = st.builds(
    Hand,
    object=st.floats(0.003, 0.039),
    since=st.floats(0.0, 1.2),
    until=st.sampled_from([1.4, 2.0, np.inf]),
    dead=st.just(False),
    wall=st.just(np.inf),
)


@settings(max_examples=3, deadline=None, phases=NO_SHRINKING)
@given(objects, st.booleans())
def test_no_object_brakes_or_changes_a_bit_of_the_arm(hand: Hand, reports: bool) -> None:
    loops = [loop_of(one, reports=reports) for one in (Hand(), hand)]
    for loop in loops:
        loop.run(3.2, policy(loop, closing))
        assert not loop.refused and not loop.node.published.guard.brakes
    free, grasping = (np.array(loop.commands) for loop in loops)
    np.testing.assert_array_equal(free, grasping)


@settings(max_examples=3, deadline=None, phases=NO_SHRINKING)
@given(objects, st.floats(0.1, 0.25))
def test_an_arm_that_meets_a_wall_is_braked_as_without_a_grasp(hand: Hand, wall: float) -> None:
    noticed = []
    for one in (Hand(wall=wall), hand._replace(wall=wall)):
        loop = loop_of(one)
        send = policy(loop, closing)
        while not loop.node.published.guard.brakes and loop.time < 4.0:
            loop.run(0.1, send)
        noticed.append((loop.time, loop.commands[-1][0]))
    assert noticed[0] == noticed[1] and noticed[0][0] < 4.0


def test_a_grasp_is_told_with_its_place_until_the_gripper_opens() -> None:
    loop = loop_of(Hand(0.02))
    send = policy(loop, closing)
    loop.run(0.4, send)
    assert not loop.node.pipeline.grips
    loop.run(1.6, send)
    (grip,) = loop.node.pipeline.grips
    assert grip.moves and grip.position == pytest.approx(0.02) and grip.commanded == pytest.approx(CLOSED, abs=1e-4)
    assert grip.told(loop.node.parameters.joint_names) == "finger at 0.02, commanded to 0"
    loop.run(1.0, send)
    assert not loop.node.pipeline.grips


def test_a_gripper_that_does_not_move_is_told_and_brakes_nothing() -> None:
    loop = loop_of(Hand(dead=True))
    loop.run(2.0, policy(loop, closing))
    assert [grip.moves for grip in loop.node.pipeline.grips] == [False]
    assert not loop.refused and not loop.node.published.guard.brakes


def test_a_gripper_that_holds_on_while_it_is_opened_does_not_move() -> None:
    loop = loop_of(Hand(0.02))
    send = policy(loop, closing)
    loop.run(2.0, send)
    stuck, loop.reads = loop.reads, lambda arm, command: np.array([stuck(arm, command)[0], 0.02])
    loop.run(1.5, send)
    assert [grip.moves for grip in loop.node.pipeline.grips] == [False]
    assert not loop.node.published.guard.brakes


def test_an_arm_that_is_braked_keeps_the_grip() -> None:
    loop = loop_of(Hand(0.02, wall=0.2))
    send = policy(loop, lambda times: np.where(times > 0.2, CLOSED, OPEN))
    loop.run(1.2, send)
    assert not loop.node.published.guard.brakes
    while not loop.node.published.guard.brakes and loop.time < 5.0:
        loop.run(0.1, send)
    braked = len(loop.commands)
    loop.run(2.0)
    arm, finger = np.array(loop.commands)[braked:].T
    assert arm[-1] < arm[0], "the arm's command goes back to the wall"
    assert finger.max() <= 1e-3, "that would open the gripper"


def test_a_held_gripper_refuses_no_plan_that_begins_elsewhere() -> None:
    for kinds in (["arm", "gripper"], ["arm", "arm"]):
        node = SimulatedNode(limits__assumed_velocity=2.0, start_from="previous", joints__kind=kinds)
        node.measure([0.0, 0.5])
        rows = np.tile([0.0, 0.1], (10, 1)) + 1e-3 * np.arange(10)[:, None]
        if kinds[1] == "gripper":
            assert node.send(rows, start=([0.0, 0.1],)) is not None
        else:
            assert rejected(node.send, rows, start=([0.0, 0.1],)).reason is RejectionReason.START_MISMATCH


def test_a_distance_of_its_own_brakes_each_joint() -> None:
    def braked(deviation: object, joint: int) -> int:
        def read(arm: ArmLoop, command: np.ndarray) -> np.ndarray:
            return command + np.where(np.arange(2) == joint, 0.08, 0.0) * (arm.time > 0.5)

        loop = ArmLoop(SimulatedNode(supervision__deviation=deviation), read)
        loop.run(1.0, lambda time: loop.node.send(np.full((4, 2), 0.1 * time), dt=0.04, now=NOW_S + time))
        return loop.node.published.guard.brakes

    assert [bool(braked([0.05, 0.2], joint)) for joint in (0, 1)] == [True, False]
    assert [bool(braked([0.0, 0.05], joint)) for joint in (0, 1)] == [False, True]
    assert [bool(braked(one, 0)) for one in (0.05, 0.2, 0.0)] == [True, False, False]


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        (["joint1", "panda_finger_joint1"], ("arm", "gripper")),
        (["shoulder_pan", "Gripper"], ("arm", "gripper")),
        (["elbow", "left_jaw", "robotiq_85_left_knuckle_joint"], ("arm", "gripper", "gripper")),
        (["finger1", "finger2"], ("arm", "arm")),
    ],
)
def test_kinds_are_found_by_names_unless_all_are_fingers(names: list[str], kinds: tuple[str, ...]) -> None:
    assert NodeParameters.of(names).kinds == kinds
    assert NodeParameters.of(names, joints__kind=["arm"] * len(names)).kinds == ("arm",) * len(names)


@pytest.mark.parametrize("kinds", [["arm"], ["arm", "hand"]])
def test_kinds_that_say_nothing_are_refused(kinds: list[str]) -> None:
    with pytest.raises(InvalidParameters, match=r"^joints\.kind: expected .*, got "):
        NodeParameters.of(["a", "b"], joints__kind=kinds)


@pytest.mark.parametrize("given", [[], ["arm", "arm"]])
def test_a_sliding_joint_that_another_one_mimics_is_a_gripper(given: list[str]) -> None:
    limit = '<limit lower="0" upper="0.04" velocity="0.2"/>'
    text = (
        f'<robot name="r"><joint name="turn" type="revolute">{limit}</joint>'
        f'<joint name="slide" type="prismatic">{limit}</joint>'
        f'<joint name="other" type="prismatic"><mimic joint="slide"/>{limit}</joint></robot>'
    )
    names = ("turn", "slide")
    found = RobotLimits(NodeParameters.of(names, joints__kind=given), urdf=read_urdf(text, names, "here"))
    assert found.parameters.kinds == (tuple(given) or ("arm", "gripper"))
    assert found.kinds == ("" if given else "slide (gripper); by the URDF and names; joints.kind goes first")

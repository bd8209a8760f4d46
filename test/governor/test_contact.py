"""An arm that touches something is let go, is not pushed there again, and leaves it by the first plan."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pipelines import NOW_S, ArmLoop, SimulatedNode, rejected

WALL = 0.3
"""Position at which the joint stops, rad."""


def contact(sticks: float) -> ArmLoop:
    """A joint that follows its command 40 ms later, up to a wall, with stiction, rad."""

    def read(arm: ArmLoop, _: np.ndarray) -> np.ndarray:
        wanted = np.minimum(arm.command(arm.time - 0.04)[0], WALL)
        return wanted if abs(wanted - arm.place)[0] > sticks else arm.place

    return ArmLoop(SimulatedNode(1, limits__assumed_velocity=2.0, start_from="previous"), read)


def chunks(arm: ArmLoop, rows: Callable[[float], np.ndarray]) -> Callable[[float], object]:
    """A sender of the rows `[N]` of a time, 40 ms apart."""
    return lambda time: arm.node.send(rows(time)[:, None], dt=0.04, now=NOW_S + time, stamp=NOW_S + time)


@pytest.mark.parametrize(("speed", "sticks"), [(0.03, 4e-3), (0.1, 0.0), (0.5, 4e-3)])
def test_an_arm_at_a_wall_is_let_go_and_leaves_it_by_the_first_plan(speed: float, sticks: float) -> None:
    arm, ahead = contact(sticks), 0.04 * np.arange(1, 25)
    arm.run(0.3)
    begin = arm.time
    arm.run(WALL / speed + max(1.0, 0.075 / speed), chunks(arm, lambda time: speed * (time - begin + ahead)))
    guard = arm.node.published.guard
    assert guard.brakes >= 1
    arm.run(3.0)
    pressing = abs(arm.command(arm.time)[0] - arm.place)[0]
    assert pressing < 0.025 and not guard.reason, "it goes back by 0.1 rad at most"
    arm.refused.clear()
    begin, brakes, there = arm.time, guard.brakes, arm.place[0]

    def back(time: float) -> np.ndarray:
        share = np.clip((time - begin + ahead) / 1.0, 0.0, 1.0)
        return there - 0.25 * (10 * share**3 - 15 * share**4 + 6 * share**5)

    arm.run(1.5, chunks(arm, back))
    assert not arm.refused and guard.brakes == brakes, (arm.refused, guard.reason)
    assert abs(arm.place[0] - (there - 0.25)) < 6e-3


def test_an_arm_that_was_held_for_a_moment_follows_its_stream_again() -> None:
    def read(arm: ArmLoop, _: np.ndarray) -> np.ndarray:
        return arm.place if 1.0 <= arm.time < 1.2 else arm.command(arm.time - 0.04)[0]

    node, ahead = SimulatedNode(1, limits__assumed_velocity=2.0, start_from="previous"), 0.04 * np.arange(1, 25)
    arm = ArmLoop(node, read, reports=False)
    arm.run(0.3)
    leading = chunks(arm, lambda time: arm.place[0] + 0.025 + 0.5 * ahead)
    arm.run(1.5, leading)
    assert node.published.guard.brakes == 1 and arm.refused
    begin, arm.refused = arm.place[0], []
    arm.run(1.0, leading)
    assert not arm.refused and arm.place[0] > begin + 0.3


@pytest.mark.parametrize("creeps", [0.0, 0.005, -0.01])
def test_an_arm_that_creeps_where_it_was_stopped_rests_after_a_second(creeps: float) -> None:
    """A hand slides along a wall by some mm/s for as long as it is pressed there; nothing reports the command."""

    def read(arm: ArmLoop, _: np.ndarray) -> np.ndarray:
        most = WALL + creeps * max(arm.time - 1.0, 0.0)
        return np.minimum(arm.command(arm.time - 0.04)[0], most)

    node, ahead = SimulatedNode(1, limits__assumed_velocity=2.0, start_from="previous"), 0.04 * np.arange(1, 25)
    arm = ArmLoop(node, read, reports=False)
    arm.run(0.3)
    arm.run(1.0, chunks(arm, lambda time: 0.5 * (time - 0.3 + ahead)))
    guard = node.published.guard
    assert guard.brakes == 1 and guard.reason
    arm.run(1.2)
    assert not guard.reason
    arm.refused.clear()
    arm.run(1.5, chunks(arm, lambda time: arm.place[0] - 0.2 * ahead))
    assert guard.brakes == 1 and not arm.refused and arm.place[0] < WALL - 0.05


@pytest.mark.parametrize("droop", [-0.0176, 0.03])
def test_the_command_does_not_lead_an_arm_on_that_hangs_below_it(droop: float) -> None:
    def read(arm: ArmLoop, _: np.ndarray) -> np.ndarray:
        return arm.place if 1.0 <= arm.time < 1.6 else arm.command(arm.time - 0.04)[0] + droop * (arm.time > 0.9)

    arm, ahead = (
        ArmLoop(SimulatedNode(1, limits__assumed_velocity=2.0, start_from="previous"), read),
        0.04 * np.arange(1, 25),
    )
    arm.run(0.3)
    arm.run(1.3, chunks(arm, lambda time: 0.5 * (time - 0.3 + ahead)))
    assert arm.node.published.guard.brakes == 1
    arm.run(6.0)
    assert abs(arm.commands[-1] - arm.commands[-200])[0] < 1e-9, "it stands"
    assert abs(arm.commands[-1] - arm.commands[150])[0] < 0.2


@pytest.mark.parametrize("held_s", [0.08, 0.3, 0.8])
@pytest.mark.parametrize("lag_s", [0.01, 0.09])
def test_the_command_goes_back_once_where_an_arm_is_held(held_s: float, lag_s: float) -> None:
    def read(arm: ArmLoop, _: np.ndarray) -> np.ndarray:
        return arm.place if 1.0 <= arm.time < 1.0 + held_s else arm.command(arm.time - lag_s)[0]

    node = SimulatedNode(1, limits__assumed_velocity=2.0, start_from="previous")
    arm, ahead = ArmLoop(node, read), 0.04 * np.arange(1, 25)
    arm.run(0.3)
    leading = chunks(arm, lambda time: 0.9 * (time - 0.3 + ahead))
    arm.run(0.71, leading)
    held, guard = arm.place[0], node.published.guard
    arm.run(0.2, leading)
    arm.run(4.0)
    assert guard.brakes == 1 or held_s < 0.1, "an arm that is held for 80 ms may catch up"
    assert not guard.reason
    stands, speeds = max(arm.commands)[0], np.diff(np.array(arm.commands)[:, 0]) / 0.01
    assert speeds.min() > -0.1 - 1e-6 and np.ptp(np.array(arm.commands[-100:])) < 1e-9, "slowly; then it stands"
    assert arm.commands[-1][0] == pytest.approx(stands if held_s < 0.3 else max(held, stands - 0.1), abs=0.012)


def test_a_reading_that_jumps_for_no_known_reason_is_named_with_what_helps() -> None:
    def read(arm: ArmLoop, _: np.ndarray) -> np.ndarray:
        return arm.command(arm.time - 0.04)[0] - 0.15 * (arm.time > 0.8)

    arm, ahead = ArmLoop(SimulatedNode(1, start_from="previous"), read), 0.04 * np.arange(1, 25)
    arm.run(0.3)
    arm.run(0.7, chunks(arm, lambda time: 0.3 * (time - 0.3 + ahead)))
    arm.run(3.0)
    assert arm.node.published.guard.brakes == 1 and not arm.node.published.guard.reason
    now = NOW_S + arm.time
    told = rejected(arm.node.send, np.full((24, 1), arm.place[0]), dt=0.04, now=now, stamp=now)
    stands = arm.commands[-1][0]
    assert f"its command, {stands:.6g}, from which the robot is measured -0.15 away" in told.message
    assert "deactivate and activate the node" in told.message
    assert arm.node.send(np.full((24, 1), stands), dt=0.04, now=now, stamp=now) is not None, "which stands, as a rule"

"""The model of the controller commands what the controller's own code does: README.md says how that was recorded.

The clock of UR's driver up to Iron, which runs on from one trajectory to the next, was not: a plan whose position is
its time shows it, since each cycle commands where it is, and one whole period more.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from kit.arm import Robot
from kit.controller import SECOND

RECORDED = json.loads(gzip.decompress((Path(__file__).parent / "recorded_commands.json.gz").read_bytes()))
RELEASE = "6.9.0"
"""It defers trajectories of the future; the main branch after it blends instead."""
OPTIONS = {
    "allow_partial_joints_goal",
    "allow_nonzero_velocity_at_trajectory_end",
    "interpolate_from_desired_state",
}
"""Parameters that the model has by the same names."""
NEAR = 1e-10
"""Of the largest position, rad, velocity, or acceleration in a scenario, or of 1 if that is larger."""
PERIOD = 2_000_000
BEGIN = 100 * SECOND


def played(scenario: dict) -> tuple[list[bool], np.ndarray]:
    """Which messages the model accepts, and its commands in all cycles, `[cycles, 3, joints]`."""
    joints, rate, begin_ns = list(scenario["joints"]), scenario["rate"], scenario["begin_ns"]
    replaces, is_release = not scenario["allow_trajectory_replacement"], scenario["code"] == RELEASE
    robot = Robot(
        joints,
        rate=rate,
        lag=scenario["lag"] / rate,
        hard_replacement=replaces or is_release,
        defers=is_release and not replaces,
        upsampling=scenario["upsampling_hz"],
        **{name: value for name, value in scenario.items() if name in OPTIONS},
    )
    robot.set_state(scenario["start"])
    accepted, commands, cycle = [], [np.zeros((3, 0, len(joints)))], 0

    def run(until: int) -> int:
        commands.append(robot.run(begin_ns + cycle * robot.period, begin_ns + until * robot.period))
        return until

    for event in scenario["events"]:
        cycle = run(event["cycle"])
        if "scaling" in event:
            robot.scaling = event["scaling"]
            continue
        columns = (event[name] for name in ("positions", "velocities", "accelerations"))
        time_ns, now_ns = np.array(event["time_ns"], np.int64), begin_ns + cycle * robot.period
        taken = robot.receive(list(event["joints"]), time_ns, *columns, now_ns=now_ns, stamp_ns=event["stamp_ns"])
        accepted.append(taken)
    run(scenario["cycles"])
    return accepted, np.concatenate(commands, axis=1).swapaxes(0, 1)


@pytest.mark.parametrize("code", RECORDED["codes"])
def test_the_model_commands_what_the_controllers_own_code_does(code: str) -> None:
    scenarios = [one for one in RECORDED["scenarios"] if one["code"] == code]
    assert len(scenarios) > 50
    for scenario in scenarios:
        accepted, commands = played(scenario)
        assert accepted == scenario["accepted"]
        recorded = np.array(scenario["commands"])
        largest = np.maximum(np.abs(recorded).max(axis=(0, 2)), 1.0)[:, None]
        apart = np.abs(commands[scenario["cycles_kept"]] - recorded) / largest
        assert apart.max() < NEAR, scenario["events"]


def controller(*, keeps_clock: bool) -> Robot:
    """One joint at 500 Hz."""
    return Robot(["a"], rate=500, hard_replacement=True, interpolate_from_desired_state=True, keeps_clock=keeps_clock)


def take_times(robot: Robot, now_ns: int, stamp_ns: int, first: float = 0.0) -> None:
    """Send a plan whose position, rad, is its time, s, from a first point on for 10 s."""
    times = np.rint((first + np.array([0.0, 5.0, 10.0])) * SECOND).astype(np.int64)
    velocities = [[1.0], [1.0], [0.0]]
    assert robot.receive(["a"], times, times[:, None] / SECOND, velocities, now_ns=now_ns, stamp_ns=stamp_ns)


def cycles(robot: Robot, begin_ns: int, count: int) -> np.ndarray:
    """The clock's time in its plan in each cycle, s, read from the commands."""
    return robot.run(begin_ns, begin_ns + count * PERIOD)[0, :, 0] - PERIOD / SECOND


@pytest.mark.parametrize("keeps_clock", [True, False])
def test_a_plan_without_a_stamp_is_entered_at_its_begin_when_the_clock_is_behind(keeps_clock: bool) -> None:
    robot = controller(keeps_clock=keeps_clock)
    take_times(robot, BEGIN, 0)
    robot.scaling = 0.3
    cycles(robot, BEGIN, 500)
    now_ns = BEGIN + 500 * PERIOD
    take_times(robot, now_ns, 0)
    np.testing.assert_allclose(cycles(robot, now_ns, 3), np.arange(3) * PERIOD * 0.3 / SECOND, atol=1e-6)


def test_a_kept_clock_waits_for_a_stamp_as_long_as_it_is_behind() -> None:
    robot = controller(keeps_clock=True)
    take_times(robot, BEGIN, 0)
    robot.scaling = 0.5
    cycles(robot, BEGIN, 500)
    now_ns, robot.scaling = BEGIN + 500 * PERIOD, 1.0
    take_times(robot, now_ns, now_ns, first=0.001)
    behind = 250  # cycles
    found = cycles(robot, now_ns, behind + 20)
    np.testing.assert_allclose(found[behind + 5 :], PERIOD / SECOND * np.arange(5, 20), atol=2 * PERIOD / SECOND)
    assert found[behind - 60] > 0.02  # on its way back from 0.5 to the first point

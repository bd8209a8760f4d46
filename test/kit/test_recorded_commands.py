"""The model of the controller commands what the controller's own code does: README.md says how that was recorded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from kit.arm import Robot

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

"""Joints of kind binary: their rows are steps at their times, whatever the arm does, and change no bit of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import NOW_S, ArmLoop, SimulatedNode, rejected

from traj_integrator_ros.execution.rows import motion_of_points
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.rejection import RejectionReason

DT = 0.04
LIMITS = {"limits__velocity": [1.0, 1.0], "limits__acceleration": [5.0, 5.0], "limits__jerk": [60.0, 60.0]}
GIVEN = LIMITS | {"joints__kind": ["arm", "binary"], "start_from": "previous", "limits__start_deviation": 0.0}


def node_of(**parameters: object) -> SimulatedNode:
    node = SimulatedNode(**GIVEN | parameters)
    node.measure(0.0)
    node.execute(0.0, at=NOW_S)
    return node


def switches(made: ExecutableTrajectory) -> list[tuple[float, float]]:
    """Times, s from now, and new values of the switched joint, as a controller plays the points."""
    motion = motion_of_points(made.points)
    times = np.arange(0.0, motion.duration, 5e-4)
    values = motion.states_at(times, 1)[0][:, 1].round(9) + 0.0
    changes = np.flatnonzero(np.diff(values) != 0)
    return [(made.start_ns * 1e-9 - NOW_S + times[i + 1], values[i + 1]) for i in changes]


def assert_switches(made: ExecutableTrajectory, expected: list[tuple[float, float]], within: float = 1e-3) -> None:
    found = switches(made)
    assert [value for _, value in found] == [value for _, value in expected], found
    np.testing.assert_allclose([at for at, _ in found], [at for at, _ in expected], atol=within)


def chunk(arm: np.ndarray, values: object) -> np.ndarray:
    return np.stack([arm, np.broadcast_to(values, len(arm))], axis=1)


RAMP = 0.3 * DT * np.arange(1, 17)


@pytest.mark.parametrize("arm", [RAMP, 0 * RAMP, RAMP[::-1]], ids=["moves", "stands", "jumps"])
def test_rows_are_steps_at_their_times(arm: np.ndarray) -> None:
    values = np.repeat([0.0, 1.0, 0.0, 0.5], 4)
    made = node_of().send(chunk(arm, values), dt=DT, stamp=NOW_S)
    if arm is not RAMP[::-1]:
        assert_switches(made, [(5 * DT, 1.0), (9 * DT, 0.0), (13 * DT, 0.5)])
    else:
        assert [value for _, value in switches(made)] == [1.0, 0.0, 0.5], "it is slowed along its path"


@pytest.mark.parametrize("space", [ControlSpace.VELOCITY, ControlSpace.ACCELERATION, ControlSpace.JERK])
def test_a_step_is_a_value_in_every_control_space(space: ControlSpace) -> None:
    values = np.repeat([0.0, 1.0], 8)
    made = node_of().send(chunk(np.full(16, 0.05), values), space=space, dt=DT, stamp=NOW_S)
    assert_switches(made, [(9 * DT, 1.0)])


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, 0.25]), min_size=16, max_size=16), st.floats(0.0, 0.5), st.booleans())
def test_no_step_changes_a_bit_of_the_arm_nor_is_anything_between(values: list[float], late: float, fast: bool) -> None:
    arm = RAMP * (2.5 if fast else 1.0)
    made, without = (
        node_of().send(chunk(arm, column), dt=DT, now=NOW_S + late, stamp=NOW_S) for column in (values, 0.0)
    )
    times = np.arange(0.0, without.motion.duration, 1e-3)
    states, expected = (one.motion.states_at(times) for one in (made, without))
    np.testing.assert_allclose(states[:, :, 0], expected[:, :, 0], rtol=1e-9, atol=1e-12)
    assert set(motion_of_points(made.points).states_at(times, 1)[0][:, 1].round(9)) <= {0.0, *values}
    assert not states[1:, :, 1].any()


def test_a_slowed_plan_switches_where_its_row_is() -> None:
    arm, values = np.array([0.2, 0.4, 0.8, 1.0]), [0.0, 1.0, 1.0, 0.0]
    made = node_of(limits__action="retime").plan([0.1, 0.2, 0.4, 0.5], chunk(arm, values))
    assert made.delay > 0.3
    places = [float(made.motion.state_at(at + NOW_S - made.start_ns * 1e-9).position[0]) for at, _ in switches(made)]
    np.testing.assert_allclose(places, [0.4, 1.0], atol=5e-3)


def test_a_plan_with_times_switches_at_its_points() -> None:
    made = node_of().plan([0.5, 1.0, 1.5], chunk(np.array([0.1, 0.2, 0.3]), [1.0, 0.0, 1.0]), stamp=NOW_S)
    begins = made.due_ns * 1e-9 - NOW_S
    assert begins < DT
    assert_switches(made, [(0.5, 1.0), (1.0, 0.0), (1.5, 1.0)], within=DT)


def test_a_stream_switches_once_and_keeps_what_it_does_between_chunks() -> None:
    loop = ArmLoop(SimulatedNode(**GIVEN))
    loop.run(0.3)
    begin = loop.time

    def send(time: float) -> None:
        times = time - begin + DT * np.arange(1, 17)
        rows = chunk(0.2 * (1 - np.cos(times)), np.where((times > 1.0) & (times < 2.0), 1.0, 0.0))
        loop.node.send(rows, dt=DT, now=NOW_S + time, stamp=NOW_S + time)

    loop.run(3.0, send)
    assert not loop.refused and not loop.node.published.guard.brakes
    values = np.array(loop.commands)[:, 1]
    changes = np.flatnonzero(np.diff(values))
    assert set(values) == {0.0, 1.0} and len(changes) == 2
    np.testing.assert_allclose(0.01 * (changes + 1) - begin, [1.0, 2.0], atol=DT + 0.011)


def test_a_stop_keeps_the_value_and_lowered_limits_the_steps() -> None:
    node = node_of()
    node.send(chunk(0.3 * (DT * np.arange(1, 26)) ** 2, np.repeat([0.0, 1.0], [20, 5])), dt=DT, stamp=NOW_S)
    now = NOW_S + 0.2
    node.measure(node.commanded(now)[0], now=now)
    lowered = SimulatedNode(**GIVEN | {"limits__velocity": [0.4, 0.4]}).parameters
    node.pipeline.reconfigure(lowered)
    made = node.tick(now)
    assert made.delay > 0
    ((at, value),) = switches(made)
    there = made.motion.state_at(at + NOW_S - made.start_ns * 1e-9).position[0]
    assert value == 1.0 and there == pytest.approx(0.3 * (DT * 21) ** 2, abs=5e-3)
    node.published.record(made, round(now * 1e9))
    now = NOW_S + at + 0.1
    node.measure(node.commanded(now)[0], now=now)
    stop = node.stop(now)
    assert stop.motion.end.position[1] == 1.0


def test_a_step_beyond_a_limit_of_position_is_refused() -> None:
    node = node_of(limits__position_min=[-3.0, 0.0], limits__position_max=[3.0, 1.0])
    refused = rejected(node.send, chunk(RAMP, np.repeat([0.0, 1.5], 8)), dt=DT, stamp=NOW_S)
    assert refused.reason is RejectionReason.LIMITS
    assert refused.message.startswith("position of b exceeds its limit by 0.5")

"""Increments are executed as the absolute positions that a caller would have computed from the same observation."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import GIVEN, NOW_S, ArmLoop, SimulatedNode, limits, ns, rejected

from traj_integrator_ros.governor.executor import NodeParameters
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.parameters.parameters import InvalidParameters
from traj_integrator_ros.requests.rejection import RejectionReason
from traj_integrator_ros.requests.sequences import SequenceFields

USUAL = {**limits(**GIVEN), "start_from": "previous", "limits__start_deviation": 0.0}
KINDS = ("none", "observation", "step")
EQUAL = 1e-9
"""Largest difference of what is commanded, rad."""
DT, ROWS, LATE_S = 0.05, 16, 0.2


def increments(absolute: np.ndarray, observation: np.ndarray, relative_to: tuple[str, ...]) -> np.ndarray:
    """Actions `[H, dof]`, as messages carry them, of a policy that means these positions."""
    before = np.vstack([observation, absolute[:-1]])
    by_kind = {"none": absolute, "observation": absolute - observation, "step": absolute - before}
    return np.stack([by_kind[kind][:, joint] for joint, kind in enumerate(relative_to)], 1).astype(np.float32)


def summed(actions: np.ndarray, observation: np.ndarray, relative_to: tuple[str, ...]) -> np.ndarray:
    """Positions that a caller computes of increments, one step after the other."""
    rows = np.zeros(actions.shape)
    for joint, kind in enumerate(relative_to):
        place = observation[joint]
        for step, value in enumerate(actions[:, joint].astype(float)):
            rows[step, joint] = {"none": value, "observation": observation[joint] + value, "step": place + value}[kind]
            place = rows[step, joint]
    return rows


def meant(time: float) -> np.ndarray:
    """Rows that a policy means for the time from an observation on."""
    times = time + DT * np.arange(1, ROWS + 1)
    return np.outer(0.3 * (1 - np.cos(1.5 * times)), [1.0, -0.5])


class Policy:
    """Sends what it means of an observation of 0.2 s ago to a loop, relative or after it has added the observation."""

    def __init__(self, relative_to: tuple[str, str], *, adds: bool) -> None:
        given = {} if adds else {"relative_to": list(relative_to)}
        self.relative_to, self.adds = relative_to, adds
        node = SimulatedNode(**USUAL | given, supervision__deviation=0.0)
        self.arm = ArmLoop(node, lambda arm, command: 0.9 * command + 0.01)
        self.observed: dict[float, np.ndarray] = {}

    def run(self, seconds: float) -> np.ndarray:
        """What is commanded, `[N, dof]`, rad."""
        self.arm.run(seconds, self.send)
        assert not self.arm.refused, self.arm.refused
        return np.array(self.arm.commands)

    def send(self, time: float) -> None:
        """Send a chunk."""
        self.observed[round(time, 2)] = self.arm.place.copy()
        seen = round(time - LATE_S, 2)
        if seen not in self.observed:
            return
        observation = self.observed[seen]
        actions = increments(meant(seen), observation, self.relative_to)
        if self.adds:
            actions = summed(actions, observation, self.relative_to)
        self.arm.node.send(actions, dt=DT, now=NOW_S + time, stamp=NOW_S + seen)


@pytest.mark.parametrize("relative_to", [("none", "observation"), ("observation", "step"), ("step", "step")])
def test_increments_are_executed_as_the_positions_that_they_mean(relative_to: tuple[str, str]) -> None:
    expected = Policy(relative_to, adds=True).run(2.0)
    assert np.ptp(expected, axis=0).min() > 0.1
    np.testing.assert_allclose(Policy(relative_to, adds=False).run(2.0), expected, rtol=0, atol=EQUAL)


@pytest.mark.parametrize(("space", "more"), [(ControlSpace.POSITION, {}), (ControlSpace.BSPLINE, {"degree": 3})])
def test_positions_and_control_points_are_relative(space: ControlSpace, more: dict) -> None:
    made = []
    for given, rows in ({"relative_to": ["observation", "step"]}, [[0.1, 0.1]] * 6), ({}, np.full((6, 2), 0.1)):
        node = SimulatedNode(**USUAL | given)
        node.measure([0.25, 0.5])
        if not given:
            rows = [[0.35, 0.5 + 0.1 * step] for step in range(1, 7)]
        made.append(node.send(rows, space=space, dt=0.1, stamp=NOW_S, **more).motion)
    times = np.linspace(0, made[1].duration, 50)
    np.testing.assert_allclose(made[0].states_at(times)[0], made[1].states_at(times)[0], rtol=0, atol=1e-6)


def seen(relative_to: list[str], *states: tuple[float, object], **parameters: object) -> SimulatedNode:
    """A node that has measured positions at times, s, of joints that may have moved as far as that."""
    node = SimulatedNode(**USUAL | {"limits__velocity": [100.0] * 2}, relative_to=relative_to, **parameters)
    for time, position in states:
        node.measure(position, now=NOW_S + time)
    return node


def begins(node: SimulatedNode, stamp: float, now: float = 0.0) -> np.ndarray:
    """The first position of rows of zeros, rad, `[dof]`."""
    flat = SequenceFields((), 1, 1, 3, *[np.zeros(n, np.float32) for n in (0, 0, 0, 0, 0, 6)])
    return node.pipeline.checked(flat, ns(NOW_S + stamp) * (stamp != 0), ns(NOW_S + now)).actions[0, 0]


def test_the_observation_is_interpolated_between_joint_states() -> None:
    node = seen(["observation", "step"], (-0.2, [0.0, 1.0]), (-0.1, [0.5, 0.0]), (0.0, [0.75, 0.5]))
    np.testing.assert_array_equal(begins(node, -0.1), [0.5, 0.0])
    np.testing.assert_allclose(begins(node, -0.15), [0.25, 0.5], atol=1e-6)
    np.testing.assert_array_equal(begins(node, 0.0), [0.75, 0.5])  # without a stamp, the latest one


def test_the_observation_of_a_continuous_joint_takes_the_short_way() -> None:
    node = seen(["observation", "none"], (-0.1, [3.1, 0.0]), (0.0, [-3.1, 0.0]), limits__continuous=["a"])
    assert np.cos(begins(node, -0.05)[0]) < -0.999


def test_a_joint_without_relative_actions_needs_no_observation() -> None:
    node = seen(["observation", "none"], (-0.1, 0.0))
    node.pipeline.joint_state(np.array([0.5]), np.zeros(1), ns(NOW_S - 0.05), names=["a"])
    assert begins(node, -0.05).tolist() == [0.5, 0.0]
    told = rejected(begins, seen(["observation"] * 2, (-0.1, 0.0)), -0.05)
    assert "kept from 0.100 to 0.100 s ago, got 0.050 s ago" in told.message


OUTSIDE = {
    "older than what is kept": (-0.3, 0.0, "kept from 0.200 to 0.000 s ago, got 0.300 s ago"),
    "ahead of the latest state": (0.01, 0.02, "kept from 0.220 to 0.020 s ago, got 0.010 s ago"),
    "older than ten seconds": (-11.0, 0.0, "kept from 0.200 to 0.000 s ago, got 11.000 s ago"),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_an_observation_that_is_not_known_is_refused_by_name(case: str) -> None:
    stamp, now, text = OUTSIDE[case]
    node = seen(["observation", "none"], *((time, 0.1) for time in (-0.2, -0.1, 0.0)))
    told = rejected(begins, node, stamp, now)
    assert told.reason is RejectionReason.NO_OBSERVATION and text in told.message, told.message


def test_a_gap_of_joint_states_is_no_observation() -> None:
    node = seen(["observation", "none"], (-1.0, 0.1), (0.0, 0.2))
    assert "states of a around it without a gap" in rejected(begins, node, -0.5).message
    assert rejected(begins, SimulatedNode(**USUAL, relative_to=["step"] * 2), -0.5).reason is (
        RejectionReason.NO_JOINT_STATE
    )


@pytest.mark.parametrize("given", [["observation"], ["observation"] * 3, ["observation", "delta"]])
def test_what_joints_are_relative_to_is_checked(given: list[str]) -> None:
    with pytest.raises(InvalidParameters, match="relative_to: expected"):
        NodeParameters.of("ab", relative_to=given)

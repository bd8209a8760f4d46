"""Continuous joints: services read angles that pass pi like topics do; angles of revolute joints are never moved."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import NONE, SimulatedNode, ns, sequence_fields

from traj_integrator_ros.engine.call import Wanted
from traj_integrator_ros.governor.committed import measured_at
from traj_integrator_ros.governor.measured import JointStates
from traj_integrator_ros.kernels import ControlSpace, CostTerm, QuadraticCost
from traj_integrator_ros.requests.evaluation_requests import EvaluationFields
from traj_integrator_ros.requests.sequences import SequenceFields

NO_INDEX = np.zeros(0, np.uint32)
WAY = np.array([[[3.0 + 0.05 * k, 0.02 * k] for k in range(1, 11)], [[-2.0 - 0.3 * k, -0.1] for k in range(1, 11)]])
STARTS = np.array([[3.0, 0.0], [-2.0, 0.0]])
ROUNDING = 1e-6
"""Rounding of angles up to 7 rad in float32, over steps of 0.1 s; `INTO_RATES` is that of the acceleration."""
INTO_RATES = 4 * ROUNDING / 0.1**2


def wrapped(path: np.ndarray, joint: int = 0) -> np.ndarray:
    """The same motion with the angles of one joint within pi."""
    values = np.array(path)
    values[..., joint] = (values[..., joint] + np.pi) % (2 * np.pi) - np.pi
    return values


def turning(*joints: str) -> SimulatedNode:
    return SimulatedNode(limits__continuous=list(joints))


def fields(
    actions: np.ndarray, start: np.ndarray = STARTS, space: ControlSpace = ControlSpace.POSITION, **more: object
) -> SequenceFields:
    return sequence_fields(actions, [start], space, 0.1, **more)


def integrated(node: SimulatedNode, asked: SequenceFields) -> np.ndarray:
    request = node.pipeline.batches.checked(asked)
    start = node.pipeline.batches.started(request, lambda: ns(100.0))
    return np.array(node.pipeline.batches.integrate(request, start).trajectories)


def published(node: SimulatedNode, asked: SequenceFields) -> np.ndarray:
    plan = node.pipeline.sequence(node.pipeline.batches.checked(asked), 0, ns(100.0))
    return node.pipeline.follow(plan, ns(100.0)).points.position


@pytest.mark.parametrize("space", [ControlSpace.POSITION, ControlSpace.BSPLINE], ids=lambda x: x.name)
@pytest.mark.parametrize("goal", [[], [[3.5, 0.2], [-5.0, -0.1]]], ids=["", "goal"])
@pytest.mark.parametrize("turns", [0, -2])
def test_services_and_topics_take_the_short_way_from_the_start_on(goal: list, space: ControlSpace, turns: int) -> None:
    asked = fields(WAY, space=space, goal_position=np.float32(goal).ravel())
    on = [2 * np.pi * turns, 0.0]
    turned_goal = np.float32(wrapped(goal) + on if goal else []).ravel()
    turned = fields(wrapped(WAY) + on, space=space, goal_position=turned_goal)
    found, expected = integrated(turning("a"), turned), integrated(turning(), asked)
    np.testing.assert_allclose(found[0], expected[0], atol=2 * ROUNDING)
    np.testing.assert_allclose(found[2], expected[2], atol=INTO_RATES)
    np.testing.assert_allclose(published(turning("a"), turned), published(turning(), asked), atol=2 * ROUNDING)
    ways = []
    for node, one in ((turning("a"), turned), (turning(), asked)):
        node.measure(STARTS[0], now=100.0)
        ways.append(published(node, one._replace(start_position=NONE)))
    np.testing.assert_allclose(*ways, atol=2 * ROUNDING)


def test_revolute_joints_and_other_control_spaces_are_never_unwrapped() -> None:
    actions = wrapped(WAY)
    for other in (turning(), turning("b")):
        found = integrated(other, fields(actions))[0, 0]
        np.testing.assert_array_equal(found[1:, 0], actions[0, :-1, 0].astype(np.float32))
    velocities = fields(10 * WAY, space=ControlSpace.VELOCITY)
    np.testing.assert_array_equal(integrated(turning("a"), velocities), integrated(turning(), velocities))


def term(**given: object) -> CostTerm:
    return CostTerm(*(np.float32(given.get(name, ())) for name in CostTerm._fields))


def cost(position: CostTerm, *, others: CostTerm | None = None, **wanted: bool) -> EvaluationFields:
    return EvaluationFields(QuadraticCost(position, *[others or term()] * 3, NONE), Wanted(**wanted), NO_INDEX, 0)


def test_costs_and_gradients_are_those_of_the_way() -> None:
    asked = cost(term(weight=np.ones(2)), others=term(weight=np.ones(2)), action=True, dt=True)
    upstream = [*[np.ones(40, np.float32)] * 2, NONE, NONE]
    costs, gradients = [], []
    for node, actions in ((turning("a"), wrapped(WAY)), (turning(), WAY)):
        costs.append(node.pipeline.batches.evaluate(fields(actions), asked, lambda: ns(100.0)))
        gradients.append(node.pipeline.batches.gradient(fields(actions), upstream, lambda: ns(100.0)))
    np.testing.assert_allclose(costs[0].fields["cost"], costs[1].fields["cost"], rtol=1e-3)
    np.testing.assert_allclose(gradients[0]["grad_dt"], gradients[1]["grad_dt"], rtol=1e-3)
    np.testing.assert_allclose(gradients[0]["grad_action"], gradients[1]["grad_action"], atol=1e-6)


TARGETS = {
    "of all rows": np.array([3.45, 0.1]),
    "of each row": np.linspace([3.0, 0.0], [3.5, 0.2], 10),
    "of each trajectory": WAY + 0.02,
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("way", [WAY, WAY + np.array([4 * np.pi, 0.0])], ids=["", "two turns on"])
def test_a_cost_is_that_of_the_short_way_to_its_target(target: np.ndarray, way: np.ndarray) -> None:
    """Compared with the nearest target for each row; half a turn away, both targets are equally far."""
    places = np.concatenate([STARTS[:, None], WAY[:, :-1]], axis=1)  # of the rows
    near = np.broadcast_to(target, places.shape).copy()
    near[..., 0] += 2 * np.pi * np.rint((places - near)[..., 0] / (2 * np.pi))
    found = []
    for node, rows, actions in ((turning("a"), wrapped(target), wrapped(way)), (turning(), near, WAY)):
        weighted = term(weight=np.ones(2), target=rows.ravel(), terminal_weight=np.full(2, 3.0))
        asked = cost(weighted, action=True, start=True)
        found.append(node.pipeline.batches.evaluate(fields(actions), asked, lambda: ns(100.0)))
    # A deviation d is off by ROUNDING twice, d^2 by 2 d as much; 13 are weighed, and |d| is at most their root sum.
    of_cost = 4 * ROUNDING * np.sqrt(13 * np.abs(found[1].fields["cost"]))
    assert (np.abs(found[0].fields["cost"] - found[1].fields["cost"]) <= of_cost).all()
    # 2 x weights of 4 at most x rounding of angles, twice
    for name in ("grad_action", "grad_start_position"):
        np.testing.assert_allclose(found[0].fields[name], found[1].fields[name], atol=16 * ROUNDING)


def test_a_cost_of_a_revolute_joint_goes_the_long_way() -> None:
    asked, rest = cost(term(weight=np.ones(2), target=[2 * np.pi, 0.0])), fields(np.zeros((1, 4, 2)), np.zeros((1, 2)))
    nodes = turning(), turning("b"), turning("a")
    costs = [node.pipeline.batches.evaluate(rest, asked, lambda: ns(100.0)).fields["cost"] for node in nodes]
    np.testing.assert_allclose(np.ravel(costs), [4 * (2 * np.pi) ** 2, 4 * (2 * np.pi) ** 2, 0.0], atol=1e-9)


def test_starts_of_a_pool_and_turns_between_start_and_actions_are_no_way() -> None:
    pool = STARTS[::-1] + np.array([[4 * np.pi, 0.0], [-2 * np.pi, 0.0]])
    found = integrated(turning("a"), fields(wrapped(WAY), pool, start_index=np.array([1, 0], np.uint32)))
    turns = np.array([-2 * np.pi, 4 * np.pi])[:, None]
    expected = integrated(turning(), fields(WAY))[0][..., 0] + turns
    np.testing.assert_allclose(found[0][..., 0], expected, atol=4 * ROUNDING)


def test_between_two_joint_states_an_angle_takes_the_short_way() -> None:
    states = JointStates(("a", "b"))
    for time_ns, angle in ((1, 3.1), (100_000_001, -3.1)):
        states.update(["a", "b"], np.array([angle, angle]), np.zeros(2), time_ns, time_ns)
    middle = measured_at(states.recent, np.array([50_000_001]), 2, np.array([True, False]))[0]
    np.testing.assert_allclose(middle, [[np.pi, 0.0]], atol=1e-12)

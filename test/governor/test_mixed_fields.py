"""Plans whose points do not all have the same fields: the node takes what joint_trajectory_controller takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import NOW_S, SimulatedNode
from plans_within_limits import FURTHEST, GIVEN, GOAL_RAD, ORDERS, SLACK, SWUNG, VALUES, between, limits, played
from test_plans_that_pass import s_curves

from kit.controller import Controller
from traj_integrator_ros.execution.limits import Limits, extremes, worst_violations

JOINTS = "abc"
BEGIN = np.array([0.1, -0.2, 0.3])
NONE: list[float] = []


@st.composite
def messages(draw: st.DrawFn) -> dict[str, object]:
    """Arguments of `SimulatedNode.plan`: some joints in any order, and optional fields at some of the points."""
    names = draw(st.permutations(JOINTS))[: draw(st.integers(1, 3))]
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    count = draw(st.integers(1, 9))
    steps = 10.0 ** random.uniform(*draw(st.sampled_from([(-9, 0), (-3, 0), (-1.3, -0.3)])), count)
    steps[0] *= draw(st.sampled_from([0, 1]))
    start = BEGIN[["abc".index(name) for name in names]]
    rows = (start + random.normal(scale=0.2, size=(count, len(names))).cumsum(axis=0)).clip(-2, 2)
    share = {part: draw(st.sampled_from([0.0, 0.3, 0.7, 1.0])) for part in ("velocities", "accelerations")}
    scale = draw(st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    rates = {}
    for part, given_at in share.items():
        values = scale * random.normal(size=rows.shape)
        if part == "velocities":
            values[-1] = 0.0
        rates[part] = [row if random.random() < given_at else NONE for row in values]
    return {"times": steps.cumsum(), "positions": rows, "names": "".join(names), **rates}


def is_accepted(message: dict[str, object]) -> bool:
    """Return whether joint_trajectory_controller accepts it."""
    controller = Controller(list(JOINTS), allow_partial_joints_goal=True)
    time_ns = np.rint(message["times"] * 1e9).astype(np.int64)
    parts = (message[part] for part in ("positions", "velocities", "accelerations"))
    return controller.receive(list(message["names"]), time_ns, *parts)


@pytest.mark.parametrize("limited", ["complete", "from a URDF"])
@settings(max_examples=25)
@given(message=messages())
def test_what_a_controller_takes_is_executed_within_limits(limited: str, message: dict[str, object]) -> None:
    if not is_accepted(message):
        return
    node = SimulatedNode(3, **limits(GIVEN[limited], 3) | {"limits__start_deviation": 0.0})
    node.measure(BEGIN)
    made = [node.plan(**message), *(node.tick(NOW_S + 0.01 * k) for k in range(1, 5))]
    (trajectory,) = [one for one in made if one is not None]
    goal = BEGIN.copy()
    goal[["abc".index(name) for name in message["names"]]] = message["positions"][-1]
    motion, points = played(trajectory), trajectory.points
    np.testing.assert_allclose(points.position[-1], goal, atol=GOAL_RAD)
    assert not points.velocity[-1].any()
    reached = extremes(motion)
    assert np.abs(reached[:, 0]).max() <= FURTHEST + GOAL_RAD
    for name in set(GIVEN[limited]) & set(ORDERS):
        if name == "jerk" and points.acceleration is None:
            continue  # accelerations of cubics jump
        swung = 1.0 if trajectory.delay > 0 else SWUNG[name]
        most = VALUES[name] * swung * (1 + SLACK)
        if name == "jerk":  # points a few microseconds apart cannot express jerk
            given = Limits(jerk=np.full(3, most))
            assert not worst_violations(motion, given, of_points=True)
        else:
            assert np.abs(reached[:, ORDERS[name]]).max() <= most, name


def planned(times: np.ndarray, rows: np.ndarray, velocities: object = (), accelerations: object = ()):
    node = SimulatedNode(rows.shape[1], **limits(("velocity", "acceleration"), rows.shape[1]))
    node.measure(0.0)
    return node.plan(times, rows, velocities=velocities, accelerations=accelerations)


def some(rows: np.ndarray, given_at: list[int]) -> list[object]:
    """The rows at some points; none at the others."""
    return [row if k in given_at else NONE for k, row in enumerate(rows)]


def test_pieces_whose_ends_have_the_same_fields_are_those_of_a_controller() -> None:
    times, position, velocity, acceleration = s_curves(np.array([0.8, -0.3]), 0.1)
    lacking = [3, 4, 8]
    at = [k for k in range(len(times)) if k not in lacking]
    trajectory = planned(times, position, some(velocity, at))
    assert trajectory.delay == 0
    by_itself = between(times, position, velocity)
    for k in range(len(times) - 1):
        inside = np.linspace(times[k], times[k + 1], 7)[1:-1]
        off = np.abs(played(trajectory).states_at(inside, 1) - by_itself.states_at(inside, 1)).max()
        assert off <= (1e-9 if {k, k + 1}.isdisjoint(lacking) else 5e-3), k
    both = planned(times, position, velocity, some(acceleration, at))
    inside = np.linspace(times[5], times[7], 9)[1:-1]
    exact = between(times, position, velocity, acceleration).states_at(inside, 1)
    np.testing.assert_allclose(played(both).states_at(inside, 1), exact, atol=1e-9)


def test_a_spline_between_velocities_does_not_swing_beyond_positions() -> None:
    times = np.arange(1, 9) * 0.3
    rows = np.array([0.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])[:, None]
    velocity = np.zeros_like(rows)
    reached = extremes(played(planned(times, rows, some(velocity, [0, 4]))))[:, 0, 0]
    assert reached[0] >= -GOAL_RAD and reached[1] <= 0.5 + GOAL_RAD

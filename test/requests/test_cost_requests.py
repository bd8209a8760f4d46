"""Requests for costs: the weight of the duration, and the signed violations of limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import SimulatedNode, sequence_fields

from traj_integrator_ros.engine.call import Wanted
from traj_integrator_ros.kernels import ControlSpace, CostTerm, QuadraticCost
from traj_integrator_ros.requests.evaluation_requests import EvaluatedBatch, EvaluationFields
from traj_integrator_ros.requests.rejection import Rejected
from traj_integrator_ros.requests.sequences import SequenceFields

BATCH, HORIZON, DOF = 3, 4, 2
OUTPUTS = ("position", "velocity", "acceleration", "jerk")


def sequence(names: tuple[str, ...] = (), dt: float = 0.1, scale: float = 1.0) -> SequenceFields:
    """Random accelerations from rest at 0."""
    data = np.random.default_rng(0).normal(scale=scale, size=(BATCH, HORIZON, DOF))
    return sequence_fields(data, np.zeros((2, DOF)), ControlSpace.ACCELERATION, dt, joint_names=names)


def request(
    duration_weight: object = (), rows: object = (), violations: bool = True, violation_fields: int = 0, **terms: object
) -> EvaluationFields:
    """Terms by the names of outputs, their fields by name."""
    given = [[np.float32(terms.get(name, {}).get(field, ())) for field in CostTerm._fields] for name in OUTPUTS]
    cost = QuadraticCost(*(CostTerm(*fields) for fields in given), np.float32(duration_weight))
    return EvaluationFields(cost, Wanted(action=True), np.uint32(rows), 0, violations, violation_fields)


def evaluate(node: SimulatedNode, fields: SequenceFields, asked: EvaluationFields) -> EvaluatedBatch:
    return node.pipeline.batches.evaluate(fields, asked, lambda: 0)


@pytest.fixture(scope="module")
def limitless() -> SimulatedNode:
    """A node without limits of its own."""
    return SimulatedNode(DOF)


bounds = st.floats(-2.0, 2.0, width=32) | st.just(np.inf)


@given(st.tuples(bounds, bounds), st.tuples(bounds, bounds), st.booleans(), st.sampled_from(OUTPUTS))
@settings(max_examples=60, deadline=None)
def test_violations_are_of_trajectories_in_the_messages_order(limitless, lowest, room, reverse, output):
    lower = np.where(np.isinf(lowest), -np.inf, lowest).astype(np.float32)
    upper = np.where(np.isinf(lowest), 0.0, lower) + np.abs(room, dtype=np.float32)
    names = ("b", "a") if reverse else ()
    asked = request(rows=[2, 0, 1], **{output: {"lower": lower, "upper": upper}})
    answer = evaluate(limitless, sequence(names), asked)
    trajectories = dict(zip(OUTPUTS, answer.trajectories.trajectories.astype(float), strict=True))
    columns = answer.trajectories.request.columns
    found = {name: values for name, values in answer.fields.items() if name.startswith("violation")}
    x = columns.out_of_node(trajectories[output])[[1, 2, 0]]
    with np.errstate(invalid="ignore"):
        expected = np.maximum(x - upper.astype(float), lower.astype(float) - x)
    assert found.keys() == {f"violation_{output}"} and found[f"violation_{output}"].dtype == np.float32
    np.testing.assert_allclose(found[f"violation_{output}"], expected, rtol=1e-6, atol=1e-6)


def test_limits_that_a_term_lacks_are_those_of_the_node():
    node = SimulatedNode(DOF, limits__velocity=[0.1, 0.2], limits__jerk=[1.0, 2.0])
    mixed = evaluate(node, sequence(), request(velocity={"upper": [0.05, 0.05]}, rows=[0, 1, 2])).fields
    assert "violation_position" not in mixed and "violation_acceleration" not in mixed
    answer = evaluate(node, sequence(), request(rows=[0, 1, 2]))
    _, v, _, j = answer.trajectories.trajectories.astype(float)
    np.testing.assert_allclose(mixed["violation_velocity"], np.maximum(v - 0.05, [-0.1, -0.2] - v), atol=1e-6)
    np.testing.assert_allclose(answer.fields["violation_velocity"], np.abs(v) - [0.1, 0.2], atol=1e-6)
    np.testing.assert_allclose(mixed["violation_jerk"], np.abs(j) - [1.0, 2.0], rtol=1e-6, atol=1e-6)


def test_limits_without_a_weight_cost_nothing():
    node = SimulatedNode(DOF, limits__velocity=[0.1, 0.1])
    bounds = {"lower": [-0.05, -0.05], "upper": [0.05, 0.05]}
    penalized = {"limit_weight": [3.0, 3.0], **bounds}
    answer = evaluate(node, sequence(), request(velocity=penalized, acceleration=bounds))
    without = evaluate(node, sequence(), request(velocity=penalized, violations=False))
    squares = 3.0 * np.square(np.maximum(answer.fields["violation_velocity"], 0)).sum((1, 2))
    assert (squares > 0).all()
    np.testing.assert_allclose(answer.fields["cost"], squares, rtol=1e-5)
    np.testing.assert_array_equal(answer.fields["cost"], without.fields["cost"])
    assert without.fields.keys() == {"cost", "grad_action"}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (request(), "want_limit_violations: expected limits in the cost, because the node has none of its own"),
        (request(velocity={"upper": [1, 1]}, violation_fields=1), "cost.velocity.limit_weight: expected a limit_weig"),
        (request(velocity={"upper": [1, 1]}, violation_fields=3), "cost.position.lower: expected limits, because"),
        (request(velocity={"upper": [1, 1]}, violations=False), "cost.velocity.limit_weight: expected a limit_weight"),
        (request(velocity={"upper": [0, 1], "lower": [1, 0]}), "cost.velocity.lower: expected at most upper, 0, got 1"),
        (request(violation_fields=16), r"violation_fields: expected 0 \(all\) or a sum"),
        (request(duration_weight=[1, 1]), r"cost.duration_weight: expected 0, 1 or 3 \(batch\) values, got 2"),
        (request(duration_weight=[np.inf], velocity={"upper": [1, 1]}), "cost.duration_weight: expected finite"),
        (request(duration_weight=[3e38], violations=False), "cost: expected finite numbers, got inf"),
        (request(jerk={"upper": [-3e38] * 2, "lower": [-3e38] * 2}), "violation_jerk: expected finite numbers, got"),
    ],
)
def test_what_cannot_be_is_refused_by_name(limitless, asked, reason):
    large = "violation_jerk" in reason
    fields = sequence(dt=10.0) if not large else sequence(scale=1e37)
    with pytest.raises(Rejected, match=reason):
        evaluate(limitless, fields, asked)


def test_violations_count_towards_the_size_of_the_answer(limitless, monkeypatch):
    node, terms = limitless, {"jerk": {"upper": [1, 1]}, "velocity": {"upper": [1, 1]}}
    monkeypatch.setattr("traj_integrator_ros.requests.evaluation_requests.LARGEST_RESULT_BYTES", 500)
    evaluate(node, sequence(), request(jerk=terms["jerk"]))
    with pytest.raises(Rejected, match="violation_fields: expected an answer of at most 500 bytes"):
        evaluate(node, sequence(), request(**terms))

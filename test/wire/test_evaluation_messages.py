"""Fields of ~/evaluate to arrays and back."""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Time

from traj_integrator_interfaces.srv import Evaluate
from traj_integrator_ros.handling.results import BatchGradient, EvaluatedBatch
from traj_integrator_ros.traffic.messages import floats
from traj_integrator_ros.wire.messages import evaluation_fields, fill_evaluation


def test_a_request_without_more_asks_for_no_violations():
    fields = evaluation_fields(Evaluate.Request())
    assert (fields.want_violations, fields.violation_fields, fields.cost.duration_weight.size) == (False, 0, 0)


def test_what_a_request_asks_for_is_read():
    request = Evaluate.Request(want_limit_violations=True, violation_fields=5)
    request.cost.duration_weight = floats([1.0, 2.0])
    request.cost.jerk.lower = floats([-3.0])
    fields = evaluation_fields(request)
    assert (fields.want_violations, fields.violation_fields) == (True, 5)
    assert fields.cost.duration_weight.tolist() == [1.0, 2.0]
    assert fields.cost.jerk.lower.tolist() == [-3.0] and not fields.cost.position.lower.size


def test_violations_are_written_row_major_to_the_fields_of_their_outputs():
    values = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    values[0, 0, 0] = -np.inf
    strided = np.asfortranarray(values)
    response = Evaluate.Response()
    evaluated = EvaluatedBatch(np.zeros(2, np.float32), BatchGradient(), None, (None, strided, None, 2 * strided))
    fill_evaluation(response, evaluated, Time())
    assert np.array_equal(response.violation_velocity, values.ravel())
    assert np.array_equal(response.violation_jerk, 2 * values.ravel())
    assert not response.violation_position and not response.violation_acceleration

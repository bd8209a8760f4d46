"""Fields of services to arrays and back."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from builtin_interfaces.msg import Time

from traj_integrator_interfaces.msg import TrajectoryBatch
from traj_integrator_interfaces.srv import Evaluate
from traj_integrator_ros.client import packed
from traj_integrator_ros.engine.call import Wanted
from traj_integrator_ros.requests.evaluation_requests import EvaluatedBatch
from traj_integrator_ros.requests.joint_order import resolve_columns
from traj_integrator_ros.requests.sequences import OUTPUTS
from traj_integrator_ros.wire.messages import evaluation_fields, fill_evaluation, fill_trajectories


@pytest.mark.parametrize("wanted", ["action", "start", "goal", "dt"])
def test_the_gradients_that_are_wanted_are_those_asked_for(wanted: str):
    request = Evaluate.Request(**{f"want_grad_{name}": name == wanted for name in ("action", "start", "goal", "dt")})
    assert [name for name in Wanted._fields if getattr(evaluation_fields(request).wanted, name)] == [wanted]


def test_requested_trajectories_are_in_the_order_of_the_sequence():
    request = SimpleNamespace(columns=resolve_columns(("b", "a"), ("a", "b")), batch=1, output_horizon=1)
    outputs = [np.float32([[[k, -k]]]) for k in range(1, 5)]
    message = TrajectoryBatch()
    batch = SimpleNamespace(request=request, times=np.zeros(1, np.float32), trajectories=outputs, fields=0b0101)
    fill_trajectories(message, batch, Time(sec=1))
    assert [list(getattr(message, name)) for name in OUTPUTS] == [[-1, 1], [], [-3, 3], []]
    assert (list(message.joint_names), message.header.stamp.sec) == (["b", "a"], 1)


def test_what_a_request_asks_for_is_read():
    nothing = evaluation_fields(Evaluate.Request())
    assert (nothing.want_violations, nothing.violation_fields, nothing.cost.duration_weight.size) == (False, 0, 0)
    request = Evaluate.Request(want_limit_violations=True, violation_fields=5)
    request.cost.duration_weight, request.cost.jerk.lower = packed([1.0, 2.0]), packed([-3.0])
    fields = evaluation_fields(request)
    assert (fields.want_violations, fields.violation_fields) == (True, 5)
    assert fields.cost.duration_weight.tolist() == [1.0, 2.0]
    assert fields.cost.jerk.lower.tolist() == [-3.0] and not fields.cost.position.lower.size


def test_violations_are_written_row_major_to_the_fields_of_their_outputs():
    values = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    values[0, 0, 0] = -np.inf
    strided = np.asfortranarray(values)
    response = Evaluate.Response()
    found = {"cost": np.zeros(2, np.float32), "violation_velocity": strided, "violation_jerk": 2 * strided}
    evaluated = EvaluatedBatch(found, None)
    fill_evaluation(response, evaluated, Time())
    assert np.array_equal(response.violation_velocity, values.ravel())
    assert np.array_equal(response.violation_jerk, 2 * values.ravel())
    assert not response.violation_position and not response.violation_acceleration

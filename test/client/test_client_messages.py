"""Messages that the client makes of arrays, and arrays that it refuses itself."""

from __future__ import annotations

import subprocess
import sys
from array import array

import numpy as np
import pytest
import torch
from rclpy.parameter import Parameter
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_ros.client.answers import motion_of
from traj_integrator_ros.client.requests import (
    cost_message,
    gradient_request,
    output_bits,
    parameter_message,
    positions_message,
    retime_request,
    sequence,
    set_stamp,
)
from traj_integrator_ros.client.values import plain
from traj_integrator_ros.kernels import ControlSpace, CostTerm, QuadraticCost, velocity_step

RNG = np.random.default_rng(0)
ACTIONS = np.arange(24.0).reshape(2, 4, 3)


@pytest.mark.parametrize(
    "actions",
    [ACTIONS, ACTIONS.tolist(), ACTIONS.transpose(2, 1, 0).copy().transpose(2, 1, 0), torch.tensor(ACTIONS),
     torch.tensor(ACTIONS, dtype=torch.bfloat16), torch.tensor(ACTIONS).mT.contiguous().mT],
    ids=["float64", "lists", "strided", "tensor", "bfloat16", "strided tensor"],
)  # fmt: skip
def test_numbers_of_every_kind_are_the_same_message(actions: object) -> None:
    message = sequence(actions, dt=0.1, control_space="jerk", position=[1, 2, 3], goal_velocity=np.ones((2, 3)))
    assert (message.batch, message.horizon, message.control_space) == (2, 4, ActionSequence.JERK)
    assert message.data == array("f", range(24)) and message.dt == array("f", [0.1])
    assert message.start.position == array("f", [1, 2, 3]) and message.goal.velocity == array("f", [1] * 6)
    assert not message.start.velocity and not message.goal.position and not message.start_index


@pytest.mark.parametrize("space", ControlSpace)
def test_control_spaces_have_the_names_and_numbers_of_the_kernels(space: ControlSpace) -> None:
    for given in (space.name.lower(), space.value, space):
        assert sequence(ACTIONS, control_space=given).control_space == space.value


@pytest.mark.parametrize(
    ("dt_per", "shape"),
    [(per, shape) for per in ("step", "trajectory") for shape in ((1,), (2,), (2, 1))] + [("step", (2, 2))],
)
def test_time_steps_count_what_they_do_in_the_library(shape: tuple[int, ...], dt_per: str) -> None:
    """Batch and horizon are equal: nothing is guessed."""
    dt, actions = RNG.uniform(0.1, 0.2, shape).astype(np.float32), ACTIONS[:, :2]
    message = sequence(actions, dt=dt, dt_per=dt_per)
    assert message.dt == array("f", dt.reshape(-1))
    counted = np.reshape(message.dt, (-1, 1) if message.dt_per and dt.size > 1 else (-1, 2) if dt.size > 2 else -1)
    motion = torch.tensor(actions), torch.zeros(1, 3, dtype=torch.float64)
    given = velocity_step(*motion, dt=torch.as_tensor(dt), dt_per=dt_per)
    sent = velocity_step(*motion, dt=torch.as_tensor(counted))
    torch.testing.assert_close(given, sent, rtol=0, atol=0)


@pytest.mark.parametrize("dt", [0.2, [0.2], [[0.2]], [[0.1, 0.2, 0.3, 0.4]], np.full((2, 4), 0.2)])
@pytest.mark.parametrize("velocity", [[1, 2, 3], [[1, 2, 3]]])
def test_starts_and_steps_broadcast_as_torch_does(dt: object, velocity: object) -> None:
    message = sequence(ACTIONS, dt=dt, position=np.ones((2, 3)), velocity=velocity, goal_position=[4, 5, 6])
    assert message.dt == array("f", np.ravel(dt)) and message.dt_per == ActionSequence.DT_PER_STEP
    assert message.start.velocity == array("f", [1, 2, 3] * 2) and message.goal.position == array("f", [4, 5, 6])


WHOLE = [2, np.int64(2), np.uint8(2), np.float32(2), 2.0, np.array(2), torch.tensor(2), np.ceil(1.5)]


@pytest.mark.parametrize("two", WHOLE, ids=lambda value: type(value).__name__)
def test_whole_numbers_are_those_of_any_type(two: object) -> None:
    message = sequence(ACTIONS, control_space=two, degree=two, steps=two, start_index=[two, two])
    assert (message.control_space, message.degree, message.steps) == (2, 2, 2)
    assert message.start_index == array("I", [2, 2])
    set_stamp(message, two * 1e9)
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (2, 0)
    assert retime_request(ACTIONS, (), {"order": two, "duration": two}).order == 2


PARAMETERS = {
    # a program's value, and the value that a parameter takes
    "float32": (np.float32(0.5), 0.5),
    "int64": (np.int64(3), 3),
    "truth": (np.bool_(True), True),
    "text": (np.str_("a"), "a"),
    "array": (np.array([1.0, 2.0]), [1.0, 2.0]),
    "tensor": (torch.tensor([1.0, 2.0]), [1.0, 2.0]),
    "numbers of two kinds": ((1, np.float64(2.5)), [1.0, 2.5]),
    "texts": (np.array(["a", "b"]), ["a", "b"]),
    "one number": (np.array(0.5), 0.5),
}


@pytest.mark.parametrize(("given", "value"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_take_the_values_of_numpy(given: object, value: object) -> None:
    found = plain("dt", given)
    assert found == value and type(found) is type(value)
    assert not isinstance(value, list) or [type(one) for one in found] == [type(one) for one in value]


EMPTY = {
    "DOUBLE": [np.array([]), np.zeros(0, np.float32), torch.tensor([]), [], (), np.zeros((0, 2))],
    "INTEGER": [np.zeros(0, int), np.zeros(0, np.uint8), torch.zeros(0, dtype=torch.int32)],
    "BOOL": [np.zeros(0, bool), torch.zeros(0, dtype=torch.bool)],
    "STRING": [np.array([], "U3")],
}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in EMPTY.items() for value in values])
def test_an_empty_array_has_the_type_of_its_numbers_as_a_parameter(kind: str, value: object) -> None:
    assert parameter_message("limits.velocity", value).value.type == Parameter.Type[f"{kind}_ARRAY"].value


TRUTHS = [True, np.True_, np.array(True), torch.tensor(True)]


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda value: type(value).__name__)
def test_a_truth_value_is_no_number_no_time_and_no_row(truth: object) -> None:
    calls = {
        "stamp_ns: expected a whole number": lambda: set_stamp(ActionSequence(), truth),
        "degree: expected a whole number": lambda: sequence(ACTIONS, degree=truth),
        "duration: expected an array of numbers": lambda: retime_request(ACTIONS, (), {"duration": truth}),
        "dt: expected an array of numbers": lambda: sequence(ACTIONS, dt=truth),
        "start_index: expected an array of numbers": lambda: sequence(ACTIONS, start_index=[truth, truth]),
    }
    for told, call in calls.items():
        with pytest.raises(ValueError, match=told):
            call()


@pytest.mark.parametrize("value", [np.zeros((2, 2)), {"a": 1}, [1, "a"], None, object(), 1 + 2j, 2**70])
def test_what_no_parameter_takes_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(ValueError, match=r"^limits\.velocity: expected a truth value, a number, a text or a list of"):
        plain("limits.velocity", value)


TERM = {"weight": 1.0}
WRONG = {
    "actions: expected [batch, horizon, dof], got [4, 3]": lambda: sequence(ACTIONS[0]),
    "actions: expected an array of numbers, got list": lambda: sequence([[["one"]]]),
    "actions: expected a tensor without grad": lambda: sequence(torch.zeros(1, 2, 3, requires_grad=True)),
    "dt: expected a number or one of [1], [4], [2, 4], [2, 1], got [3]": lambda: sequence(ACTIONS, dt=[1, 2, 3]),
    "dt: expected a number or one of [1], [2], [2, 1], got [4]": lambda: sequence(
        ACTIONS, dt=[1] * 4, dt_per="trajectory"
    ),
    "dt: expected a number or one of [1], [3], [2, 3], [2, 1], got [4]": lambda: retime_request(
        ACTIONS, (), {"dt": [1.0] * 4}
    ),
    "dt_per: expected step or trajectory, got 'row'": lambda: sequence(ACTIONS, dt_per="row"),
    "control_space: expected one of default, position": lambda: sequence(ACTIONS, control_space="torque"),
    "velocity: expected [3] or [rows, 3], got [2]": lambda: sequence(ACTIONS, velocity=[1, 2]),
    "goal_position: expected [3] or [rows, 3], got [1, 1, 3]": lambda: sequence(ACTIONS, goal_position=ACTIONS[:1, :1]),
    "start_index: expected [2], rows from 0 on, got [3]": lambda: sequence(ACTIONS, start_index=[0, 1, 0]),
    "goal_index: expected rows from 0 on, got -1": lambda: sequence(ACTIONS, goal_index=[0, -1]),
    "cost: expected some of position, velocity": lambda: cost_message({"torque": TERM}, 3),
    "cost: expected position, velocity": lambda: cost_message(3.0, 3),
    "cost.jerk: expected some of weight, target": lambda: cost_message({"jerk": {"wait": 1.0}}, 3),
    "cost.jerk.weight: expected [3] or [rows, 3] or": lambda: cost_message({"jerk": {"weight": [1.0, 2.0]}}, 3),
    "outputs: expected some of position": lambda: output_bits(["positions"]),
    "upstream: expected some of position, velocity, acceleration, jerk, got none": lambda: gradient_request(
        sequence(ACTIONS), {}
    ),
    "upstream.jerk: expected [2, horizon, dof], got [1, 4, 3]": lambda: gradient_request(
        sequence(ACTIONS), {"jerk": ACTIONS[:1]}
    ),
    "position: expected [batch, rows, dof], got [4, 3]": lambda: retime_request(ACTIONS[0], (), {}),
    "velocity: expected [2, 4, 3], got [3]": lambda: retime_request(ACTIONS, (), {"velocity": [1, 2, 3]}),
    "position: expected [points, dof]": lambda: positions_message(ACTIONS, None, (), 0),
    "times: expected [4], one for each point, got [3]": lambda: positions_message(ACTIONS[0], [1, 2, 3], "abc", 0),
    "joint_names: expected 3, one for each column, got a, b": lambda: positions_message(ACTIONS[0], None, "ab", 0),
    "steps: expected a whole number from 0 to 255, got 2.5": lambda: sequence(ACTIONS, steps=2.5),
    "degree: expected a whole number from 0 to 255, got 'x'": lambda: sequence(ACTIONS, degree="x"),
    "steps: expected a whole number from 0 to 255, got 256": lambda: sequence(ACTIONS, steps=256),
    "control_space: expected a whole number": lambda: sequence(ACTIONS, control_space=1.5),
    "stamp_ns: expected a whole number": lambda: set_stamp(ActionSequence(), np.nan),
    "stamp_ns: expected a whole number from 0 to 2147483647000000000, got -1": lambda: set_stamp(ActionSequence(), -1),
    "start_index: expected rows from 0 on, got 0.5": lambda: sequence(ACTIONS, start_index=[0.5, 1]),
    "order: expected a whole number": lambda: retime_request(ACTIONS, (), {"order": 2.5}),
    "duration: expected a number": lambda: retime_request(ACTIONS, (), {"duration": [1.0, 2.0]}),
    "times: expected s from the stamp, got nan": lambda: positions_message(ACTIONS[0], [0, 1, np.nan, 3], "abc", 0),
    "joint_names: expected 3, one for each column, got none": lambda: positions_message(ACTIONS[0], None, (), 0),
}


@pytest.mark.parametrize("begins", WRONG)
def test_wrong_arguments_are_named_with_what_was_expected_and_what_came(begins: str) -> None:
    with pytest.raises(ValueError) as caught:
        WRONG[begins]()
    assert str(caught.value).startswith(begins)


def test_a_cost_of_the_kernels_and_a_mapping_are_the_same_message() -> None:
    kernels = QuadraticCost(position=CostTerm(weight=2.0, target=torch.ones(3)), duration_weight=0.5)
    mapping = {"position": {"weight": [2.0] * 3, "target": np.ones(3)}, "duration_weight": [0.5]}
    message = cost_message(kernels, 3)
    assert message == cost_message(mapping, 3)
    assert message.position.weight == array("f", [2.0] * 3) and message.duration_weight == array("f", [0.5])
    assert not message.position.terminal_weight and not message.velocity.weight


def test_positions_keep_their_times_to_the_nanosecond() -> None:
    message = positions_message(ACTIONS[0], [0.1, 1.0, 1.9999999999, 3.5], "abc", 5_000_000_007)
    times = [(point.time_from_start.sec, point.time_from_start.nanosec) for point in message.points]
    assert times == [(0, 100_000_000), (1, 0), (2, 0), (3, 500_000_000)]
    assert list(message.points[1].positions) == [3, 4, 5] and message.joint_names == ["a", "b", "c"]
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (5, 7)


def test_motions_come_in_the_order_of_the_client() -> None:
    points = [JointTrajectoryPoint(positions=[1.0, 2.0, 3.0], velocities=[4.0, 5.0, 6.0])] * 2
    message = JointTrajectory(joint_names=["a", "b", "c"], points=points)
    motion = motion_of(message, ("c", "a"))
    assert motion.joint_names == ("c", "a") and motion.position.tolist() == [[3, 1]] * 2
    assert motion.velocity.tolist() == [[6, 4]] * 2 and motion.acceleration is None
    assert motion_of(message).position.tolist() == [[1, 2, 3]] * 2
    with pytest.raises(ValueError, match="joints of the node, a, b, c; got d"):
        motion_of(message, ("a", "d"))


def test_the_client_does_not_load_torch() -> None:
    program = """
import sys
sys.modules["torch"] = None  # an import fails
import numpy
from traj_integrator_ros.client import IntegratorClient, sequence
sequence(numpy.zeros((1, 2, 3)))
"""
    subprocess.run([sys.executable, "-c", program], check=True)

"""Which calls of the services are answered by what was prepared, and which by the pipeline; in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import pytest
import torch
from rclpy.context import Context
from rclpy.node import Node
from rclpy.serialization import deserialize_message, serialize_message
from ros_client import floats, sequence

from traj_integrator_interfaces.srv import ComputeGradient, Evaluate
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.handling.engine_configuration import engine_config
from traj_integrator_ros.handling.parameters import NodeParameters, default_values
from traj_integrator_ros.handling.pipeline import Pipeline
from traj_integrator_ros.handling.published import PublishedMotion
from traj_integrator_ros.handling.rejection import Rejected, RejectionReason
from traj_integrator_ros.kernels import Backend, ControlSpace, default_backend
from traj_integrator_ros.node.accounts import Accounts
from traj_integrator_ros.node.services import Services
from traj_integrator_ros.wire import kept_messages as keeping
from traj_integrator_ros.wire.borrowed_services import borrowed

pytestmark = [
    pytest.mark.ros,
    pytest.mark.skipif(keeping._native is None, reason="traj_integrator_ros.wire._native is not built"),
    pytest.mark.skipif(
        default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ kernels are not built"
    ),
]
DOF = 2
BEFORE = 3
"""Calls until an answer is prepared: the first request may come once only, the second is kept, the third is like it."""


def made_pipeline(**changes: object) -> Pipeline:
    values = default_values() | {"joint_names": ["a", "b"], "device": "cpu"} | changes
    parameters = NodeParameters.from_values(values)
    engine = TrajectoryIntegrator(engine_config(parameters))
    return Pipeline(parameters, engine, PublishedMotion(), lambda _: None)


@dataclass
class Desk:
    """The services of a node that is active or not, and what they are asked."""

    accounts: Accounts
    pipeline: Pipeline = field(default_factory=made_pipeline)
    active: bool = True

    def __post_init__(self) -> None:
        self.services = Services(self.accounts, self._accepting, lambda: 0)
        self.asked = 0
        """How many questions the pipeline was asked."""
        self._served = {service: borrowed(service) for service in (Evaluate, ComputeGradient)}

    def _accepting(self) -> Pipeline:
        if not self.active:
            raise Rejected(RejectionReason.NOT_ACTIVE, "node: expected state active, got inactive")
        return self.pipeline

    def call(self, request: Evaluate.Request | ComputeGradient.Request) -> object:
        """Answer a request from its bytes, as rclpy does; the response as its client has it."""
        service, name = {
            Evaluate.Request: (Evaluate, "evaluate"),
            ComputeGradient.Request: (ComputeGradient, "compute_gradient"),
        }[type(request)]
        served = self._served[service]
        read = deserialize_message(serialize_message(request), served.Request)
        method = "evaluate" if service is Evaluate else "gradient"
        with mock.patch.object(self.pipeline, method, wraps=getattr(self.pipeline, method)) as pipelines:
            response = getattr(self.services, name)(read, served.Response())
        self.asked += pipelines.call_count
        return deserialize_message(serialize_message(response), service.Response)

    def repeat(self, request: Callable, times: int = BEFORE) -> None:
        """Call until an answer is prepared."""
        for seed in range(times):
            assert self.call(request(100 + seed)).success
        self.asked = 0


@pytest.fixture(scope="module")
def accounts() -> Iterator[Accounts]:
    context = Context()
    context.init()
    node = Node("desk", context=context)
    yield Accounts(node)
    node.destroy_node()
    context.try_shutdown()


@pytest.fixture
def desk(accounts: Accounts) -> Desk:
    """Of a node that was asked nothing yet."""
    return Desk(accounts)


def actions(seed: int, batch: int = 2, **fields: object) -> object:
    rng = np.random.default_rng(seed)
    numbers = {"position": rng.normal(size=(1, DOF)), "velocity": rng.normal(size=(1, DOF))}
    message = sequence(
        rng.normal(size=(batch, 4, DOF)), **{"control_space": ControlSpace.ACCELERATION.value, **numbers, **fields}
    )
    message.header.stamp.sec = seed
    return message


def evaluation(seed: int, **fields: object) -> Evaluate.Request:
    request = Evaluate.Request(actions=actions(seed, **fields))
    request.cost.velocity.weight = floats(1 + np.random.default_rng(seed).random(DOF))
    return request


def gradient(seed: int, batch: int = 2, **fields: object) -> ComputeGradient.Request:
    request = ComputeGradient.Request(actions=actions(seed, batch, **fields))
    request.grad_jerk = floats(np.random.default_rng(seed).normal(size=(batch, 4, DOF)))
    return request


both = pytest.mark.parametrize("request_of", [evaluation, gradient])


@both
def test_from_the_fourth_call_on_the_pipeline_is_not_asked_any_more(desk: Desk, request_of: Callable) -> None:
    answers = [desk.call(request_of(seed)) for seed in range(10)]
    assert desk.asked == BEFORE
    assert desk.services.calls == 10
    assert all(answer.success and answer.message == "" for answer in answers)
    # A desk without what is compiled asks the pipeline each time.
    with mock.patch.object(keeping, "_native", None):
        other = Desk(desk.accounts)
        assert [other.call(request_of(seed)) for seed in range(10)] == answers
        assert other.asked == 10
    assert len({bytes(answer.grad_action) for answer in answers}) == 10


@both
def test_answers_to_two_kinds_of_requests_are_prepared(desk: Desk, request_of: Callable) -> None:
    for batch in (2, 3):
        desk.repeat(lambda seed, batch=batch: request_of(seed, batch=batch))
    desk.asked = 0
    answers = [desk.call(request_of(seed, batch=2 + seed % 2)) for seed in range(6)]
    assert desk.asked == 0
    desk.pipeline = made_pipeline()
    assert [desk.call(request_of(seed, batch=2 + seed % 2)) for seed in range(6)] == answers
    assert desk.asked > 0


@both
@pytest.mark.parametrize(("value", "reason"), [(np.nan, "not_finite"), (3e38, "non_finite_result")])
def test_what_cannot_be_is_left_to_the_pipeline_and_the_next_call_is_not(
    desk: Desk, request_of: Callable, value: float, reason: str
) -> None:
    desk.repeat(request_of)
    calls = desk.services.calls
    for number in range(1, 4):
        request = request_of(0)
        if request_of is evaluation:
            request.actions.data = floats(np.full(16, value))
        else:
            request.grad_jerk = floats(np.full(16, value))
        answer = desk.call(request)
        assert not answer.success and answer.message.startswith(f"{reason}: ")
        assert not answer.grad_action
        assert desk.asked == number
        assert desk.call(request_of(1)).success
        assert desk.asked == number
        assert desk.services.calls == calls + 2 * number


@both
def test_a_node_that_is_not_active_refuses_and_has_its_answers_ready_when_it_is(
    desk: Desk, request_of: Callable
) -> None:
    desk.repeat(request_of)
    expected, calls = desk.call(request_of(0)), desk.services.calls
    desk.active = False
    for _ in range(2):
        answer = desk.call(request_of(0))
        assert answer.message == "not_active: node: expected state active, got inactive" and not answer.success
        assert not answer.grad_action
    desk.active = True
    assert desk.call(request_of(0)) == expected
    assert desk.asked == 0 and desk.services.calls == calls + 3


@both
@pytest.mark.parametrize("other", [True, False], ids=["another pipeline", "another configuration"])
def test_other_parameters_need_other_answers(desk: Desk, request_of: Callable, other: bool) -> None:
    desk.repeat(request_of)
    first = desk.call(request_of(0))
    assert desk.asked == 0
    changed = made_pipeline(dt=0.5)
    if other:
        desk.pipeline = changed
    else:
        desk.pipeline.reconfigure(changed.parameters, changed.engine)
    second = desk.call(request_of(0))
    assert second.success and second.grad_action != first.grad_action
    desk.repeat(request_of, 1)
    assert desk.call(request_of(0)) == second
    assert desk.asked == 0, "and they are prepared again"
    changed = made_pipeline(dt=0.5, max_batch=1, warmup=["1x1"])
    desk.pipeline.reconfigure(changed.parameters, changed.engine)
    for _ in range(2):
        assert desk.call(request_of(0)).message.startswith("size_out_of_range: batch: expected 1 to 1")


@both
def test_what_cannot_be_prepared_is_tried_once_for_each_configuration(desk: Desk, request_of: Callable) -> None:
    for _ in range(2):
        repeated = desk.pipeline.repeated
        method = "evaluation" if request_of is evaluation else "gradient"
        with mock.patch.object(repeated, method, wraps=getattr(repeated, method)) as tried:
            for seed in range(10):
                assert desk.call(request_of(seed, joint_names=["b", "a"])).success
        assert tried.call_count == 1
        desk.pipeline.reconfigure(desk.pipeline.parameters, desk.pipeline.engine)
    assert desk.asked == 20


def test_calls_that_succeed_are_timed_however_they_are_answered(desk: Desk) -> None:
    with mock.patch.object(desk.services.latency, "add", wraps=desk.services.latency.add) as added:
        for seed in range(8):
            desk.call(evaluation(seed))
        request = evaluation(8)
        request.actions.data[0] = np.inf
        desk.call(request)
    assert desk.asked == BEFORE + 1
    assert added.call_count == 8
    assert all(0 < one.args[0] < 10 for one in added.call_args_list)

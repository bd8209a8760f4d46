"""Calls of the services one after another, as those of an optimizer: each gets its own answer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from rclpy.parameter import Parameter
from ros_client import RosClient, floats, sequence

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate
from traj_integrator_ros.kernels import ControlSpace, CostTerm, QuadraticCost, control_map, quadratic_cost

pytestmark = pytest.mark.ros
DOF = 3
SHAPES = [(2, 4), (3, 6)]
"""Batch and horizon of requests that alternate."""
ORDER = [0, 0, 1, 1, 0, 1, 0]
KERNEL = control_map(ControlSpace.VELOCITY)


def actions(seed: int, batch: int = 2, horizon: int = 4, **fields: object) -> ActionSequence:
    """Velocities from a start, rad/s; numbers and the header's stamp by `seed`."""
    rng = np.random.default_rng(seed)
    message = sequence(
        rng.normal(size=(batch, horizon, DOF)),
        control_space=ActionSequence.VELOCITY,
        position=rng.normal(size=(batch, DOF)),
        **fields,
    )
    message.header.stamp.sec = seed
    return message


def evaluation(seed: int, batch: int = 2, horizon: int = 4, **fields: object) -> Evaluate.Request:
    """Weights and targets of all points, and weights at the end."""
    rng = np.random.default_rng(1000 + seed)
    request = Evaluate.Request(actions=actions(seed, batch, horizon, **fields))
    request.cost.position.weight = floats(rng.random((horizon, DOF)))
    request.cost.position.target = floats(rng.normal(size=(batch, horizon, DOF)))
    request.cost.acceleration.terminal_weight = floats(rng.random(DOF))
    return request


def gradient(seed: int, batch: int = 2, horizon: int = 4, **fields: object) -> ComputeGradient.Request:
    """Upstream gradients of positions and accelerations; without data, so that there is no gradient of dt."""
    rng = np.random.default_rng(1000 + seed)
    request = ComputeGradient.Request(actions=actions(seed, batch, horizon, **fields))
    request.actions.data = floats([])
    request.grad_position = floats(rng.normal(size=(batch, horizon, DOF)))
    request.grad_acceleration = floats(rng.normal(size=(batch, horizon, DOF)))
    return request


def assert_close(values: object, reference: torch.Tensor) -> None:
    expected = reference.detach().numpy().reshape(-1)
    assert np.linalg.norm(np.asarray(values) - expected) <= 5e-6 * np.linalg.norm(expected)


def check_evaluation(request: Evaluate.Request, response: Evaluate.Response, dt: float) -> None:
    """Compare with float64 arithmetic."""
    batch, horizon = request.actions.batch, request.actions.horizon

    def reference(values: object, *shape: int) -> torch.Tensor:
        return torch.from_numpy(np.asarray(values, np.float64).reshape(shape))

    action = reference(request.actions.data, batch, horizon, DOF).requires_grad_()
    position, acceleration = request.cost.position, request.cost.acceleration
    cost = QuadraticCost(
        CostTerm(reference(position.weight, horizon, DOF), reference(position.target, batch, horizon, DOF)),
        acceleration=CostTerm(terminal_weight=reference(acceleration.terminal_weight, DOF)),
    )
    start = reference(request.actions.start.position, batch, DOF)
    expected = quadratic_cost(action, start, dt=dt, cost=cost, control_map=KERNEL)
    assert response.success and response.message == "", response.message
    assert_close(response.cost, expected)
    assert_close(response.grad_action, torch.autograd.grad(expected.sum(), action)[0])
    assert not response.grad_start_position and not response.trajectory.position


def check_gradient(request: ComputeGradient.Request, response: ComputeGradient.Response, dt: float) -> None:
    """Compare with autograd in float64."""
    shape = request.actions.batch, request.actions.horizon, DOF
    action = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    start = torch.zeros((shape[0], DOF), dtype=torch.float64, requires_grad=True)
    upstream = [
        torch.from_numpy(np.asarray(values, np.float64).reshape(shape))
        for values in (request.grad_position, request.grad_acceleration)
    ]
    found = KERNEL.step(action, start, dt=dt)
    expected = torch.autograd.grad([found.position, found.acceleration], [action, start], upstream)
    assert response.success and response.message == "", response.message
    assert_close(response.grad_action, expected[0])
    assert_close(response.grad_start_position, expected[1])
    assert not response.grad_dt and not response.grad_goal_position


class Service:
    """A service, requests for it, and what must be true of its answers."""

    def __init__(self, name: str, request: Callable, check: Callable) -> None:
        self.name, self.request, self._check = name, request, check

    def call(self, client: RosClient, request: object) -> object:
        return getattr(client, self.name)(request)

    def check(self, client: RosClient, seed: int, shape: tuple[int, int] = SHAPES[0], dt: float = 0.02) -> None:
        """Call it, and compare the answer with the reference."""
        request = self.request(seed, *shape)
        self._check(request, self.call(client, request), dt)


EVALUATE = Service("evaluate", evaluation, check_evaluation)
GRADIENT = Service("compute_gradient", gradient, check_gradient)
both = pytest.mark.parametrize("service", [EVALUATE, GRADIENT], ids=["evaluate", "compute_gradient"])


@both
def test_every_call_is_answered_for_its_own_numbers(client: RosClient, service: Service) -> None:
    before = int(client.counts()["service_calls"])
    for seed, shape in enumerate(ORDER):
        service.check(client, seed, SHAPES[shape])

    def counted() -> bool:
        return int(client.counts()["service_calls"]) == before + len(ORDER)

    client.wait_for(counted, "each call counted once")


@both
def test_a_parameter_that_changes_between_calls_counts_at_once(client: RosClient, service: Service) -> None:
    try:
        for dt in (0.02, 0.05, 0.02, 0.1):
            assert client.set_parameters(dt=dt) == [(True, "")]
            for seed in range(2):
                service.check(client, seed, dt=dt)
    finally:
        client.set_parameters(dt=0.02)


def test_the_nodes_limits_that_change_between_calls_count_at_once(client: RosClient) -> None:
    request = Evaluate.Request(actions=actions(0))
    request.actions.data = floats(np.full(2 * 4 * DOF, 2.0))
    request.cost.velocity.limit_weight = floats(np.ones(DOF))
    try:
        # Three points at 2 rad/s exceed the limits of three joints; row 0 is the start, at rest.
        for limit, cost in ((1.0, 9.0), (1.5, 2.25), (1.0, 9.0)):
            assert client.set_parameters(limits__velocity=[limit] * DOF) == [(True, "")]
            for _ in range(2):
                assert np.asarray(client.evaluate(request).cost).tolist() == [cost] * 2
    finally:
        client.set_parameters(limits__velocity=Parameter("limits.velocity", Parameter.Type.DOUBLE_ARRAY, []))
    for _ in range(2):
        assert client.evaluate(request).message.startswith("invalid_cost: cost.velocity.lower")

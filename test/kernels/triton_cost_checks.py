"""What the Triton kernel of the quadratic cost must hold, interpreted or on a device; see triton_checks.py."""

from __future__ import annotations

from unittest import mock

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from test_quadratic_cost import Case
from triton_launches import DEVICE, ON_GPU

from traj_integrator_ros.kernels import MAPS, Backend, CostTerm, QuadraticCost, quadratic_cost
from traj_integrator_ros.kernels.costs.problem import CostProblem
from traj_integrator_ros.kernels.triton.quadratic_cost import MAP_NUMBERS

TOLERANCE = {torch.float64: 1e-9, torch.float32: 3e-5}
EACH_MAP = pytest.mark.parametrize("name", MAP_NUMBERS)


def on_device(value: object) -> object:
    if isinstance(value, QuadraticCost):
        return QuadraticCost(*(CostTerm(*map(on_device, term)) for term in value))
    return value.to(DEVICE) if isinstance(value, torch.Tensor) else value


def results(case: Case, backend: Backend, dtype: torch.dtype) -> list[torch.Tensor]:
    """Costs, and gradients of a weighted sum of them, in float64."""
    leaves = [on_device(leaf.detach().to(dtype)).requires_grad_() for leaf in case.leaves()]
    options = {name: on_device(value) for name, value in case.options.items()}
    cost = case(*leaves, backend=backend, cost=on_device(case.cost), **options)
    upstream = torch.arange(1, len(cost) + 1, device=DEVICE).to(cost)
    return [cost.detach().double(), *(g.double() for g in torch.autograd.grad(cost, leaves, upstream))]


@EACH_MAP
@settings(max_examples=60 if ON_GPU else 5, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_costs_and_gradients_match_the_reference(name, data):
    batch, horizon = data.draw(st.integers(1, 6), "batch"), data.draw(st.integers(1, 7), "horizon")
    dof, dims = data.draw(st.sampled_from((1, 2, 3, 7, 33)), "dof"), data.draw(st.integers(1, 3), "dims")
    rows = data.draw(st.sampled_from((None, 1, 3)), "rows")
    dtype = data.draw(st.sampled_from((torch.float64, torch.float32)), "dtype")
    case = Case(MAPS[name], batch, horizon, dof, data.draw(st.integers(0, 99), "seed"), rows, dims=dims)
    if (per := data.draw(st.sampled_from((None, "step", "trajectory")), "dt per")) is not None:
        steps = 0.3 + torch.rand(horizon if per == "step" else batch, dtype=torch.float64)
        case.options |= {"dt": steps, "dt_per": per}
    # In float32, of the same numbers as the kernel is given: the accuracy is that of its arithmetic.
    case = case.to(dtype).to(torch.float64)
    with mock.patch.object(CostProblem, "composed", side_effect=AssertionError("the kernel did not compute it")):
        found = results(case, Backend.TRITON, dtype)
    for got, expected in zip(found, results(case, Backend.REFERENCE, torch.float64), strict=True):
        assert (got - expected).norm() <= TOLERANCE[dtype] * max(float(expected.norm()), 1e-3)


@pytest.mark.parametrize("name", ["clique_central", "bspline_tight"])
def test_other_maps_are_composed(name):
    case = Case(MAPS[name], horizon=6)
    found = results(case, Backend.TRITON, torch.float64)
    for got, expected in zip(found, results(case, Backend.REFERENCE, torch.float64), strict=True):
        torch.testing.assert_close(got, expected)


def test_a_gradient_can_be_differentiated_again():
    case = Case(MAPS["clique"])
    action, *others = [on_device(leaf).detach() for leaf in case.leaves()]
    action.requires_grad_()
    second = []
    for backend in (Backend.TRITON, Backend.REFERENCE):
        cost = case(action, *others, backend=backend, cost=on_device(case.cost))
        (gradient,) = torch.autograd.grad(cost.sum(), action, create_graph=True)
        second += torch.autograd.grad(gradient.square().sum(), action)
    torch.testing.assert_close(*second)


def test_a_term_that_is_absent_costs_nothing_and_neither_does_an_empty_batch():
    case = Case(MAPS["jerk"])
    case.cost = QuadraticCost()
    cost, *gradients = results(case, Backend.TRITON, torch.float64)
    assert not cost.any()
    assert not any(gradient.any() for gradient in gradients)
    empty = torch.zeros(0, 4, 2, device=DEVICE, requires_grad=True)
    start = torch.zeros(1, 2, device=DEVICE)
    cost = quadratic_cost(empty, start, cost=QuadraticCost(CostTerm(1.0)), control_map="jerk", dt=0.1, backend="triton")
    assert cost.shape == (0,)

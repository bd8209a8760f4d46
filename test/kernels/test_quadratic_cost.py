"""The quadratic cost: its definition, its gradients, and that the fused loops compute what the composition does."""

from __future__ import annotations

import copy
import functools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import MAP, SIGNATURE, Case
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._pytree import tree_flatten, tree_unflatten

from traj_integrator_ros.kernels import (
    MAPS,
    Backend,
    CostTerm,
    QuadraticCost,
    control_map,
    default_backend,
    limit_violations,
    quadratic_cost,
)

NATIVE = pytest.mark.skipif(
    default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ extension is not built here"
)
FORMS = {f"degree {degree} {layout}": (degree, layout) for degree in (4, 5) for layout in ("tight", "curobo")}
KERNELS = {
    **MAPS,
    **{name: control_map(5, bspline_degree=d, bspline_steps=3, bspline_layout=x) for name, (d, x) in FORMS.items()},
}


class CostCase:
    """Random inputs of one call, in float64 or another dtype."""

    def __init__(self, kernel, batch=2, horizon=4, dof=2, seed=0, start="own", *, dims=3, has_goal=False):
        self.kernel = kernel
        self.normal = functools.partial(torch.randn, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        self.shape = (batch, kernel.output_horizon(horizon), dof)
        goal = start if has_goal and kernel.goal and horizon >= -kernel.goal_place else ""
        forms = {"dt": "[B, 1]" if seed % 2 else "number", "start": start, "goal": goal, "absent": ("goal_jerk",)}
        call = Case(kernel, batch, horizon, dof, **forms, seed=seed)
        self.variables = {name: value for name, value in call.tensors.items() if name != "dt"}
        self.options = {"dt": call.tensors.get("dt"), **call.fixed, "control_map": kernel}
        self.cost = QuadraticCost(*(self.term(dims, k) for k in range(4)))

    def term(self, dims: int, k: int) -> CostTerm:
        batch, _, dof = self.shape
        shape = self.shape[3 - dims :]
        bound = self.normal(dof).abs()
        terminal = self.normal(batch, dof) if dims == 3 else self.normal(dof)
        terms = (
            CostTerm(self.normal(*shape).abs(), self.normal(*shape), terminal.abs()),
            CostTerm(self.normal(*shape).abs(), None, None, self.normal(dof).abs(), -bound, bound),
            CostTerm(None, self.normal(*shape), terminal.abs(), self.normal(dof).abs(), None, bound),
            CostTerm(limit_weight=self.normal(dof).abs(), lower=-bound),
        )
        return terms[(k + dims) % 4]

    def to(self, dtype) -> CostCase:
        """The same call with its variables in another dtype."""
        other = copy.copy(self)
        other.variables = {name: value.to(dtype) for name, value in self.variables.items()}
        return other

    def __call__(self, *values, backend=None, **options):
        named = dict(zip(self.variables, values or self.variables.values(), strict=True))
        return quadratic_cost(**named, **{"cost": self.cost, **self.options, "backend": backend, **options})

    def leaves(self):
        return [value.clone().requires_grad_() for value in self.variables.values()]


def by_definition(case: CostCase) -> np.ndarray:
    """The formula of `CostTerm` in numpy."""
    options = {name: value for name, value in case.options.items() if name != "control_map"}
    action, *others = case.variables.items()
    trajectory = case.kernel.step(action[1], **dict(others), **options)
    total = np.zeros(case.shape[0])
    for output, term in zip(trajectory, case.cost.outputs, strict=True):
        none = CostTerm(weight=0.0, target=0.0, terminal_weight=0.0, limit_weight=0.0, lower=-np.inf, upper=np.inf)
        parts = (zero if part is None else part.numpy() for part, zero in zip(term, none, strict=True))
        weight, target, terminal, limit, lower, upper = parts
        x = output.numpy()
        squared = (x - target) ** 2
        outside = np.maximum(0, x - upper) ** 2 + np.maximum(0, lower - x) ** 2
        total += (weight * squared + limit * outside).sum((1, 2)) + (terminal * squared[:, -1]).sum(1)
    return total


def values_and_gradients(case, backend):
    leaves = case.leaves()
    cost = case(*leaves, backend=backend)
    weights = torch.linspace(0.5, 2.0, cost.shape[0], dtype=cost.dtype)
    return cost.detach(), *torch.autograd.grad(cost, leaves, weights)


@NATIVE
@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(list(KERNELS)),
    batch=st.integers(0, 9),
    horizon=st.integers(1, 40),
    dof=st.integers(1, 10),
    dims=st.integers(1, 3),
    start=st.sampled_from(["own", "one", "pool"]),
    has_goal=st.booleans(),
    single=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_fused_is_the_reference_and_both_are_the_definition_for_any_size(
    name, batch, horizon, dof, dims, start, has_goal, single, seed
):
    case = CostCase(KERNELS[name], batch, horizon, dof, seed, start, dims=dims, has_goal=has_goal)
    case = case.to(torch.float32) if single else case
    tolerance = 2e-6 if single else 1e-11
    exact = values_and_gradients(case.to(torch.float64), Backend.REFERENCE)
    np.testing.assert_allclose(exact[0].numpy(), by_definition(case.to(torch.float64)), rtol=1e-9, atol=1e-12)
    for result, want in zip(values_and_gradients(case, None), exact, strict=True):
        assert result.shape == want.shape
        assert (result.double() - want).norm() <= tolerance * want.norm() + 1e-30


@MAP
def test_gradients_agree_to_the_second_order_also_in_batches(kernel):
    case = CostCase(kernel, batch=2, horizon=3, dof=2, has_goal=True)
    leaves = case.leaves()
    assert gradcheck(case, leaves, fast_mode=True)
    assert gradgradcheck(case, leaves)  # in fast mode, one random direction in 60 cancels and seems wrong
    cost = case(*leaves)
    together = torch.autograd.grad(cost, leaves, torch.eye(2).double(), is_grads_batched=True, retain_graph=True)
    for row in range(2):
        for batched, alone in zip(together, torch.autograd.grad(cost[row], leaves, retain_graph=True), strict=True):
            torch.testing.assert_close(batched[row], alone)


@SIGNATURE
def test_gradients_of_dt_weights_targets_and_limits(kernel):
    case = CostCase(kernel, batch=2, horizon=3)
    dt = torch.full((2, 1), 0.3, dtype=torch.float64, requires_grad=True)
    learned, terms = tree_flatten(tuple(case.cost.outputs))

    def of(dt, *parts):
        return case(cost=QuadraticCost(*tree_unflatten(parts, terms)), dt=dt)

    parts = [part if part is None else part.requires_grad_() for part in learned]
    assert gradcheck(of, (dt, *parts), fast_mode=True)


def test_joints_without_a_limit_have_infinite_ones():
    case = CostCase(MAPS["velocity"])
    term = CostTerm(limit_weight=1.0, lower=torch.tensor([-math.inf, 100.0]), upper=math.inf)
    leaves = case.leaves()
    cost = case(*leaves, cost=QuadraticCost(position=term))
    gradients = torch.autograd.grad(cost.sum(), leaves)
    assert (cost > 0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert gradients[1][:, 0].abs().sum() == 0


@NATIVE
def test_not_a_number_is_never_hidden():
    case = CostCase(MAPS["clique"])
    case.variables["action"][0, 1, 0] = math.nan
    assert case(**of_positions(limit_weight=1.0, upper=1e9)).isnan().tolist() == [True, False]


def test_a_gradient_after_a_change_of_the_actions_raises():
    case = CostCase(MAPS["clique"])
    leaves = case.leaves()
    action = leaves[0] * 1
    cost = case(action, *leaves[1:])
    action.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(cost.sum(), leaves)


def of_positions(**term):
    return {"cost": QuadraticCost(position=CostTerm(**term))}


ROW, ROWS = torch.zeros(1, 2), "expected a number or one of the shapes"
MISUSES = [
    ("clique", of_positions(weight=torch.ones(3)), ValueError, rf"position\.weight: {ROWS} \[2\], "),
    ("clique", of_positions(weight=torch.ones(2, 5, 2)), ValueError, r"position\.weight: .* got \[2, 5, 2\]"),
    ("clique", of_positions(weight="1"), TypeError, r"position\.weight: expected a number or a tensor, got str"),
    ("clique", of_positions(weight=torch.ones(2).long()), TypeError, r"position\.weight: .* got torch\.int64"),
    ("clique", of_positions(terminal_weight=torch.ones(4, 2)), ValueError, r"terminal_weight: .* got \[4, 2\]"),
    ("clique", of_positions(target=1.0), ValueError, r"target: expected a weight or a terminal_weight with it"),
    ("clique", of_positions(limit_weight=1.0), ValueError, r"limit_weight: expected lower or upper with it"),
    ("jerk", {"cost": QuadraticCost(duration_weight=torch.ones(3))}, ValueError, rf"duration_weight: {ROWS} \[2\],"),
    ("jerk", {"cost": QuadraticCost(duration_weight="1")}, TypeError, "duration_weight: .* got str"),
    ("velocity", {"goal_position": ROW}, ValueError, "goal_position: expected None, because velocity takes none"),
    ("clique", {"goal_velocity": ROW}, ValueError, "goal_velocity: expected None, because clique takes none"),
    ("clique", {"start_jerk": ROW}, ValueError, "start_jerk: expected None, because clique takes none"),
    ("jerk", {"goal_index": ROW[0].long()}, ValueError, "goal_index: expected None, because jerk takes no goal"),
    ("clique", {"control_map": "position"}, ValueError, "control_map: expected a ControlMap or one of clique, "),
    ("clique", {"dt": -1.0}, ValueError, "dt: expected a finite number of seconds > 0, got -1.0"),
]


@pytest.mark.parametrize(("name", "options", "error", "message"), MISUSES)
def test_misuse_is_named(name, options, error, message):
    with pytest.raises(error, match=message):
        CostCase(MAPS[name])(**options)


@NATIVE
def test_rows_that_are_not_in_the_pool_raise():
    case = CostCase(MAPS["clique"], batch=4, start="pool")
    with pytest.raises(IndexError, match="start_index"):
        case(start_index=torch.tensor([0, 1, 2, 3]))


@MAP
@pytest.mark.parametrize("per_step", [False, True], ids=["one dt", "dt of each step"])
def test_the_duration_lasts_from_the_start_to_the_last_row(kernel, per_step):
    if per_step and kernel.uniform_dt_only:
        pytest.skip("the map takes one step length")
    case = CostCase(kernel)
    dt = (0.1 + case.normal(2, 4 if per_step else 1).square()).requires_grad_()
    weight = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    added = case(dt=dt, cost=case.cost._replace(duration_weight=weight)) - case(dt=dt)
    rows = kernel.output_horizon(4) - kernel.start_row
    times = dt[:, 1:].sum(1) if per_step else dt[:, 0] * (rows - 1)
    torch.testing.assert_close(added, weight * times)
    found = torch.autograd.grad(added.sum(), [dt, weight])
    for got, wanted in zip(found, torch.autograd.grad((weight * times).sum(), [dt, weight]), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-6)
    assert case(dt=0.1, cost=QuadraticCost(duration_weight=2.0)).tolist() == pytest.approx([0.2 * (rows - 1)] * 2)


def test_violations_are_signed_distances():
    case = CostCase(MAPS["velocity"], batch=3, horizon=6)
    bound = case.normal(2).abs()
    limits = QuadraticCost(
        velocity=CostTerm(lower=-bound, upper=bound), acceleration=CostTerm(upper=0.3), jerk=CostTerm(weight=1.0)
    )
    trajectory = case.kernel.step(case.variables["action"], case.variables["start_position"], dt=0.3)
    found = limit_violations(trajectory, limits)
    for without in (found.position, found.jerk):
        assert without.shape == case.shape
        assert (without == -math.inf).all()
    torch.testing.assert_close(found.velocity, trajectory.velocity.abs() - bound)
    torch.testing.assert_close(found.acceleration, trajectory.acceleration - 0.3)
    assert not case(cost=limits._replace(jerk=CostTerm())).any()  # limits without a weight cost nothing

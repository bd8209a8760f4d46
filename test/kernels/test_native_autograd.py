"""Derivatives through the C++ loops, and the fast path that the public functions take to them."""

from __future__ import annotations

import gc

import pytest
import torch
from operator_cases import SIGNATURE
from torch.autograd import forward_ad

from traj_integrator_ros.kernels import MAPS, bspline_step, clique_central_step, clique_step

try:
    from traj_integrator_ros.kernels import native
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)

MAP = pytest.mark.parametrize("kernel", MAPS.values(), ids=MAPS)


def leaves(batch=3, horizon=6, dof=2, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = [(batch, horizon, dof), (batch, dof), (batch, dof), (batch, dof)]
    return [torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]


def takes_the_fast_path(output: torch.Tensor) -> bool:
    return output.grad_fn.name() == "_StepBackward"


@MAP
def test_the_public_functions_record_one_node_of_their_own(kernel):
    trajectory = kernel.step(*leaves(), dt=0.1)
    assert type(trajectory).__name__ == "Trajectory"
    assert all(takes_the_fast_path(output) for output in trajectory)


@SIGNATURE
def test_derivatives_match_finite_differences(kernel):
    """By gradcheck, in its batched and mixed modes, too: test_operators_derivatives.py has every map and shape."""
    def step(*inputs):
        return tuple(kernel.step(*inputs, dt=0.5))

    inputs = leaves(horizon=2)
    assert torch.autograd.gradcheck(step, inputs, check_batched_grad=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(step, inputs, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(
        step, inputs, check_fwd_over_rev=True, check_rev_over_rev=False, check_undefined_grad=False
    )


def test_double_backward_of_the_truncated_gradient_is_its_own_vjp():
    def vjp(*weights):
        inputs = leaves()
        trajectory = clique_central_step(*inputs, dt=0.5, truncate_terminal_gradient=True)
        return torch.autograd.grad(trajectory, inputs, weights, create_graph=True)

    weights = [torch.randn(3, 10, 2, dtype=torch.float64, requires_grad=True) for _ in range(4)]
    assert torch.autograd.gradcheck(vjp, weights)


@SIGNATURE
def test_forward_and_backward_from_one_output_touch_the_others_not(kernel):
    """None upstream gradients stay None: a gradient by one output equals one with zeros for the others."""
    inputs = leaves()
    for name in ("position", "velocity", "acceleration", "jerk"):
        trajectory = kernel.step(*inputs, dt=0.1)
        weight = torch.randn_like(getattr(trajectory, name))
        alone = torch.autograd.grad(getattr(trajectory, name), inputs, weight, retain_graph=True)
        zeros = {field: torch.zeros_like(output) for field, output in trajectory._asdict().items()}
        together = torch.autograd.grad(trajectory, inputs, list({**zeros, name: weight}.values()))
        for a, b in zip(alone, together, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


def test_saved_tensor_hooks_see_what_is_saved():
    seen = []
    index = torch.tensor([0, 1, 0])
    with torch.autograd.graph.saved_tensors_hooks(lambda x: seen.append(x.shape) or x, lambda x: x):
        clique_step(*leaves(), dt=torch.tensor(0.1), start_index=index)
    assert torch.Size([1, 1]) in seen and torch.Size([3]) in seen


def test_step_lengths_overwritten_before_the_backward_raise():
    dt = torch.full((6,), 0.1, dtype=torch.float64)
    trajectory = clique_step(*leaves(), dt=dt)
    dt.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        trajectory.jerk.sum().backward()


def test_node_hooks_run():
    calls = []
    trajectory = clique_step(*leaves(), dt=0.1)
    trajectory.jerk.grad_fn.register_hook(lambda *_: calls.append("node"))
    trajectory.velocity.sum().backward()
    assert calls == ["node"]


class Tagged(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "change",
    [
        lambda inputs: {"dt": torch.tensor(0.1, dtype=torch.float64, requires_grad=True)},
        lambda inputs: {"action": inputs["action"].detach().as_subclass(Tagged).requires_grad_()},
        lambda inputs: {"backend": "reference"},
        lambda inputs: {"action": inputs["action"].half(), "start_position": inputs["start_position"].half()},
        lambda inputs: {"start_velocity": inputs["start_position"][:1]},
    ],
    ids=["gradient of dt", "subclass", "another backend", "half precision", "rows to be repeated"],
)
def test_calls_out_of_the_ordinary_are_computed_by_the_operator(change):
    action, position, *_ = leaves()
    inputs = {"action": action, "start_position": position, "dt": 0.1}
    assert takes_the_fast_path(clique_step(**inputs).jerk)
    changed = {**inputs, **change(inputs)}
    assert not takes_the_fast_path(clique_step(**changed).jerk)


def test_transforms_and_tracers_see_the_general_operator():
    action, position, *_ = (x.detach() for x in leaves())
    fast = native.FastMap(MAPS["clique"].operator, ())

    def takes_it(x):
        return fast.step(x, (position, None, None), None, (), None, 0.1, "step") is not None

    assert takes_it(action)

    seen = []
    torch.func.vmap(lambda x: seen.append(takes_it(x)) or x)(action[None])
    torch.func.grad(lambda x: seen.append(takes_it(x)) or x.sum())(action)
    torch.func.functionalize(lambda x: seen.append(takes_it(x)) or x)(action)
    with forward_ad.dual_level():
        seen.append(takes_it(forward_ad.make_dual(action, action)))
    with torch._subclasses.FakeTensorMode():
        seen.append(takes_it(torch.empty(3, 6, 2, dtype=torch.float64)))
    torch.fx.experimental.proxy_tensor.make_fx(lambda x: seen.append(takes_it(x)) or x * 2)(action)
    torch.jit.trace(lambda x: seen.append(takes_it(x)) or x * 2, action, check_trace=False)
    assert seen and not any(seen), seen


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of objects that isinstance looks at
def test_a_loop_of_steps_leaves_no_tensors_behind():
    def living() -> int:
        gc.collect()
        return sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())

    action, position, *_ = leaves(dtype=torch.float32)
    counts = []
    for _ in range(2):
        for _ in range(30):
            clique_step(action, position, dt=0.1).jerk.sum().backward()
        counts.append(living())
    assert counts[1] - counts[0] < 30, "a tensor for each step"  # fewer: leftovers of earlier tests are freed meanwhile


SPLINE = {
    "control_points": torch.zeros(3, 6, 2),
    "start_position": torch.zeros(3, 2),
    "goal_position": torch.zeros(1, 2),
    "dt": 0.1,
}


@pytest.mark.parametrize(("degree", "layout"), [(3, "tight"), (5, "curobo")])
def test_splines_to_a_goal_take_the_fast_path_and_it_records_what_the_operator_does(degree, layout):
    points, *rows = leaves()
    pool = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([2, 0, 2])
    options = {"goal_position": pool, "goal_index": index, "dt": 0.1, "degree": degree, "layout": layout}
    inputs = (points, *rows, pool)

    def derivatives(trajectory):
        first = torch.autograd.grad(sum(x.pow(3).sum() for x in trajectory), inputs, create_graph=True)
        return *first, *torch.autograd.grad(sum(x.pow(2).sum() for x in first), inputs)

    fast = bspline_step(points, *rows, **options)
    general = bspline_step(points, *rows, **options, backend="native")
    assert all(takes_the_fast_path(output) for output in fast)
    assert not any(takes_the_fast_path(output) for output in general)
    for a, b in zip(fast, general, strict=True):
        assert torch.equal(a, b)
    for a, b in zip(derivatives(fast), derivatives(general), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=0)


def test_splines_with_anything_out_of_the_ordinary_go_the_general_way():
    ordinary = {name: value.double() if name != "dt" else value for name, value in SPLINE.items()}
    ordinary["control_points"].requires_grad_()
    assert takes_the_fast_path(bspline_step(**ordinary).jerk)
    for change in (
        {"dt": torch.tensor(0.1, dtype=torch.float64, requires_grad=True)},
        {"control_points": ordinary["control_points"].detach().as_subclass(Tagged).requires_grad_()},
        {"start_velocity": torch.zeros(1, 2, dtype=torch.float64)},
        {"backend": "reference"},
    ):
        assert not takes_the_fast_path(bspline_step(**{**ordinary, **change}).jerk), change

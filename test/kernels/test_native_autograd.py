"""The fast path of the public functions to the C++ loops; test_operators_*.py test its derivatives, too."""

from __future__ import annotations

import dataclasses
import gc

import pytest
import torch
from operator_cases import MAP, Case, assert_all_close, cost
from torch.autograd import forward_ad

from traj_integrator_ros.kernels import MAPS, bspline_step, clique_step, control_map

try:
    from traj_integrator_ros.kernels import native
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)


def leaves(dtype=torch.float64):
    values = Case(MAPS["clique"], batch=3, horizon=6, dt="number").tensors.values()
    return [value.to(dtype).requires_grad_() for value in values]


def takes_the_fast_path(output: torch.Tensor) -> bool:
    return output.grad_fn.name() == "_StepBackward"


@MAP
@pytest.mark.parametrize(("ends", "dt"), [("own", "number"), ("pool", "number"), ("one", "[B, 1]"), ("own", "[H]")])
def test_the_fast_path_records_what_the_operator_does(kernel, ends, dt):
    """Outputs to the last bit, and first derivatives; test_operators_derivatives.py has all others of both."""
    options = {"truncate_terminal_gradient": True} if kernel.operator.truncates else {}
    dt = "scalar" if kernel.uniform_dt_only and dt == "[H]" else dt
    case = Case(kernel, batch=3, horizon=6, dt=dt, start=ends)
    if kernel.operator.goals and ends == "pool":
        case = dataclasses.replace(case, kernel=control_map(kernel, bspline_degree=5), goal="pool", absent=())
    inputs = case.leaves()
    fast, general = case.step(*inputs, **options), case.step(*inputs, **options, backend="native")
    assert type(fast).__name__ == "Trajectory"
    for a, b in zip(fast, general, strict=True):
        assert takes_the_fast_path(a) and not takes_the_fast_path(b)
        assert torch.equal(a, b)
    found, wanted = (torch.autograd.grad(cost(outputs), inputs) for outputs in (fast, general))
    assert_all_close(found, wanted, 1e-11)


@MAP
def test_vjp_calls_the_loops_without_an_operator(kernel, monkeypatch):
    action, position, *_ = (x.detach() for x in leaves())
    dt = torch.tensor([[0.1]], dtype=torch.float64)
    upstream = list(kernel.step(action, position, dt=dt))
    monkeypatch.setattr(kernel.operator, "vjp", None)
    assert kernel.vjp(upstream, dt=dt, action_horizon=6, start_rows=3)[0].shape == action.shape


class Tagged(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "change",
    [
        lambda inputs: {"start_position": inputs["start_position"].detach().as_subclass(Tagged).requires_grad_()},
        lambda inputs: {"backend": "reference"},
        lambda inputs: {name: value if name == "dt" else value.half() for name, value in inputs.items()},
        lambda inputs: {"start_velocity": inputs["start_position"][:1]},
    ],
    ids=["subclass", "another backend", "half precision", "rows to be repeated"],
)
@pytest.mark.parametrize("step", [clique_step, bspline_step])
def test_calls_out_of_the_ordinary_are_computed_by_the_operator(step, change):
    action, position, *_ = leaves()
    first = "action" if step is clique_step else "control_points"
    inputs = {first: action, "start_position": position, "dt": 0.1}
    if step is bspline_step:
        inputs["goal_position"] = torch.zeros(1, 2, dtype=torch.float64)
    assert takes_the_fast_path(step(**inputs).jerk)
    assert not takes_the_fast_path(step(**{**inputs, **change(inputs)}).jerk)


def test_transforms_and_tracers_see_the_general_operator():
    action, position, *_ = (x.detach() for x in leaves())
    fast = native.FastMap(MAPS["clique"].operator, ())

    def takes_it(x):
        return fast.step((x, position), (None, None), 0.1, "step") is not None

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


@pytest.mark.filterwarnings("ignore::FutureWarning")  # from objects that isinstance examines
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
    # fewer, because leftovers of earlier tests are freed meanwhile
    assert counts[1] - counts[0] < 30, "a tensor for each step"

"""Derivatives of the operators in every mode and order, against finite differences and against loops."""

from __future__ import annotations

import dataclasses

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import (
    BACKEND,
    CPU_BACKENDS,
    OPERATOR,
    POOL,
    SIGNATURE,
    STATE,
    assert_all_close,
    cases,
    cost,
    signature_case,
    weights_like,
)
from torch.autograd import gradcheck, gradgradcheck

from traj_integrator_ros.kernels import MAPS, ControlSpace


@OPERATOR
@settings(max_examples=8)
@given(data=st.data())
def test_derivatives_are_finite_differences_however_the_map_is_called(kernel, data):
    """Any inputs in any form, any backend, splines of any form."""
    sizes = {"batch": st.integers(1, 3), "horizon": st.integers(1, 9), "dof": st.integers(1, 2)}
    case = data.draw(cases(kernel, **sizes))
    values = list(case.tensors.values())
    wanted = sorted(data.draw(st.sets(st.sampled_from(range(len(values))), min_size=1), "inputs that require grad"))
    backend = data.draw(st.sampled_from(CPU_BACKENDS), "backend")

    def step(*changed):
        places = {**dict(enumerate(values)), **dict(zip(wanted, changed, strict=True))}
        return tuple(case.step(*places.values(), backend=backend))

    assert_derivatives(step, [values[k] for k in wanted])


def assert_derivatives(f, inputs):
    """First and second derivatives along one direction, in every mode, against central differences."""
    directions = [torch.arange(x.numel(), dtype=x.dtype).add(k).cos().view(x.shape) for k, x in enumerate(inputs)]
    h = 1e-5

    def quotient(g):
        ends = [g(*(x + sign * h * d for x, d in zip(inputs, directions, strict=True))) for sign in (1, -1)]
        return [(high - low) / (2 * h) for high, low in zip(*ends, strict=True)]

    def gradient(*x, create_graph=False):
        x = [t if t.requires_grad else t.requires_grad_() for t in x]
        value = cost(f(*x))
        return torch.autograd.grad(value, x, create_graph=create_graph, materialize_grads=True), x

    def close(got, wanted):
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6 * max(float(b.abs().max()), 1.0))

    _, tangents = torch.func.jvp(f, tuple(inputs), tuple(directions))
    close(tangents, quotient(f))
    first, leaves = gradient(*(x.clone() for x in inputs), create_graph=True)
    along = sum((g * d).sum() for g, d in zip(first, directions, strict=True))
    close([along], quotient(lambda *x: [cost(f(*x))]))
    second = quotient(lambda *x: gradient(*x)[0])
    close(torch.autograd.grad(along, leaves, materialize_grads=True), second)
    of_gradient = torch.func.grad(lambda *x: cost(f(*x)), argnums=tuple(range(len(inputs))))
    close(torch.func.jvp(of_gradient, tuple(inputs), tuple(directions))[1], second)


@BACKEND
def test_a_truncated_terminal_gradient_leaves_position_gradients(backend):
    case = signature_case(MAPS["clique_central"], horizon=3, dof=1)
    whole, cut = (case.function(backend=backend, truncate_terminal_gradient=cuts) for cuts in (False, True))
    action, *_ = inputs = case.leaves()
    plain = case.values
    for place, (a, b) in enumerate(zip(whole(*inputs), cut(*inputs), strict=True)):
        assert torch.equal(a, b)
        (full,) = torch.autograd.grad(a.pow(2).sum(), action, retain_graph=True)
        (rest,) = torch.autograd.grad(b.pow(2).sum(), action, retain_graph=True, allow_unused=True)
        assert torch.equal(full[:, :-1], rest[:, :-1])
        assert torch.equal(rest[:, -1], full[:, -1] if place == 0 else torch.zeros_like(rest[:, -1]))
    assert gradgradcheck(cut, inputs)
    jvp, of_cut = (torch.func.jvp(step, tuple(plain), tuple(plain))[1] for step in (whole, cut))
    assert_all_close(of_cut, jvp)


@SIGNATURE
def test_third_derivatives(kernel):
    """Compared with the central difference of the second derivative by dt."""
    case = signature_case(kernel, batch=1, horizon=3, dof=1)
    dt = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def derivative(dt, order):
        value = cost(case.step(*case.values[:-1], dt))
        for _ in range(order):
            (value,) = torch.autograd.grad(value, dt, create_graph=True)
        return value

    h = 1e-5
    numeric = (derivative(dt + h, 2) - derivative(dt - h, 2)) / (2 * h)
    torch.testing.assert_close(derivative(dt, 3), numeric, rtol=1e-6, atol=1e-6)


@SIGNATURE
def test_jacobians_and_hessians_by_either_mode_agree_with_rows(kernel):
    """Without grad mode the loops would compute, so they must recognize the tensors of a transform."""
    case = signature_case(kernel, horizon=3, dof=1)
    inputs, f = case.values, case.function()
    every, modes = tuple(range(len(inputs))), (torch.func.jacrev, torch.func.jacfwd)
    jacobian = torch.autograd.functional.jacobian(f, tuple(inputs))
    hessian = torch.autograd.functional.hessian(lambda *x: cost(f(*x)), tuple(inputs))
    with torch.no_grad():
        for inner in modes:
            for got, want in zip(inner(f, argnums=every)(*inputs), jacobian, strict=True):
                assert_all_close(got, want)
            for outer in modes:
                twice = outer(inner(lambda *x: cost(f(*x)), argnums=every), argnums=every)(*inputs)
                for got, want in zip(twice, hessian, strict=True):
                    assert_all_close(got, want)


@SIGNATURE
@settings(max_examples=15)
@given(data=st.data())
def test_vmap_equals_a_loop(kernel, data):
    """Outputs and a gradient, for any arguments, with start, goal and dt in any form."""
    case = data.draw(cases(kernel, batch=st.just(3), horizon=st.just(4), dof=st.just(2)))
    indices = {name: index for name, index in case.fixed.items() if name.endswith("_index")}
    count, places = len(case.tensors), [min(1, x.dim()) for x in case.tensors.values()] + [0] * len(indices)
    stacks = [torch.stack([x, 2 * x, x / 3], place) for x, place in zip(case.tensors.values(), places, strict=False)]
    stacks += [torch.stack([index, index.flip(0), (index + 1) % POOL]) for index in indices.values()]
    mapped = data.draw(st.sets(st.sampled_from(range(len(stacks))), min_size=1), "mapped")
    of = data.draw(st.sampled_from((None, *range(count))), "gradient of")

    def step(*values):
        return tuple(case.step(*values[:count], **dict(zip(indices, values[count:], strict=True))))

    def inputs_of(k):
        return [
            x.select(place, k if i in mapped else 0) for i, (x, place) in enumerate(zip(stacks, places, strict=True))
        ]

    f = step if of is None else lambda *x: [torch.func.grad(lambda *x: cost(step(*x)), argnums=of)(*x)]
    in_dims = tuple(place if i in mapped else None for i, place in enumerate(places))
    got = torch.vmap(f, in_dims)(*(stacks[i] if i in mapped else x for i, x in enumerate(inputs_of(0))))
    loop = [f(*inputs_of(k)) for k in range(3)]
    assert_all_close(got, [torch.stack(outputs) for outputs in zip(*loop, strict=True)])


@OPERATOR
@settings(max_examples=20)
@given(data=st.data())
def test_vjp_is_the_vector_jacobian_product(kernel, data):
    """With start, goal, mask and dt in any form, for any outputs and arguments."""
    case = data.draw(cases(kernel, batch=st.integers(1, 4), horizon=st.integers(2, 6), dof=st.integers(1, 2)))
    case = dataclasses.replace(case, single=())
    given = data.draw(st.sets(st.integers(0, 3), min_size=1), "outputs with a gradient")
    outputs = case.step(*(inputs := case.leaves()))
    upstream = [w if i in given else None for i, w in enumerate(weights_like(outputs))]
    zeros = [torch.zeros_like(output) if one is None else one for output, one in zip(outputs, upstream, strict=True)]
    found = torch.autograd.grad(outputs, inputs, zeros, allow_unused=True, materialize_grads=True)
    expected = dict(zip(case.tensors, found, strict=True))
    names = ["action", *(f"start_{kind}" for kind in STATE[:3])]
    names += [f"goal_{kind}" for kind in kernel.goal] if case.goal else []
    needs = data.draw(st.tuples(*[st.booleans()] * len(names)).filter(any), "needs")
    counts = {f"{end}_rows": len(case.tensors[f"{end}_position"]) for end in ("start", "goal")[: 1 + bool(case.goal)]}
    options = {"dt": case.tensors.get("dt"), "action_horizon": case.horizon, **counts, **case.fixed}
    got = case.kernel.vjp(upstream, **options, needs=needs)
    for name, need, gradient in zip(names, needs, got, strict=True):
        assert (gradient is not None) == need
        if need and name in expected:
            torch.testing.assert_close(gradient, expected[name], rtol=1e-9, atol=1e-9)


@SIGNATURE
def test_vjp_runs_no_forward_pass(kernel, backend_calls):
    upstream = weights_like(signature_case(kernel).step())
    kernel.vjp(upstream, dt=0.1, action_horizon=4, start_rows=2, backend="reference")
    assert [direction for direction, _ in backend_calls] == ["vjp"]


@SIGNATURE
def test_vjp_is_differentiable_in_the_upstream_gradient_and_in_dt(kernel):
    case = signature_case(kernel, horizon=3, dof=1)
    upstream = [weight.requires_grad_() for weight in weights_like(case.step())]

    def vjp(*arguments):
        *upstream, dt = arguments
        return kernel.vjp(upstream, dt=dt, action_horizon=3, start_rows=2)

    fast = kernel.control_space is ControlSpace.BSPLINE
    assert gradcheck(vjp, [*upstream, case.leaves()[-1]], check_forward_ad=True, fast_mode=fast)


@SIGNATURE
@BACKEND
def test_the_gradient_of_dt_in_half_precision_is_of_rounded_numbers(kernel, backend):
    """The loops in C++ do not compute these."""
    case, gradients = signature_case(kernel), []
    weights = [weight.bfloat16() for weight in weights_like(case.step())]
    for dtype in (torch.bfloat16, torch.float64):
        inputs, leaf = [x.bfloat16().to(dtype) for x in case.values[:-1]], case.values[-1].float().requires_grad_()
        outputs = case.step(*inputs, leaf, backend=backend)
        gradients += torch.autograd.grad(outputs, leaf, [weight.to(dtype) for weight in weights])
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3 * float(gradients[1].abs().max()))

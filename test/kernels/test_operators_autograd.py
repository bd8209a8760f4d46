"""The operators keep autograd's contract: what is asked is computed and no more, hooks fire, stale data raises."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from operator_cases import (
    BACKEND,
    MAP,
    NAMES,
    SIGNATURE,
    assert_all_close,
    cost,
    function,
    launches,  # noqa: F401  a fixture
    leaves,
    random_inputs,
    weights_like,
)

from traj_integrator_ros.kernels import MAPS, Backend, clique_central_step

REFERENCE = Backend.REFERENCE


def gradients(kernel, backend=None, inputs=None, **options):
    inputs = leaves(kernel) if inputs is None else inputs
    return torch.autograd.grad(cost(function(kernel, backend, **options)(*inputs)), inputs)


# What is computed


@SIGNATURE
@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (3,), (0, 3), (1, 2, 3)], ids=str)
def test_only_the_gradients_asked_for_are_computed(kernel, launches, wanted):  # noqa: F811
    inputs = [x.requires_grad_(i in wanted) for i, x in enumerate(random_inputs(kernel))]
    outputs = function(kernel, REFERENCE)(*inputs)
    assert [launch.direction for launch in launches] == ["forward"]
    torch.autograd.grad(outputs, [inputs[i] for i in wanted], weights_like(outputs))
    (vjp,) = launches[1:]
    assert vjp.direction == "vjp"
    assert vjp.needs[:4] == tuple(i in wanted for i in range(4))


@SIGNATURE
@pytest.mark.parametrize("used", range(4))
def test_outputs_without_a_gradient_reach_the_backend_as_none(kernel, launches, used):  # noqa: F811
    inputs = leaves(kernel)
    output = function(kernel, REFERENCE)(*inputs)[used]
    torch.autograd.grad(output, inputs[0], weights_like([output])[0])
    assert launches[-1].upstream == tuple(i == used for i in range(4))


@SIGNATURE
@BACKEND
@pytest.mark.parametrize("used", range(4))
def test_outputs_without_a_gradient_count_as_zero(kernel, backend, used):
    inputs = leaves(kernel)
    outputs = function(kernel, backend)(*inputs)
    weight = weights_like(outputs)[used]
    alone = torch.autograd.grad(outputs[used], inputs, weight, retain_graph=True)
    zeros = [weight if i == used else torch.zeros_like(weight) for i in range(4)]
    assert_all_close(alone, torch.autograd.grad(outputs, inputs, zeros))


@SIGNATURE
def test_no_vjp_runs_where_dt_alone_requires_grad(kernel, launches):  # noqa: F811
    *inputs, dt = random_inputs(kernel)
    value = cost(function(kernel, REFERENCE)(*inputs, dt.requires_grad_()))
    torch.autograd.grad(value, dt)
    assert [launch.direction for launch in launches] == ["forward"]


@SIGNATURE
def test_double_backward_is_the_forward_map_again(kernel, launches):  # noqa: F811
    action, *rest = random_inputs(kernel)
    outputs = function(kernel, REFERENCE)(action.requires_grad_(), *rest)
    upstream = [weight.requires_grad_() for weight in weights_like(outputs)]
    (gradient,) = torch.autograd.grad(outputs, action, upstream, create_graph=True)
    tangent = weights_like([action])[0]
    again = torch.autograd.grad(gradient, upstream, tangent)
    assert [launch.direction for launch in launches] == ["forward", "vjp", "forward"]
    zero = [torch.zeros_like(x) for x in rest[:3]]
    assert_all_close(again, function(kernel, REFERENCE)(tangent, *zero, rest[3]))


@SIGNATURE
@BACKEND
def test_without_requires_grad_there_is_no_graph(kernel, backend):
    assert not any(output.requires_grad for output in function(kernel, backend)(*random_inputs(kernel)))
    with torch.no_grad():
        assert not any(output.requires_grad for output in function(kernel, backend)(*leaves(kernel)))
    with torch.inference_mode():
        assert all(output.is_inference() for output in function(kernel, backend)(*random_inputs(kernel)))


@SIGNATURE
@BACKEND
def test_actions_are_saved_for_the_gradient_of_dt_alone(kernel, backend):
    """A graph without dt holds the step lengths and no activation."""
    for wants_dt in (False, True):
        leaf, *rest = random_inputs(kernel)
        action = leaf.requires_grad_() * 2
        rest[3].requires_grad_(wants_dt)
        outputs = function(kernel, backend)(action, *rest)
        held = weakref.ref(action)
        del action
        gc.collect()
        assert (held() is not None) == wants_dt, outputs[0].grad_fn


# Layouts


@SIGNATURE
@BACKEND
def test_inputs_and_gradients_of_any_strides(kernel, backend):
    plain = leaves(kernel, batch=3, horizon=4, dof=3)
    strange = [
        plain[0].detach().permute(2, 1, 0).contiguous().permute(2, 1, 0).requires_grad_(),
        plain[1].detach().repeat(1, 2)[:, ::2].copy_(plain[1].detach()).requires_grad_(),
        plain[2].detach().t().contiguous().t().requires_grad_(),
        plain[3],
        plain[4].detach().t().contiguous().t().requires_grad_(),
    ]
    assert not strange[0].is_contiguous()
    f = function(kernel, backend)
    outputs, expected = f(*strange), f(*plain)
    assert_all_close(outputs, expected)
    assert all(output.is_contiguous() for output in outputs)
    weights = [w.permute(1, 2, 0).contiguous().permute(2, 0, 1) for w in weights_like(outputs)]
    assert not weights[0].is_contiguous()
    got = torch.autograd.grad(outputs, strange, weights)
    assert_all_close(got, torch.autograd.grad(expected, plain, [w.contiguous() for w in weights]))


@SIGNATURE
@BACKEND
def test_expanded_inputs_and_expanded_gradients(kernel, backend):
    small = leaves(kernel, batch=1)
    f = function(kernel, backend)
    outputs = f(small[0].expand(3, -1, -1), *(x.expand(3, -1) for x in small[1:4]), small[4])
    got = torch.autograd.grad([output.sum() for output in outputs], small)  # sum: a gradient of strides 0
    whole = f(*small)
    assert_all_close(got, torch.autograd.grad([3 * output.sum() for output in whole], small))


@SIGNATURE
@BACKEND
def test_one_start_row_for_all_collects_the_gradient_of_all(kernel, backend):
    action, *start, dt = leaves(kernel, batch=3)
    row = start[1].detach()[:1].requires_grad_()
    f = function(kernel, backend)
    (one,) = torch.autograd.grad(cost(f(action, start[0], row, start[2], dt)), row)
    (each,) = torch.autograd.grad(cost(f(action, start[0], (rows := row.expand(3, -1)), start[2], dt)), rows)
    assert_all_close([one], [each.sum(0, keepdim=True)])


@SIGNATURE
def test_gradients_of_a_start_pool_are_the_same_on_every_run(kernel):
    generator = torch.Generator().manual_seed(3)
    action = torch.randn(300, 6, 7, generator=generator)
    pool = torch.randn(4, 7, generator=generator, requires_grad=True)
    index = torch.randint(0, 4, (300,), generator=generator)

    def gradient():
        outputs = kernel.step(action, pool, pool, pool, dt=0.02, start_index=index)
        return torch.autograd.grad([output.sum() for output in outputs], pool)[0]

    first = gradient()
    assert all(torch.equal(first, gradient()) for _ in range(5))


# torch.autograd.grad and backward


@SIGNATURE
@BACKEND
def test_allow_unused_retain_graph_and_create_graph(kernel, backend):
    inputs, stranger = leaves(kernel), torch.ones(2, requires_grad=True)
    value = cost(function(kernel, backend)(*inputs))
    first = torch.autograd.grad(value, [*inputs, stranger], allow_unused=True, retain_graph=True)
    assert first[-1] is None
    second = torch.autograd.grad(value, inputs, create_graph=True)
    assert_all_close(first[:-1], second)
    assert all(gradient.requires_grad for gradient in second)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(value, stranger, retain_graph=True)
    torch.autograd.grad(value, inputs)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(value, inputs)


@SIGNATURE
@BACKEND
def test_backward_accumulates_and_works_under_no_grad_and_in_another_thread(kernel, backend):
    expected = gradients(kernel, backend)
    inputs = leaves(kernel)
    with torch.no_grad():
        with torch.enable_grad():
            value = cost(function(kernel, backend)(*inputs))
        value.backward()
    assert_all_close([x.grad for x in inputs], expected)
    value = cost(function(kernel, backend)(*inputs))
    thread = threading.Thread(target=value.backward)
    thread.start()
    thread.join()
    assert_all_close([x.grad for x in inputs], [2 * gradient for gradient in expected])


@SIGNATURE
@BACKEND
def test_two_uses_in_one_graph_add_up(kernel, backend):
    inputs = leaves(kernel)
    f = function(kernel, backend)
    once = torch.autograd.grad(cost(f(*inputs)), inputs)
    twice = torch.autograd.grad(cost(f(*inputs)) + 2 * cost(f(*inputs)), inputs)
    assert_all_close(twice, [3 * gradient for gradient in once])


@SIGNATURE
@BACKEND
def test_chained_uses_differentiate_through_each_other(kernel, backend):
    inputs = leaves(kernel, horizon=3, dof=1)
    f = function(kernel, backend)

    def chained(*x):
        position, velocity, *_ = f(*x)
        return f(position[:, :3], position[:, -1], velocity[:, -1], x[3], x[4])

    assert torch.autograd.gradcheck(chained, inputs)


@SIGNATURE
@BACKEND
def test_anomaly_mode_finds_nothing_wrong_and_names_the_node_that_is(kernel, backend):
    with torch.autograd.set_detect_anomaly(True):
        expected = gradients(kernel, backend)
        *inputs, dt = leaves(kernel)
        outputs = function(kernel, backend)(*inputs, dt.detach() * torch.nan)
        where = pytest.warns(UserWarning, match=r"Error detected in \w+Backward. Traceback of forward call")
        with where, pytest.raises(RuntimeError, match=r"Function '.*(?<!GraphRoot)' returned nan values"):
            torch.autograd.grad(outputs, inputs, weights_like(outputs))
    assert_all_close(expected, gradients(kernel, backend))


# Hooks and saved tensors


@SIGNATURE
@BACKEND
def test_saved_tensors_hooks_see_every_saved_tensor(kernel, backend):
    packed = []

    def pack(tensor):
        packed.append(tensor)
        return len(packed) - 1

    inputs = leaves(kernel)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda place: packed[place]):
        outputs = function(kernel, backend)(*inputs)
    saved = {tensor.data_ptr() for tensor in packed}
    assert {x.data_ptr() for x in inputs} <= saved
    weights = weights_like(outputs)
    got = torch.autograd.grad(outputs, inputs, weights)
    assert_all_close(got, torch.autograd.grad(function(kernel, backend)(*inputs), inputs, weights))


@SIGNATURE
@BACKEND
def test_hooks_that_change_saved_tensors_change_the_gradient(kernel, backend):
    """Proof that the backward reads what the hooks give back and nothing kept elsewhere."""
    inputs = leaves(kernel)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: 2 * x if x.is_floating_point() else x):
        outputs = function(kernel, backend)(*inputs)
    weights = weights_like(outputs)
    got = torch.autograd.grad(outputs, inputs, weights)
    doubled = [(2 * x).detach().requires_grad_() for x in inputs]
    assert_all_close(got, torch.autograd.grad(function(kernel, backend)(*doubled), doubled, weights))


@SIGNATURE
@BACKEND
def test_save_on_cpu_keeps_the_gradients_of_first_and_second_order(kernel, backend):
    inputs = leaves(kernel)

    def second_order():
        first = torch.autograd.grad(cost(function(kernel, backend)(*inputs)), inputs, create_graph=True)
        return torch.autograd.grad(cost(first), inputs)

    expected = second_order()
    with torch.autograd.graph.save_on_cpu():
        assert_all_close(second_order(), expected)


@SIGNATURE
@BACKEND
def test_node_hooks_see_and_replace_gradients(kernel, backend):
    inputs = leaves(kernel)
    outputs = function(kernel, backend)(*inputs)
    node, weights = outputs[1].grad_fn, weights_like(outputs)
    plain = torch.autograd.grad(outputs, inputs, weights, retain_graph=True)
    seen = []
    pre = node.register_prehook(lambda upstream: tuple(None if g is None else 2 * g for g in upstream))
    post = node.register_hook(lambda results, upstream: seen.append((len(results), len(upstream))))
    doubled = torch.autograd.grad(outputs, inputs, weights, retain_graph=True)
    assert_all_close(doubled, [2 * gradient for gradient in plain])
    assert len(seen) == 1 and seen[0][1] == 4
    pre.remove()
    post.remove()
    assert_all_close(torch.autograd.grad(outputs, inputs, weights), plain)


@SIGNATURE
@BACKEND
def test_tensor_hooks_and_multi_grad_hooks_fire(kernel, backend):
    inputs = leaves(kernel)
    outputs = function(kernel, backend)(*inputs)
    seen = []
    torch.autograd.graph.register_multi_grad_hook(inputs, lambda grads: seen.append([g.clone() for g in grads]))
    inputs[0].register_hook(lambda gradient: 10 * gradient)
    cost(outputs).backward()
    expected = gradients(kernel, backend)
    assert len(seen) == 1
    assert_all_close([x.grad for x in inputs], [10 * expected[0], *expected[1:]])


@SIGNATURE
@BACKEND
@pytest.mark.parametrize("place", range(5), ids=NAMES)
def test_a_saved_input_changed_in_place_raises(kernel, backend, place):
    inputs = leaves(kernel)
    copies = [x.clone() for x in inputs]
    outputs = function(kernel, backend)(*copies)
    with torch.no_grad():
        copies[place].add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(cost(outputs[:3]), inputs)


@SIGNATURE
@BACKEND
def test_an_input_that_is_not_saved_may_change(kernel, backend):
    *inputs, dt = random_inputs(kernel)
    inputs = [x.requires_grad_() for x in inputs]
    copies = [x.clone() for x in inputs]
    outputs = function(kernel, backend)(*copies, dt)
    weights = weights_like(outputs)
    with torch.no_grad():
        for copy in copies:
            copy.zero_()
    got = torch.autograd.grad(outputs, inputs, weights)
    assert_all_close(got, torch.autograd.grad(function(kernel, backend)(*inputs, dt), inputs, weights))


@MAP
@BACKEND
def test_results_share_no_memory_with_inputs_or_each_other(kernel, backend):
    inputs = leaves(kernel)
    outputs = function(kernel, backend)(*inputs)
    upstream = weights_like(outputs)
    of_positions = torch.autograd.grad(outputs[0], inputs, upstream[0], retain_graph=True, materialize_grads=True)
    results = [*outputs, *of_positions, *torch.autograd.grad(outputs, inputs, upstream)]
    blocks = [tensor.untyped_storage().data_ptr() for tensor in (*inputs, *upstream, *results)]
    assert len(set(blocks)) == len(blocks)


@BACKEND
def test_truncated_terminal_gradient_leaves_the_outputs_and_jvp_alone(backend):
    action, p0, v0, a0, dt = random_inputs(MAPS["clique_central"])

    def step(truncate):
        return lambda u: tuple(
            clique_central_step(u, p0, v0, a0, dt=dt, truncate_terminal_gradient=truncate, backend=backend)
        )

    assert_all_close(step(True)(action), step(False)(action))
    pairs = [torch.func.jvp(step(truncate), (action,), (action,))[1] for truncate in (True, False)]
    assert_all_close(*pairs)

"""The operators keep autograd's contract: only requested gradients are computed, and stale data raises."""

from __future__ import annotations

import weakref

import pytest
import torch
from operator_cases import BACKEND, SIGNATURE, assert_all_close, cost, signature_case, weights_like

# Results and absent gradients


@SIGNATURE
@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (3,), (0, 3), (1, 2, 3), (-1,)], ids=str)
def test_only_the_gradients_asked_for_are_computed(kernel, backend_calls, wanted):
    """One vjp is enough; none runs where dt (-1) alone requires grad."""
    case = signature_case(kernel)
    inputs = case.values
    leaves = [inputs[i].requires_grad_() for i in wanted]
    outputs = case.step(*inputs, backend="reference")
    assert [direction for direction, _ in backend_calls] == ["forward"]
    torch.autograd.grad(outputs, leaves, weights_like(outputs))
    expected = [] if wanted == (-1,) else [("vjp", [i in wanted for i in range(4)])]
    assert [(direction, list(vjp.needs[:4])) for direction, vjp in backend_calls[1:]] == expected


@SIGNATURE
@BACKEND
@pytest.mark.parametrize("used", range(4))
def test_outputs_without_a_gradient_are_none_and_count_as_zero(kernel, backend, used, backend_calls):
    case = signature_case(kernel)
    outputs = case.step(*(inputs := case.leaves()), backend=backend)
    weight = weights_like(outputs)[used]
    alone = torch.autograd.grad(outputs[used], inputs, weight, retain_graph=True)
    if backend is not None:
        assert [x is not None for x in backend_calls[-1][1].upstream] == [i == used for i in range(4)]
    zeros = [weight if i == used else torch.zeros_like(weight) for i in range(4)]
    assert_all_close(alone, torch.autograd.grad(outputs, inputs, zeros))


@SIGNATURE
@BACKEND
def test_without_requires_grad_there_is_no_graph(kernel, backend):
    case = signature_case(kernel)
    assert not any(output.requires_grad for output in case.step(backend=backend))
    with torch.no_grad():
        assert not any(output.requires_grad for output in case.step(*case.leaves(), backend=backend))
    with torch.inference_mode():
        assert all(output.is_inference() for output in case.step(backend=backend))


@SIGNATURE
@BACKEND
@pytest.mark.parametrize("wants_dt", [False, True])
def test_actions_are_saved_for_the_gradient_of_dt_alone(kernel, backend, wants_dt):
    """A graph without dt holds the step lengths and no activation."""
    case = signature_case(kernel)
    leaf, *rest = case.values
    action = leaf.requires_grad_() * 2
    rest[-1].requires_grad_(wants_dt)
    outputs = case.step(action, *rest, backend=backend)
    held = weakref.ref(action)
    del action
    assert (held() is not None) == wants_dt, outputs[0].grad_fn


# Layouts


VIEWS = {
    "transposed": lambda x: x.mT.contiguous().mT,
    "every second number": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
}


@SIGNATURE
@BACKEND
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_inputs_and_gradients_of_any_strides(kernel, backend, view):
    case = signature_case(kernel, batch=3, horizon=4, dof=3)
    plain = case.leaves()
    strange = [view(x) for x in plain]
    outputs, expected = (case.step(*values, backend=backend) for values in (strange, [x.contiguous() for x in strange]))
    assert_all_close(outputs, expected)
    assert all(output.is_contiguous() for output in outputs)
    weights = [view(weight) for weight in weights_like(outputs)]
    assert not (strange[0].is_contiguous() or weights[0].is_contiguous())
    got = torch.autograd.grad(outputs, plain, weights)
    assert_all_close(got, torch.autograd.grad(expected, plain, [weight.contiguous() for weight in weights]))


# Saved tensors


@SIGNATURE
@BACKEND
def test_a_saved_input_changed_in_place_raises_and_others_may_change(kernel, backend):
    case = signature_case(kernel)
    *rest, dt = inputs = case.leaves()
    for place in range(len(inputs)):
        copies = [x.clone() for x in inputs]
        outputs = case.step(*copies, backend=backend)
        copies[place].detach().add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(cost(outputs[:3]), inputs)
    copies = [x.clone() for x in rest]
    outputs, expected = (case.step(*values, dt.detach(), backend=backend) for values in (copies, rest))
    for copy in copies:
        copy.detach().zero_()
    got, expected = (torch.autograd.grad(results, rest, weights_like(outputs)) for results in (outputs, expected))
    assert_all_close(got, expected)

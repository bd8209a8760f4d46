"""Buffers that the caller of a step kernel owns: written in place, returned, checked, and correct under autograd.

test_operators_autograd.py tests autograd's contract for the operators behind them.
"""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from integration_cases import OUT_NAMES, STEP_KERNELS, squares
from torch.autograd import forward_ad
from torch.testing import assert_close

EACH_KERNEL = pytest.mark.parametrize("case", STEP_KERNELS, ids=str)
# One kernel of each kind: the buffers' code distinguishes rows before the actions, a pool, and dt or its reciprocal.
EACH_KIND = pytest.mark.parametrize("case", [STEP_KERNELS[i] for i in (0, 3, 5)], ids=str)

OVERWRITTEN = "modified inplace|modified by an inplace operation"


@pytest.fixture(params=["fast path", "gradient of dt"])
def arguments(case, request):
    """With a gradient of dt, the operators take the step, and the results are copied into the buffers."""
    arguments = case.arguments(requires_grad=True)
    if request.param == "fast path":
        arguments.traj_dt = arguments.traj_dt.detach()
    return arguments


@pytest.fixture
def buffers(case, arguments):
    return case.buffers(arguments.action)


@EACH_KERNEL
def test_outputs_lie_in_the_buffers_which_stay_plain_memory(case, arguments, buffers):
    outputs = case.apply(arguments, buffers)
    for output, buffer in zip(outputs, buffers, strict=True):
        assert output.data_ptr() == buffer.data_ptr()
        assert torch.equal(output, buffer)
        assert output.requires_grad
        assert not buffer.requires_grad
        assert buffer.grad_fn is None
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert [output.data_ptr() for output in case.apply(arguments, buffers)] == [b.data_ptr() for b in buffers]
    assert_close(buffers, [output.detach() for output in case.apply(arguments)])


# Each place and each kind of writer, not each pair of them: the code is the same for all places.
@EACH_KIND
@pytest.mark.parametrize(
    ("place", "writer"), list(enumerate(["another call", "another call without grad", "the caller", "another call"]))
)
def test_overwritten_output_raises_when_it_is_used_again(case, arguments, buffers, writer, place):
    """The buffer holds other numbers by then; a gradient through it would belong to the old actions."""
    old = case.apply(arguments, buffers)[place]
    if writer == "the caller":
        buffers[place].zero_()
    else:
        with torch.set_grad_enabled(writer == "another call"):
            case.apply(arguments, buffers)
    with pytest.raises(RuntimeError, match=OVERWRITTEN):
        old.sum()
    buffers[place] = old  # as memory it serves like any other
    outputs = case.apply(arguments, buffers)
    assert_close(tuple(outputs), tuple(case.apply(arguments)))
    with pytest.raises(RuntimeError, match="being modified inplace"):
        outputs[0].add_(1)


# The gradient buffer ---------------------------------------------------------------------------------------------


@EACH_KERNEL
@pytest.mark.parametrize("has_graph", [False, True])
def test_a_gradient_buffer_is_filled_and_is_the_gradient(case, arguments, has_graph):
    grad_buffer = torch.full_like(arguments.action, torch.nan).detach()
    fixed = dataclasses.replace(arguments, action=arguments.action.detach())
    squares(case.apply(fixed, grad_buffer=grad_buffer)).backward()
    assert grad_buffer.isnan().all()  # the actions have no gradient
    (expected,) = torch.autograd.grad(squares(case.apply(arguments)), arguments.action)
    loss = squares(case.apply(arguments, grad_buffer=grad_buffer))
    (found,) = torch.autograd.grad(loss, arguments.action, create_graph=has_graph)
    assert_close(grad_buffer, expected)
    assert torch.equal(found, grad_buffer)
    assert found.requires_grad is has_graph
    assert (found.data_ptr() != grad_buffer.data_ptr()) is has_graph


@EACH_KIND
@pytest.mark.parametrize("shape", [(2, 4, 2), (-1,)], ids=["parameter", "parameter behind a view"])
def test_accumulated_gradient_has_memory_of_its_own(case, arguments, shape):
    """Autograd may keep the view of a gradient that it receives as `.grad`: it must not be a view of the buffer."""
    grad_buffer = torch.zeros_like(arguments.action)
    expected = torch.autograd.grad(squares(case.apply(arguments)), arguments.action)[0]
    parameter = arguments.action.detach().clone().reshape(shape).requires_grad_()
    for count in (1, 2, 3):
        arguments.action = parameter if len(shape) == 3 else parameter.view(expected.shape)
        grad_buffer.fill_(torch.nan)
        squares(case.apply(arguments, grad_buffer=grad_buffer)).backward()
        assert parameter.grad.data_ptr() != grad_buffer.data_ptr()
        assert_close(parameter.grad, count * expected.reshape(shape))
        assert_close(grad_buffer, expected)


@EACH_KIND
@pytest.mark.parametrize("leaf", [True, False])
def test_two_calls_in_one_graph_may_share_a_gradient_buffer(case, arguments, leaf):
    grad_buffer = torch.zeros_like(arguments.action)
    parameter = arguments.action
    arguments.action = parameter if leaf else 1 * parameter

    def loss(buffer):
        first, second = (case.apply(arguments, grad_buffer=buffer) for _ in range(2))
        return squares(first) + squares(2 * output for output in second)

    (expected,) = torch.autograd.grad(loss(None), parameter, retain_graph=True)
    loss(grad_buffer).backward()
    assert_close(parameter.grad, expected)


# Misuse ----------------------------------------------------------------------------------------------------------

UNSUITABLE = {
    "shape": (lambda good: torch.zeros(1, *good.shape[1:]), ValueError, r"expected shape \[2, \d, 2\], got \[1,"),
    "dtype": (lambda good: good.float(), ValueError, r"expected dtype torch\.float64, got torch\.float32"),
    "device": (lambda good: good.to("meta"), ValueError, "expected device cpu, got meta"),
    "stride": (lambda good: good.mT.contiguous().mT, ValueError, "expected a contiguous tensor, got strides"),
    "leaf": (
        lambda good: good.clone().requires_grad_(),
        ValueError,
        "plain memory, got that of a tensor that requires",
    ),
    "view of a leaf": (lambda good: good[None].clone().requires_grad_()[0], ValueError, "plain memory, got that of"),
    "history": (lambda good: 1 * good.clone().requires_grad_(), ValueError, "plain memory, got that of a tensor"),
    "type": (lambda good: good.tolist(), TypeError, "expected a tensor, got list"),
    "inference": (torch.inference_mode()(torch.clone), ValueError, "autograd can follow, got one made in inference"),
}


@EACH_KIND
@pytest.mark.parametrize(("place", "reason"), list(zip(itertools.cycle(range(5)), UNSUITABLE, strict=False)))
def test_unsuitable_buffer_is_named_and_nothing_is_written(case, arguments, buffers, place, reason):
    spoil, error, message = UNSUITABLE[reason]
    every = [*buffers, torch.full_like(arguments.action, torch.nan).detach()]
    every[place] = spoil(every[place])
    name = [*OUT_NAMES, "out_grad_position"][place]
    with pytest.raises(error, match=f"^{name}: .*{message}"):
        case.apply(arguments, every[:4], every[4])
    assert all(buffer.isnan().all() for buffer in buffers)


@EACH_KIND
@pytest.mark.parametrize("shift", [0, 1], ids=["the same", "one element on"])
def test_buffers_that_share_memory_are_refused(case, arguments, buffers, shift):
    numbers = buffers[1].numel()
    memory = torch.full((numbers + 1,), torch.nan, dtype=torch.float64)
    buffers[1] = memory[:numbers].view(buffers[1].shape)
    buffers[3] = memory[shift : shift + numbers].view(buffers[1].shape)
    with pytest.raises(ValueError, match="out_jerk: expected memory of its own, got the memory of out_velocity"):
        case.apply(arguments, buffers)
    assert all(buffer.isnan().all() for buffer in buffers)


@EACH_KERNEL
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"action": [0.0]}, TypeError, "^u_act: expected a tensor, got list"),
        ({"position": None}, TypeError, "^start_position: expected a tensor, got None"),
        ({"velocity": torch.zeros(2, 2)}, TypeError, "^start_velocity: .*float64, got torch.float32"),
        ({"acceleration": torch.zeros(1, 2, 2).double()}, ValueError, "^start_acceleration: expected shape"),
        ({"traj_dt": torch.ones(3, dtype=torch.float64)}, ValueError, r"^traj_dt: .*got shape \[3\]"),
        ({"traj_dt": torch.ones(1, dtype=torch.int64)}, TypeError, "^traj_dt: expected a floating-point tensor"),
        ({"traj_dt": 0.0}, ValueError, "^traj_dt: expected a finite number"),
        ({"traj_dt": "fast"}, TypeError, "^traj_dt: expected a number"),
        ({"traj_dt": torch.tensor([0.5, 0.25, 1.0, 2.0])}, ValueError, "^traj_dt: central differences need one.*got 4"),
    ],
)
def test_bad_argument_is_named_as_the_caller_knows_it(case, change, error, message):
    if "central" in message and not case.extra_horizon:
        pytest.skip("it takes a step length for each row")
    plain = case.arguments()
    values = dict(zip(("action", "position", "velocity", "acceleration", "traj_dt"), plain.tensors, strict=True))
    buffers = case.buffers(plain.action)
    with pytest.raises(error, match=message):
        case(*{**values, **change}.values(), start_idx=plain.start_idx, buffers=buffers)
    assert all(buffer.isnan().all() for buffer in buffers)


# The fast path ---------------------------------------------------------------------------------------------------


@EACH_KIND
def test_buffers_that_overlap_arguments_are_written_after_reading(case, arguments):
    expected = [output.detach().clone() for output in case.apply(arguments)]
    if case.extra_horizon:
        memory = torch.zeros(expected[0].numel(), dtype=torch.float64)
        action = memory[: arguments.action.numel()].view(arguments.action.shape).copy_(arguments.action.detach())
        position = memory.view(expected[0].shape)
    else:
        position = action = arguments.action.detach().clone()
    arguments.action = action
    buffers = [position, *case.buffers(action)[1:]]
    with torch.no_grad():
        assert_close(case.apply(arguments, buffers), type(case.apply(arguments))(*expected))


# Autograd and its transforms -------------------------------------------------------------------------------------


@EACH_KIND
def test_transforms_agree_with_autograd_and_vmap_is_refused(case):
    arguments = case.arguments(requires_grad=True)
    plain = [tensor.detach() for tensor in arguments.tensors]
    buffers, grad_buffer = case.buffers(plain[0]), torch.empty_like(plain[0])

    def loss(*tensors):
        return squares(case(*tensors, start_idx=arguments.start_idx, buffers=buffers, grad_buffer=grad_buffer))

    found = torch.func.grad(loss, argnums=(0, 1, 2, 3, 4))(*plain)
    assert_close(found, torch.autograd.grad(squares(case.apply(arguments)), arguments.differentiable))
    _, directional = torch.func.jvp(loss, tuple(plain), tuple(plain))
    assert_close(directional, sum((gradient * tensor).sum() for gradient, tensor in zip(found, plain, strict=True)))
    with forward_ad.dual_level():  # of tensors that require grad, whose gradient has a buffer
        duals = [forward_ad.make_dual(*pair) for pair in zip(arguments.tensors, plain, strict=True)]
        assert_close(forward_ad.unpack_dual(loss(*duals)).tangent.detach(), directional)
    with pytest.raises(RuntimeError, match=r"vmap cannot write .* buffers made outside of it; map over .* clique_step"):
        torch.func.vmap(lambda action: loss(action, *plain[1:]))(torch.stack([plain[0], plain[0]]))

"""What the buffers of the drop-in module's step kernels could take from autograd, one property for each test.

What the operators behind them keep of autograd's contract is in test_operators_autograd.py.
"""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from integration_cases import STEP_KERNELS, squares
from torch.autograd import forward_ad
from torch.testing import assert_close

# One of each kind: what lies behind the buffers is tested with the operators.
pytestmark = pytest.mark.parametrize("case", [STEP_KERNELS[i] for i in (0, 3, 5)], ids=str)


def gradients(case, arguments, loss=squares, **options):
    return torch.autograd.grad(loss(case.apply(arguments)), arguments.differentiable, **options)


def arguments_with_grad(case, **options):
    return case.arguments(requires_grad=True, **options)


@pytest.mark.parametrize("output", range(4), ids=["position", "velocity", "acceleration", "jerk"])
def test_outputs_without_upstream_gradient_take_no_part(case, output):
    """A gradient of None is not turned into zeros: the nodes of the other outputs do not even run."""
    arguments = arguments_with_grad(case)
    outputs = case.apply(arguments)
    ran = []
    for place, tensor in enumerate(outputs):
        tensor.grad_fn.register_prehook(lambda grads, place=place: ran.append(place))
    upstream = torch.randn_like(outputs[output])
    found = torch.autograd.grad(outputs[output], arguments.differentiable, upstream, allow_unused=True)
    assert ran == [output]
    zeros = [torch.zeros_like(tensor) for tensor in outputs]
    zeros[output] = upstream
    expected = torch.autograd.grad(case.apply(arguments), arguments.differentiable, zeros)
    for gradient, full in zip(found, expected, strict=True):
        assert_close(torch.zeros_like(full) if gradient is None else gradient, full)


def test_forward_mode_is_the_map_of_the_tangents(case):
    arguments, tangents = arguments_with_grad(case), case.arguments(seed=1)
    buffers, grad_buffer = case.buffers(arguments.action), torch.empty_like(arguments.action).detach()
    tangents.traj_dt = arguments.traj_dt
    expected = case.apply(tangents)
    for _ in range(2):  # the second time over buffers that the first has written
        with forward_ad.dual_level():
            pairs = zip(arguments.tensors[:4], tangents.tensors[:4], strict=True)
            duals = [forward_ad.make_dual(*pair) for pair in pairs]
            options = {"start_idx": arguments.start_idx, "buffers": buffers, "grad_buffer": grad_buffer}
            outputs = case(*duals, arguments.traj_dt, **options)
            for output, tangent in zip(outputs, expected, strict=True):
                assert_close(forward_ad.unpack_dual(output).tangent, tangent)


def test_transforms_of_torch_func_agree_with_autograd(case):
    arguments = arguments_with_grad(case)
    plain = [tensor.detach() for tensor in arguments.tensors]
    buffers, grad_buffer = case.buffers(plain[0]), torch.empty_like(plain[0])

    def loss(*tensors):
        return squares(case(*tensors, start_idx=arguments.start_idx, buffers=buffers, grad_buffer=grad_buffer))

    found = torch.func.grad(loss, argnums=(0, 1, 2, 3, 4))(*plain)
    assert_close(found, gradients(case, arguments))
    _, directional = torch.func.jvp(loss, tuple(plain), tuple(plain))
    assert_close(directional, sum((gradient * tensor).sum() for gradient, tensor in zip(found, plain, strict=True)))


def test_vmap_over_buffers_made_outside_says_that_it_cannot(case):
    arguments = case.arguments()
    actions = torch.stack([arguments.action, arguments.action])
    buffers = case.buffers(arguments.action)
    with pytest.raises(RuntimeError, match=r"vmap cannot write .* buffers made outside of it; map over .* clique_step"):
        torch.func.vmap(
            lambda action: case(
                action, *arguments.start, arguments.traj_dt, start_idx=arguments.start_idx, buffers=buffers
            )
        )(actions)


@pytest.mark.parametrize("where", ["inside no_grad", "in another thread", "in anomaly mode"])
def test_backward_works(case, where):
    arguments = arguments_with_grad(case)
    expected = gradients(case, arguments)

    def run():
        squares(case.apply(arguments, grad_buffer=torch.empty_like(arguments.action))).backward()

    if where == "inside no_grad":
        loss = squares(case.apply(arguments, grad_buffer=torch.empty_like(arguments.action)))
        with torch.no_grad():
            loss.backward()
    elif where == "in another thread":
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            with torch.autograd.detect_anomaly():
                run()
    assert_close(tuple(tensor.grad for tensor in arguments.differentiable), expected)

"""The step kernels of the drop-in module under everything autograd offers, one property for each test."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from integration_cases import STEP_KERNELS, squares
from torch.autograd import forward_ad
from torch.autograd.graph import register_multi_grad_hook, save_on_cpu, saved_tensors_hooks
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.parametrize("case", STEP_KERNELS, ids=str)

INPUTS = ("action", "position", "velocity", "acceleration", "dt")


def gradients(case, arguments, loss=squares, **options):
    return torch.autograd.grad(loss(case.apply(arguments)), arguments.differentiable, **options)


def arguments_with_grad(case, **options):
    return case.arguments(requires_grad=True, **options)


class _CountOperations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.count += 1
        return operator(*args, **(kwargs or {}))


@pytest.mark.parametrize("wanted", [*range(5), (0, 4), (1, 2, 3)], ids=str)
def test_every_subset_of_inputs_has_the_gradient_it_has_among_all(case, wanted):
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    expected = gradients(case, arguments_with_grad(case))
    arguments = case.arguments()
    for place in wanted:
        arguments.tensors[place].requires_grad_()
    squares(case.apply(arguments)).backward()
    for place, tensor in enumerate(arguments.tensors):
        if place in wanted:
            assert_close(tensor.grad, expected[place])
        else:
            assert tensor.grad is None


def test_backward_computes_less_when_less_is_asked_for(case):
    counts = []
    for every in (False, True):
        arguments = arguments_with_grad(case)
        loss = squares(case.apply(arguments))
        with _CountOperations() as operations:
            torch.autograd.grad(loss, arguments.differentiable if every else arguments.action)
        counts.append(operations.count)
    assert counts[0] < counts[1]


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
    arguments, tangents = case.arguments(), case.arguments(seed=1)
    buffers = case.buffers(arguments.action)
    tangents.traj_dt = arguments.traj_dt
    expected = case.apply(tangents)
    for _ in range(2):  # the second time over buffers that the first has written
        with forward_ad.dual_level():
            pairs = zip(arguments.tensors[:4], tangents.tensors[:4], strict=True)
            duals = [forward_ad.make_dual(*pair) for pair in pairs]
            outputs = case(*duals, arguments.traj_dt, start_idx=arguments.start_idx, buffers=buffers)
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


def test_jacobians_of_torch_func_agree_with_a_loop(case):
    arguments = arguments_with_grad(case, batch=1, horizon=3, dof=1)
    plain = [tensor.detach() for tensor in arguments.tensors]
    outputs = torch.cat([output.flatten() for output in case.apply(arguments)])
    rows = [torch.autograd.grad(value, arguments.action, retain_graph=True)[0] for value in outputs]

    def flat(action):
        return torch.cat([o.flatten() for o in case(action, *plain[1:], start_idx=arguments.start_idx)])

    assert_close(torch.func.jacrev(flat)(plain[0]), torch.stack(rows))
    assert_close(torch.func.jacfwd(flat)(plain[0]), torch.stack(rows))


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


def test_strides_of_inputs_and_upstream_gradients_do_not_matter(case):
    arguments = arguments_with_grad(case)
    strided = [tensor.detach().t() if tensor.dim() == 2 else tensor.detach().mT for tensor in arguments.start]
    strided = [tensor.contiguous().t().requires_grad_() for tensor in strided]
    action = arguments.action.detach().mT.contiguous().mT.requires_grad_()
    assert not action.is_contiguous()
    outputs = case(action, *strided, arguments.traj_dt, start_idx=arguments.start_idx)
    upstream = [torch.ones((), dtype=torch.float64).expand(output.shape) for output in outputs]
    upstream[0] = torch.randn_like(outputs[0].mT.contiguous()).mT
    found = torch.autograd.grad(outputs, [action, *strided], upstream)
    contiguous = [gradient.contiguous() for gradient in upstream]
    expected = torch.autograd.grad(case.apply(arguments), arguments.tensors[:4], contiguous)
    assert_close(found, expected)


def test_one_start_row_serves_all_trajectories_and_collects_their_gradients(case):
    if case.indexed:
        pool = arguments_with_grad(case)
        found = gradients(case, pool)
        own = case.arguments(requires_grad=True)
        picked = [row.detach()[own.start_idx.long()].requires_grad_() for row in own.start]
        index = torch.arange(2)
        outputs = case(own.action, *picked, own.traj_dt, start_idx=index)
        each = torch.autograd.grad(squares(outputs), picked)
        for gradient, rows in zip(found[1:4], each, strict=True):
            expected = torch.zeros_like(gradient).index_add_(0, own.start_idx, rows)
            assert_close(gradient, expected)
        return
    arguments = arguments_with_grad(case)
    single = [row.detach()[:1].clone().requires_grad_() for row in arguments.start]
    found = torch.autograd.grad(squares(case(arguments.action, *single, arguments.traj_dt)), single)
    rows = [row.detach().expand(2, -1).clone().requires_grad_() for row in single]
    each = torch.autograd.grad(squares(case(arguments.action, *rows, arguments.traj_dt)), rows)
    assert_close(found, tuple(gradient.sum(0, keepdim=True) for gradient in each))


def test_start_gradients_are_the_same_in_every_run(case):
    arguments = arguments_with_grad(case, batch=64, horizon=5, dtype=torch.float32)
    if case.indexed:
        arguments.start_idx = torch.arange(64, dtype=torch.int32) % 3
    torch.use_deterministic_algorithms(True)
    try:
        runs = [gradients(case, arguments) for _ in range(3)]
    finally:
        torch.use_deterministic_algorithms(False)
    for run in runs[1:]:
        assert all(torch.equal(*pair) for pair in zip(runs[0], run, strict=True))


def test_nothing_as_large_as_the_actions_is_saved_unless_dt_asks_for_it(case):
    arguments = arguments_with_grad(case, batch=8, horizon=16, dof=4)
    arguments.traj_dt = arguments.traj_dt.detach()
    sizes = []
    with saved_tensors_hooks(lambda tensor: sizes.append(tensor.numel()) or tensor, lambda tensor: tensor):
        case.apply(arguments)
    assert max(sizes, default=0) < arguments.action.numel()


def test_gradient_is_computed_from_what_the_saved_tensor_hooks_give_back(case):
    """Nothing is tucked away beside them: zeros given back for the saved tensors make the gradient of dt vanish."""
    arguments = arguments_with_grad(case)
    expected = gradients(case, arguments)
    for give_back, unchanged in ((lambda tensor: tensor, True), (torch.zeros_like, False)):
        with saved_tensors_hooks(lambda tensor: tensor.detach().clone(), give_back):
            outputs = case.apply(arguments)
        upstream = [2 * output.detach() for output in outputs]
        found = torch.autograd.grad(outputs, arguments.traj_dt, upstream)[0]
        assert torch.allclose(found, expected[4]) is unchanged


def test_saving_on_the_cpu_changes_nothing(case):
    arguments = arguments_with_grad(case)
    with save_on_cpu():
        found = gradients(case, arguments)
    assert_close(found, gradients(case, arguments))


def test_node_hooks_see_and_change_the_gradients(case):
    arguments = arguments_with_grad(case)
    expected = gradients(case, arguments)
    outputs = case.apply(arguments)
    for output in outputs:
        output.grad_fn.register_prehook(lambda grads: (2 * grads[0],))
        output.grad_fn.register_hook(lambda inputs, _: tuple(None if g is None else 3 * g for g in inputs))
    found = torch.autograd.grad(squares(outputs), arguments.differentiable)
    assert_close(found, tuple(6 * gradient for gradient in expected))


def test_multi_grad_hook_sees_every_gradient(case):
    arguments = arguments_with_grad(case)
    seen = []
    with register_multi_grad_hook(arguments.differentiable, seen.append):
        squares(case.apply(arguments, grad_buffer=torch.empty_like(arguments.action))).backward()
    assert len(seen) == 1
    assert_close(tuple(seen[0]), gradients(case, arguments))


@pytest.mark.parametrize("place", range(6), ids=[*INPUTS, "start_idx"])
def test_input_changed_in_place_raises_or_does_not_matter(case, place):
    """What the backward needs is saved, then the change raises, or was copied, then the gradient is the old one."""
    arguments = arguments_with_grad(case)
    expected = gradients(case, arguments)
    loss = squares(case.apply(arguments))
    changed = [*arguments.tensors, arguments.start_idx][place]
    if changed is None:
        return
    with torch.no_grad():
        changed.zero_() if place == 5 else changed.mul_(2)
    try:
        found = torch.autograd.grad(loss, arguments.differentiable)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        assert_close(found, expected)


def test_saved_index_or_step_changed_in_place_raises(case):
    """The float64 inputs that are saved as they are: the row numbers, and dt where it is not converted from 1 / dt."""
    arguments = arguments_with_grad(case)
    loss = squares(case.apply(arguments))
    with torch.no_grad():
        if case.indexed:
            arguments.start_idx.add_(0)
        elif not case.takes_rate:
            arguments.traj_dt.add_(0)
        else:
            return
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_second_backward_needs_and_honours_retain_graph(case):
    arguments = arguments_with_grad(case)
    loss = squares(case.apply(arguments))
    first = torch.autograd.grad(loss, arguments.differentiable, retain_graph=True)
    assert_close(torch.autograd.grad(loss, arguments.differentiable), first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_grad_with_upstream_gradients_and_an_unused_input(case):
    arguments = arguments_with_grad(case)
    outputs = case.apply(arguments)
    stranger = torch.zeros(1, requires_grad=True)
    upstream = [torch.randn_like(output) for output in outputs]
    found = torch.autograd.grad(outputs, [arguments.action, stranger], upstream, allow_unused=True)
    assert found[1] is None
    expected = gradients(case, arguments, lambda outs: sum((o * g).sum() for o, g in zip(outs, upstream, strict=True)))
    assert_close(found[0], expected[0])


def test_second_derivative_of_a_quadratic_loss_is_the_map_applied_twice(case):
    """loss = sum |L u|^2, so its Hessian times w is 2 L' L w: the gradient of the same loss at w with starts at 0."""
    arguments, direction = arguments_with_grad(case), case.arguments(seed=3)
    (first,) = torch.autograd.grad(squares(case.apply(arguments)), arguments.action, create_graph=True)
    (product,) = torch.autograd.grad(first, arguments.action, direction.action)
    action = direction.action.requires_grad_()
    zeros = [torch.zeros_like(row) for row in direction.start]
    outputs = case(action, *zeros, arguments.traj_dt.detach(), start_idx=arguments.start_idx)
    assert_close(product, torch.autograd.grad(squares(outputs), action)[0])


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


def test_kernel_used_twice_in_one_graph_adds_up(case):
    """Once on top of the other where the horizon allows it, and both on the same start and dt."""
    arguments = arguments_with_grad(case)

    def loss(apply):
        first = apply(arguments.action)
        action = first[0][:, : arguments.action.shape[1]] + arguments.action
        return squares(first) + squares(apply(action))

    def kernel(action):
        return case(action, *arguments.start, arguments.traj_dt, start_idx=arguments.start_idx)

    def composed(action):
        """The same numbers through four separate calls, each giving one output."""
        return [kernel(action)[place].clone() for place in range(4)]

    found = torch.autograd.grad(loss(kernel), arguments.differentiable)
    assert_close(found, torch.autograd.grad(loss(composed), arguments.differentiable))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_low_precision_is_kept_in_inputs_and_results(case, dtype):
    arguments = arguments_with_grad(case, dtype=dtype, dt=0.25)
    outputs = case.apply(arguments, grad_buffer=torch.empty_like(arguments.action))
    assert {output.dtype for output in outputs} == {dtype}
    found = torch.autograd.grad(outputs, arguments.differentiable, [torch.ones_like(output) for output in outputs])
    assert {gradient.dtype for gradient in found} == {dtype}
    double = case(*(x.detach().double() for x in arguments.tensors), start_idx=arguments.start_idx)
    for output, exact in zip(outputs, double, strict=True):
        assert (output - exact).norm() <= 2 * torch.finfo(dtype).eps * exact.norm()

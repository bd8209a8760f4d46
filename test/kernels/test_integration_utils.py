"""Every name of the drop-in module: it exists, returns what its closed form says, and has the gradient it should."""

from __future__ import annotations

import inspect

import pytest
import torch
from integration_cases import CLOSED_FORMS, STEP_KERNELS, check_step_kernel, squares
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from traj_integrator_ros.kernels import integration_utils as iu

START = "start_position start_velocity start_acceleration"
OUT = "out_position out_velocity out_acceleration out_jerk traj_dt out_grad_position"
MATRICES = "start_position mask n_mask fd_1 fd_2 fd_3"
GRADS = "grad_p grad_v grad_a grad_j n_mask fd_1 fd_2 fd_3"
ARGUMENTS = {
    "build_clique_matrix": "horizon dt device dtype",
    "build_fd_matrix": "horizon device dtype order PREV_STATE FULL_RANK SHIFT",
    "build_int_matrix": "horizon diagonal device dtype order traj_dt",
    "build_start_state_mask": "horizon tensor_args",
    "tensor_step_jerk": "state act state_seq dt_h n_dofs integrate_matrix fd_matrix",
    "euler_integrate": "q_0 u diag_dt integrate_matrix",
    "tensor_step_acc": "state act state_seq dt_h n_dofs integrate_matrix fd_matrix",
    "jit_tensor_step_pos_clique": f"pos_act {MATRICES}",
    "jit_tensor_step_pos_clique_contiguous": f"pos_act {MATRICES}",
    "jit_backward_pos_clique": GRADS,
    "jit_backward_pos_clique_contiguous": GRADS,
    "CliqueTensorStep": f"u_act {MATRICES}",
    "tensor_step_pos_clique": "state act state_seq mask_matrix fd_matrix",
    "step_acc_semi_euler": "state act diag_dt n_dofs integrate_matrix",
    "tensor_step_acc_semi_euler": "state act state_seq diag_dt integrate_matrix integrate_matrix_pos",
    "tensor_step_vel": "state act state_seq dt_h n_dofs integrate_matrix fd_matrix",
    "tensor_step_pos": "state act state_seq fd_matrix",
    "tensor_step_pos_ik": "act state_seq",
    "tensor_linspace": "start_tensor end_tensor steps",
    "sum_matrix": "h int_steps tensor_args",
    "interpolate_kernel": "h int_steps tensor_args",
    "action_interpolate_kernel": "h int_steps tensor_args offset",
    **{case.name: f"u_act {START} {'start_idx ' * case.indexed}{OUT} scheme" for case in STEP_KERNELS},
}
NAMES = tuple(ARGUMENTS)
EACH = pytest.mark.parametrize("name", NAMES)


@EACH
def test_a_name_has_its_arguments(name):
    assert name in iu.__all__
    entry = getattr(iu, name)
    signature = inspect.signature(entry.apply if inspect.isclass(entry) else entry)
    assert list(signature.parameters) == ARGUMENTS[name].split()


@EACH
def test_a_name_returns_what_its_closed_form_says(name):
    CLOSED_FORMS[name]()


def calls_of(name, monkeypatch):
    """The function behind a name, and its calls by the closed form: places of tensors, all leaves, and their tree."""
    entry = getattr(iu, name)
    owner, attribute = (entry, "apply") if inspect.isclass(entry) else (iu, name)
    function, calls = getattr(owner, attribute), []

    def recording(*arguments, **options):
        leaves, tree = tree_flatten((arguments, options))
        # Memory for the results is full of NaN.
        places = [k for k, x in enumerate(leaves) if torch.is_tensor(x) and x.isfinite().all()]
        calls.append((places, leaves, tree))
        return function(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, attribute, recording)
        CLOSED_FORMS[name]()
    return function, calls


@pytest.mark.parametrize("name", [name for name in NAMES if name not in map(str, STEP_KERNELS)])
def test_a_name_has_its_derivatives(name, monkeypatch):
    """First and second derivatives, reverse and forward mode, of the calls with a closed form, by all their tensors."""
    function, calls = calls_of(name, monkeypatch)
    parameters = str(list(inspect.signature(function).parameters.values())).replace("TensorDeviceType", "")
    assert any(places for places, *_ in calls) == ("Tensor" in parameters or "JointState" in parameters)
    for places, leaves, tree in calls[-2:]:

        def of_tensors(*values, places=places, leaves=leaves, tree=tree):
            given = [x.clone() if torch.is_tensor(x) else x for x in leaves]
            for place, value in zip(places, values, strict=True):
                given[place] = value
            arguments, options = tree_unflatten(given, tree)
            return tuple(tree_leaves(function(*arguments, **options)))

        inputs = [leaves[place].clone().requires_grad_() for place in places]
        if inputs:
            torch.autograd.gradcheck(of_tensors, inputs, check_forward_ad=True)
            torch.autograd.gradgradcheck(of_tensors, inputs)


@pytest.mark.parametrize("case", STEP_KERNELS, ids=str)
def test_a_step_kernel_has_its_derivatives(case):
    arguments = case.arguments(batch=2, horizon=3, dof=1, requires_grad=True)
    torch.autograd.gradcheck(case.on(arguments), arguments.differentiable, check_forward_ad=True)
    torch.autograd.gradgradcheck(case.on(arguments), arguments.differentiable)


def test_module_exports_the_names_and_the_two_types_they_take():
    assert sorted(iu.__all__) == sorted([*NAMES, "JointState", "TensorDeviceType"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: iu.build_fd_matrix(4, FULL_RANK=True), "horizon: expected an odd number >= 3 with FULL_RANK, got 4"),
        (lambda: iu.build_fd_matrix(3, order=-1), "order: expected >= 0, got -1"),
        (lambda: iu.build_fd_matrix(0), "horizon: expected >= 1, got 0"),
        (lambda: iu.build_fd_matrix(3, PREV_STATE=True, SHIFT=True), "expected at most one, got PREV_STATE, SHIFT"),
        (lambda: iu.build_int_matrix(3, traj_dt=torch.ones(2)), r"traj_dt: expected .*\[horizon = 3\], got 2"),
        (lambda: iu.build_clique_matrix(3, torch.ones(4)), r"dt: expected .*\[horizon = 3\], got 4"),
        (lambda: iu.tensor_linspace(torch.zeros(1), torch.ones(1), 0), "steps: expected >= 1, got 0"),
        (lambda: iu.interpolate_kernel(2, 1, iu.TensorDeviceType()), "int_steps: expected >= 2, .*got 1"),
        (lambda: iu.action_interpolate_kernel(2, 4, iu.TensorDeviceType()), r"offset: .*int_steps = 4\), got 4"),
        (lambda: iu.sum_matrix(1, 4, iu.TensorDeviceType()), "h: expected >= 2, .*got 1"),
        (lambda: iu.jit_backward_pos_clique(None, None, None, None, *[torch.eye(2)] * 4), "at least one gradient"),
        (
            lambda: iu.tensor_step_acc(torch.zeros(2, 3), torch.zeros(2, 4, 2), torch.zeros(2, 4, 6), None, 2, None),
            r"state: expected \[batch, 3 \* n_dofs = 6\]",
        ),
        (
            lambda: iu.tensor_step_acc(
                torch.zeros(2, 6), torch.zeros(2, 4, 2), torch.zeros(2, 5, 6), None, 2, torch.eye(4)
            ),
            r"state_seq: expected \[2, 4, 6\] .*got \[2, 5, 6\]",
        ),
    ],
)
def test_bad_arguments_of_the_helpers_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def matrix_arguments():
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 3, 2), (2, 2), (3, 1), *[(3, 3)] * 4
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


def test_reused_state_seq_keeps_no_graph_of_earlier_calls():
    state, act, seq = torch.zeros(1, 6), torch.ones(1, 3, 2, requires_grad=True), torch.zeros(1, 3, 6)
    for _ in range(3):
        out = iu.tensor_step_acc(state, act, seq, None, 2, torch.eye(3))
        (gradient,) = torch.autograd.grad(out.sum(), act)
    assert torch.equal(gradient, torch.full_like(act, 3.0))
    assert out.grad_fn.next_functions[0][0] is None


@pytest.mark.parametrize("case", STEP_KERNELS, ids=str)
def test_float32_agrees_with_float64_arithmetic_on_the_same_numbers(case):
    check_step_kernel(case, torch.float32, tolerance=1e-6, dt=0.02)


TRAJ_DT = {
    "number": lambda dt: dt[0, 0].item(),
    "scalar": lambda dt: dt[0, 0],
    "per step": lambda dt: dt[0],
    "per trajectory": lambda dt: dt[:, :1],
    "of all": lambda dt: dt,
}


@pytest.mark.parametrize("case", STEP_KERNELS, ids=str)
@pytest.mark.parametrize("form", TRAJ_DT)
def test_traj_dt_is_taken_in_every_form(case, form):
    lengths = torch.full((3, 7), 0.25, dtype=torch.float64)
    if form in ("per step", "of all") and not case.extra_horizon:
        lengths = lengths * torch.arange(1, 8)
    if form == "of all" and case.extra_horizon:
        form = "per trajectory"
    if form in ("per trajectory", "of all"):
        lengths = lengths * torch.tensor([[1], [3], [2]])
    check_step_kernel(case, lengths=lengths, form=TRAJ_DT[form])


@pytest.mark.parametrize("fullgraph", [False, True])
def test_torch_compile_breaks_the_graph_where_a_kernel_writes_into_buffers(fullgraph):
    """Torch cannot follow writes into the caller's memory; where the graph may break the result is the eager one."""
    case = STEP_KERNELS[0]
    arguments = case.arguments(requires_grad=True)
    buffers = case.buffers(arguments.action)
    expected = torch.autograd.grad(squares(case.apply(arguments)), arguments.action)
    torch.compiler.reset()
    compiled = torch.compile(lambda: squares(case.apply(arguments, buffers)), fullgraph=fullgraph, backend="aot_eager")
    if fullgraph:
        with pytest.raises(Exception, match="is_inference"):
            compiled()
    else:
        torch.testing.assert_close(torch.autograd.grad(compiled(), arguments.action), expected)


def test_matrix_form_compiles_into_one_graph():
    arguments, function = matrix_arguments(), iu.CliqueTensorStep.apply
    torch.compiler.reset()
    compiled = torch.compile(lambda *tensors: function(*tensors), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*arguments), function(*arguments))

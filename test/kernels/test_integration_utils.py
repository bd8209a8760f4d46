"""Every name of the drop-in module: it exists, returns what its closed form says, and has the gradient it should."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from integration_cases import STEP_KERNELS, squares
from spec_oracle import spec_trajectory
from torch.testing import assert_close
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from traj_integrator_ros.kernels import integration_utils as iu

F64 = iu.TensorDeviceType(dtype=torch.float64)


def t(values):
    return torch.tensor(values, dtype=torch.float64)


def memory(*shape):
    """Memory for results, full of NaN, so that unwritten places show."""
    return torch.full(shape, torch.nan, dtype=torch.float64)


def state(*fields):
    """A state of one joint."""
    return iu.JointState(*(t([[field]]) for field in fields))


def rest(horizon):
    return iu.JointState(*torch.zeros(4, 1, horizon, 1, dtype=torch.float64))


STATE_ROW = [1.0, 2.0, 3.0]  # q, qd, qdd of one joint
STATE, STATE_3D = t([STATE_ROW]), t([[STATE_ROW]])
ACT, SUM = t([[[4.0], [6.0]]]), t([[1.0, 0.0], [1.0, 1.0]])
SUM_3, FORWARD_3 = iu.build_int_matrix(3, dtype=torch.float64), iu.build_fd_matrix(3, dtype=torch.float64)
MASK, N_MASK = iu.build_start_state_mask(4, F64)
DIFFERENCES = tuple(iu.build_fd_matrix(4, dtype=torch.float64, order=k, SHIFT=True) for k in (1, 2, 3))
# qd = 2 + 4, + 6; q = 1 + 6, + 12
ACCELERATED = [[[7, 6, 4], [19, 12, 6]]]
# qdd = 3 + 0.5 * 4, + 6; qd = 2 + 0.5 * 5, + 11; q = 1 + 0.5 * 4.5, + 15.5
JERKED = [[[3.25, 4.5, 5], [18.75, 15.5, 11]]]
# qd = 2, 4, 7; q = 1 + 0.5 * (2, 6, 13); qdd = 3, then (4 - 2) / 0.5, (7 - 4) / 0.5
MOVED = [[[2, 2, 3], [4, 4, 4], [7.5, 7, 6]]]
VELOCITIES = t([[[4.0], [7.0], [99.0]]]), memory(1, 3, 3), t([0.5] * 3), 1, 0.5 * SUM_3, FORWARD_3
# Positions 0, 1, 8, 27 from actions 1, 8, 27 and one that is not used; their differences.
CUBES = t([[[1.0], [8.0], [27.0], [99.0]]]), t([[0.0]]), MASK, N_MASK, *DIFFERENCES
OF_CUBES = [[[[n] for n in row]] for row in ([0, 1, 8, 27], [0, 1, 7, 19], [0, 1, 6, 12], [0, 1, 5, 6])]
# Gradients of ones for each output: how often, and with which sign, an action occurs in it.
ONES, ZEROS = torch.ones(1, 4, 1, dtype=torch.float64), torch.zeros(1, 4, 1, dtype=torch.float64)
PULLS = [
    ((*(ONES if place == k else other for k in range(4)), N_MASK, *DIFFERENCES), [[[n] for n in numbers]])
    for place, numbers in enumerate(([1, 1, 1, 0], [0, 0, 1, 0], [0, -1, 1, 0], [1, -2, 1, 0]))
    for other in (None, ZEROS)
]
# For each name that is no step kernel: arguments and expected results; where possible, a matrix of 64-bit numbers.
EXAMPLES = {
    "build_clique_matrix": [
        (
            (3, t([0.5, 0.25, 0.1]), "cpu", torch.float64),
            [
                *([0, 0, 0], [1, 0, 0], [0, 1, 0]),
                *([0, 0, 0], [-4, 4, 0], [0, -10, 10]),
                *([0, 0, 0], [-16, 16, 0], [0, -100, 100]),
            ],
        )
    ],
    "build_fd_matrix": [
        ((3,), [[-1, 1, 0], [0, -1, 1], [0, 0, 0]]),
        ((4, "cpu", torch.float64, 2), [[1, -2, 1, 0], [0, 1, -2, 1], [0, 0, 1, -1], [0, 0, 0, 0]]),
        ((2, "cpu", torch.float64, 0), [[1, 0], [0, 1]]),
        ((3, "cpu", torch.float64, 1, False, False, True), [[0, 0, 0], [-1, 1, 0], [0, -1, 1]]),
        ((3, "cpu", torch.float64, 2, False, False, True), [[0, 0, 0], [-1, 1, 0], [1, -2, 1]]),
        ((3, "cpu", torch.float64, 2, True), [[-1, 2, -1, 0, 0], [0, -1, 2, -1, 0], [0, 0, -1, 2, -1]]),
        ((2, "cpu", torch.float64, 1, True), [[1, -1, 0], [0, 1, -1]]),
        *(
            (
                (5, "cpu", torch.float64, order, False, True),  # the order is without effect, as published
                [[1, -1, 0, 0, 0], [0, 1, -1, 0, 0], [0, -1, 0, 1, 0], [0, 0, -1, 1, 0], [0, 0, 0, -1, 1]],
            )
            for order in (1, 2)
        ),
    ],
    "build_int_matrix": [
        ((3,), [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
        ((3, -1), [[0, 0, 0], [1, 0, 0], [1, 1, 0]]),
        ((3, 0, "cpu", torch.float64, 2), [[1, 0, 0], [2, 1, 0], [3, 2, 1]]),
        ((2, 0, "cpu", torch.float64, 0), [[1, 0], [0, 1]]),
        ((2, 0, "cpu", torch.float64, 2, t([2.0, 3.0])), [[4, 0], [10, 9]]),
    ],
    "build_start_state_mask": [((3, F64), ([[1], [0], [0]], [[0, 0, 0], [1, 0, 0], [0, 1, 0]]))],
    "tensor_linspace": [
        ((t(1.0), t(3.0), 4), [1.5, 2, 2.5, 3]),
        ((t([[0.0], [1.0]]), t([[1.0], [0.0]]), 2), [[0.5, 1], [0.5, 0]]),
        ((t([0.0, 2.0]), t([1.0, 4.0]), 2), [[0.5, 3], [1, 4]]),
        ((t(0.0), t(1.0)), [k / 10 for k in range(1, 11)]),
    ],
    "sum_matrix": [((3, 2, F64), [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]])],
    "interpolate_kernel": [((3, 3, F64), [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]])],
    "action_interpolate_kernel": [
        ((2, 6, F64), [[0.5, 0.5], [0, 1], [0, 1], [0, 1], [0, 1], [0, 1]]),
        ((3, 3, F64, 1), [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 0], [0, 0.5, 0.5], [0, 0, 1], [0, 1, 0]]),
    ],
    "euler_integrate": [((t([[[1.0]]]), t([[[2.0], [3.0]]]), None, SUM), [[[3], [6]]])],
    "tensor_step_jerk": [((start, ACT, memory(1, 2, 3), t([0.5, 1.0]), 1, SUM), JERKED) for start in (STATE, STATE_3D)],
    "tensor_step_acc": [((start, ACT, memory(1, 2, 3), None, 1, SUM), ACCELERATED) for start in (STATE, STATE_3D)],
    "step_acc_semi_euler": [
        *(((start, ACT, None, 1, SUM), ACCELERATED) for start in (STATE, STATE_3D, t([[STATE_ROW, STATE_ROW]]))),
        # Different rows are each added to their own step.
        ((t([[STATE_ROW, [2.0, 4.0, 0.0]]]), ACT, None, 1, SUM), [[[7, 6, 4], [22, 14, 6]]]),
    ],
    "tensor_step_acc_semi_euler": [
        ((state(1.0, 2.0, 3.0), ACT, rest(2), None, SUM, 2 * SUM), [[[[13], [37]]], [[[6], [12]]], ACT, 0 * ACT])
    ],
    "tensor_step_vel": [((start, *VELOCITIES), MOVED) for start in (STATE, STATE_3D)],
    "tensor_step_pos": [
        (
            (state(1.0, 2.0, 3.0), t([[[4.0], [9.0], [99.0]]]), rest(3), FORWARD_3),
            [[[[row[k]] for row in ([1, 2, 3], [4, 3, 1], [9, 5, 2])]] for k in range(3)] + [[[[0]] * 3]],
        )
    ],
    "tensor_step_pos_ik": [((ACT, rest(2)), [ACT, *[0 * ACT] * 3])],
    "tensor_step_pos_clique": [((state(0.0), CUBES[0], state(0.0), (MASK, N_MASK), DIFFERENCES), OF_CUBES)],
    "CliqueTensorStep": [(CUBES, OF_CUBES)],
    "jit_tensor_step_pos_clique": [(CUBES, OF_CUBES)],
    "jit_tensor_step_pos_clique_contiguous": [(CUBES, OF_CUBES)],
    "jit_backward_pos_clique": PULLS,
    "jit_backward_pos_clique_contiguous": PULLS,
}


def function_of(name):
    entry = getattr(iu, name)
    return entry.apply if inspect.isclass(entry) else entry


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_name_gives_what_its_examples_say(name):
    for arguments, expected in EXAMPLES[name]:
        given = tree_map(lambda x: x.clone() if torch.is_tensor(x) else x, arguments)
        result = function_of(name)(*given)
        named = dict(zip(inspect.signature(function_of(name)).parameters, given, strict=False))
        assert result is named.get("state_seq", result)
        if isinstance(expected, list) and torch.is_tensor(result):
            expected = [expected]
        for got, numbers in zip(tree_leaves(result), expected, strict=True):
            assert got.is_contiguous() or "contiguous" not in name
            assert_close(got.double(), numbers if torch.is_tensor(numbers) else t(numbers).double())


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_name_has_its_derivatives(name):
    """Reverse and forward mode, with respect to all tensors of the last two examples."""
    function = function_of(name)
    for arguments, _ in EXAMPLES[name][-2:]:
        leaves, tree = tree_flatten(arguments)
        places = [k for k, x in enumerate(leaves) if torch.is_tensor(x) and x.isfinite().all()]

        def of_tensors(*values, places=places, leaves=leaves, tree=tree):
            given = [x.clone() if torch.is_tensor(x) else x for x in leaves]
            for place, value in zip(places, values, strict=True):
                given[place] = value
            return tuple(tree_leaves(function(*tree_unflatten(given, tree))))

        inputs = [leaves[place].clone().requires_grad_() for place in places]
        assert not inputs or torch.autograd.gradcheck(of_tensors, inputs, check_forward_ad=True)


@pytest.mark.parametrize("case", STEP_KERNELS, ids=str)
def test_a_step_kernel_has_its_derivatives(case):
    arguments = case.arguments(batch=2, horizon=3, dof=1, requires_grad=True)
    torch.autograd.gradcheck(case.on(arguments), arguments.differentiable, check_forward_ad=True)
    torch.autograd.gradgradcheck(case.on(arguments), arguments.differentiable)


@pytest.mark.parametrize("case", [case for case in STEP_KERNELS if case.extra_horizon], ids=str)
def test_the_gradient_of_equal_steps_is_shared_out_evenly(case):
    arguments = case.arguments(horizon=4, requires_grad=True)
    (expected,) = torch.autograd.grad(squares(case.apply(arguments)), arguments.traj_dt)
    arguments.traj_dt = arguments.traj_dt.detach().repeat(4).requires_grad_()
    (found,) = torch.autograd.grad(squares(case.apply(arguments)), arguments.traj_dt)
    assert_close(found, (expected / 4).expand(4), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: iu.build_fd_matrix(4, FULL_RANK=True), "horizon: expected an odd number >= 3 with FULL_RANK, got 4"),
        (lambda: iu.build_fd_matrix(3, order=-1), "order: expected >= 0, got -1"),
        (lambda: iu.build_int_matrix(3, order=-1), "order: expected >= 0, got -1"),
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


def test_reused_state_seq_keeps_no_graph_of_earlier_calls():
    state, act, seq = torch.zeros(1, 6), torch.ones(1, 3, 2, requires_grad=True), torch.zeros(1, 3, 6)
    for _ in range(3):
        out = iu.tensor_step_acc(state, act, seq, None, 2, torch.eye(3))
        (gradient,) = torch.autograd.grad(out.sum(), act)
    assert torch.equal(gradient, torch.full_like(act, 3.0))
    assert out.grad_fn.next_functions[0][0] is None


TRAJ_DT = {
    "number": lambda dt: dt[0, 0].item(),
    "scalar": lambda dt: dt[0, 0],
    "per step": lambda dt: dt[0],
    "per trajectory": lambda dt: dt[:, :1],
    "of all": lambda dt: dt,
}


@pytest.mark.parametrize("case", STEP_KERNELS, ids=str)
@pytest.mark.parametrize("form", TRAJ_DT)
def test_a_step_kernel_is_its_specification_for_traj_dt_in_every_form(case, form):
    lengths = torch.full((3, 7), 0.29, dtype=torch.float64)
    if form in ("per step", "of all") and not case.extra_horizon:
        lengths = lengths * torch.arange(1, 8)
    if form == "of all" and case.extra_horizon:
        form = "per trajectory"
    if form in ("per trajectory", "of all"):
        lengths = lengths * torch.tensor([[1], [3], [2]])
    map_name = ("clique_central" if case.extra_horizon else "clique") if case.takes_rate else "acceleration_zoh"
    for dtype, tolerance in ((torch.float64, 1e-13), (torch.float32, 1e-7)):
        arguments = case.arguments(batch=3, horizon=7, dof=2, dtype=dtype)
        given = (1 / lengths if case.takes_rate else lengths).to(dtype)
        steps = (1 / given.double() if case.takes_rate else given.double()).numpy()
        arguments.traj_dt = TRAJ_DT[form](given)
        outputs = [output.double().numpy() for output in case.apply(arguments)]
        for b, action in enumerate(arguments.action.double().numpy()):
            row = int(arguments.start_idx[b]) if case.indexed else b
            start = [*(rows[row].double().numpy() for rows in arguments.start), np.zeros(2)]
            expected = spec_trajectory(map_name, action, start, None, steps[b], ())
            for output, numbers in zip(outputs, expected, strict=True):
                assert np.linalg.norm(output[b] - numbers) <= tolerance * np.linalg.norm(numbers)

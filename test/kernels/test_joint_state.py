"""JointState and TensorDeviceType: what the helpers of the drop-in module are given and give back."""

from __future__ import annotations

import pytest
import torch

from traj_integrator_ros.kernels.integration_utils import JointState, TensorDeviceType

NAMES = ("shoulder", "elbow", "wrist")
FIELDS = ("position", "velocity", "acceleration", "jerk")


@pytest.fixture
def state() -> JointState:
    """Two rows of three steps of three joints; every number differs."""
    values = torch.arange(4 * 2 * 3 * 3, dtype=torch.float64).reshape(4, 2, 3, 3)
    return JointState(*values, joint_names=NAMES)


def every_field(result, source, function):
    for name in FIELDS:
        assert torch.equal(getattr(result, name), function(getattr(source, name)))


@pytest.mark.parametrize(
    ("pick", "expected"),
    [
        (lambda s: s[0], lambda f: f[0]),
        (lambda s: s[:, 1:], lambda f: f[:, 1:]),
        (lambda s: s[..., -1], lambda f: f[:, -1]),
        (lambda s: s[torch.tensor([1, 0])], lambda f: f.flip(0)),
        (lambda s: s[[1]], lambda f: f[1:]),
        (lambda s: s[:, None], lambda f: f[:, None]),
        (lambda s: s[0, 2], lambda f: f[0, 2]),
        (lambda s: s[torch.tensor([[True, False, True], [False, False, True]])], lambda f: f[[0, 0, 1], [0, 2, 2]]),
    ],
)
def test_index_picks_rows_of_every_field_and_leaves_the_joints(state, pick, expected):
    picked = pick(state)
    every_field(picked, state, expected)
    assert picked.joint_names == NAMES


@pytest.mark.parametrize(
    ("dim", "shape"), [(0, (1, 2, 3, 3)), (1, (2, 1, 3, 3)), (2, (2, 3, 1, 3)), (-2, (2, 3, 1, 3))]
)
def test_unsqueeze_puts_a_dimension_before_the_joints(state, dim, shape):
    assert state.unsqueeze(dim).shape == shape


def test_stack_and_cat_join_every_field_along_rows(state):
    other = state[:, :]
    every_field(JointState.stack([state, other], 1), state, lambda field: torch.stack([field, field], 1))
    every_field(JointState.cat([state[:1], state[1:]]), state, lambda field: field)
    assert JointState.cat([state, other], dim=1).shape == (2, 6, 3)
    assert (len(state), state.dof) == (2, 3)
    assert JointState.stack([state, other]).joint_names == NAMES


def test_reindex_reorders_and_selects_joints_by_name(state):
    picked = state.reindex(["wrist", "shoulder"])
    every_field(picked, state, lambda field: field[..., [2, 0]])
    assert picked.joint_names == ("wrist", "shoulder")
    every_field(picked.reindex(["shoulder", "wrist"]), state, lambda field: field[..., [0, 2]])


def test_clone_has_its_own_memory_and_detach_does_not(state):
    clone, view = state.clone(), state.detach()
    state.jerk.zero_()
    assert clone.jerk.any()
    assert not view.jerk.any()


def test_gradient_flows_through_reindex_index_and_clone(state):
    state.position.requires_grad_()
    state.reindex(["elbow"])[0].clone().position.sum().backward()
    expected = torch.zeros_like(state.position)
    expected[0, :, 1] = 1
    assert torch.equal(state.position.grad, expected)
    assert not state.detach().position.requires_grad


@pytest.mark.parametrize("target", [torch.float32, TensorDeviceType("cpu", torch.float32)])
def test_to_changes_every_field(state, target):
    moved = state.to(target)
    assert {getattr(moved, name).dtype for name in FIELDS} == {torch.float32}
    assert state.to("meta").position.device.type == "meta"


def test_fields_not_given_stay_none(state):
    only = JointState(state.position, joint_names=NAMES)
    for result in (only[0], only.clone(), only.unsqueeze(0), only.reindex(NAMES[:2]), JointState.stack([only, only])):
        assert result.velocity is None
        assert result.acceleration is None
        assert result.jerk is None


MISUSES = [
    (lambda s: s[0, 0, 0], IndexError, "too many indices"),
    (lambda s: s.unsqueeze(3), IndexError, "dim: expected a place before the dof, .* got 3"),
    (lambda s: s.unsqueeze(-1), IndexError, "dim: expected a place before the dof, .* got -1"),
    (lambda s: s.unsqueeze(-5), IndexError, "dim: expected a place before the dof, .* got -5"),
    (lambda s: JointState.stack([s, JointState(s.position, joint_names=NAMES)]), ValueError, "states: .* the fields"),
    (lambda s: JointState.stack([s, s.reindex(NAMES[::-1])]), ValueError, "states: expected the joint names"),
    (lambda s: JointState.cat([]), ValueError, "expected at least one JointState, got none"),
    (lambda s: JointState.cat([s, s], dim=2), IndexError, "before the dof"),
    (lambda s: s.reindex(["wrist", "hip"]), ValueError, r"got unknown \['hip'\]"),
    (lambda s: s.reindex(["wrist", "wrist"]), ValueError, "expected every name once"),
    (lambda s: JointState(s.position).reindex(["wrist"]), ValueError, "joint_names: expected a state with joint names"),
    (lambda s: len(s[0, 0]), TypeError, "one state has no rows"),
    (lambda s: JointState(None), TypeError, "position: expected a tensor, got NoneType"),
    (lambda s: JointState(s.position, [0.0]), TypeError, "velocity: expected a tensor, got list"),
    (lambda s: JointState(s.position, s.jerk[:1]), ValueError, r"velocity: .* shape \[2, 3, 3\], got .*\[1, 3, 3\]"),
    (lambda s: JointState(torch.zeros(())), ValueError, r"position: expected \[..., dof\], got shape \[\]"),
    (lambda s: JointState(s.jerk, joint_names=["a"]), ValueError, r"joint_names: .* 3 different names, got \['a'\]"),
    (lambda s: JointState(s.jerk, joint_names="aab"), ValueError, "joint_names: expected 3 different names"),
    (lambda s: TensorDeviceType("cpu", "float32"), TypeError, r"dtype: expected a torch\.dtype, got 'float32'"),
]


@pytest.mark.parametrize(("call", "error", "message"), MISUSES)
def test_misuse_is_named(state, call, error, message):
    with pytest.raises(error, match=message):
        call(state)


def test_vmap_takes_and_returns_states(state):
    def double(row: JointState) -> JointState:
        return JointState(2 * row.position, row.velocity, joint_names=row.joint_names)

    result = torch.func.vmap(double)(state)
    assert torch.equal(result.position, 2 * state.position)
    assert result.joint_names == NAMES


def test_zeros_are_at_rest_in_the_dtype_asked_for():
    rest = JointState.zeros((2, 3), TensorDeviceType(dtype=torch.float64), NAMES)
    assert all(torch.equal(getattr(rest, name), torch.zeros(2, 3, dtype=torch.float64)) for name in FIELDS)
    assert rest.joint_names == NAMES


def test_tensor_device_type_makes_tensors():
    tensor_args = TensorDeviceType("cpu", torch.float64)
    assert tensor_args == TensorDeviceType(torch.device("cpu"), torch.float64)
    made = tensor_args.to_device([1, 2])
    assert made.dtype == torch.float64
    assert torch.zeros(2, **tensor_args.as_torch_dict()).dtype == torch.float64

"""JointState and TensorDeviceType: what the helpers of the drop-in module are given and give back."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree

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


def test_index_cannot_reach_into_the_joints(state):
    with pytest.raises(IndexError):
        state[0, 0, 0]


@pytest.mark.parametrize(
    ("dim", "shape"), [(0, (1, 2, 3, 3)), (1, (2, 1, 3, 3)), (2, (2, 3, 1, 3)), (-2, (2, 3, 1, 3))]
)
def test_unsqueeze_puts_a_dimension_before_the_joints(state, dim, shape):
    assert state.unsqueeze(dim).shape == shape


@pytest.mark.parametrize("dim", [3, -1, -5])
def test_unsqueeze_refuses_a_dimension_behind_the_joints(state, dim):
    with pytest.raises(IndexError, match=f"dim: expected a place before the dof, .* got {dim}"):
        state.unsqueeze(dim)


def test_stack_and_cat_join_every_field(state):
    other = state[:, :]
    every_field(JointState.stack([state, other], 1), state, lambda field: torch.stack([field, field], 1))
    every_field(JointState.cat([state[:1], state[1:]]), state, lambda field: field)
    assert JointState.cat([state, other], dim=1).shape == (2, 6, 3)
    assert JointState.stack([state, other]).joint_names == NAMES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: JointState(s.position, joint_names=NAMES), "states: expected the fields"),
        (lambda s: s.reindex(NAMES[::-1]), "states: expected the joint names"),
    ],
)
def test_states_that_do_not_match_are_not_joined(state, change, message):
    with pytest.raises(ValueError, match=message):
        JointState.stack([state, change(state)])


def test_nothing_and_the_joints_themselves_are_not_joined(state):
    with pytest.raises(ValueError, match="expected at least one JointState, got none"):
        JointState.cat([])
    with pytest.raises(IndexError, match="before the dof"):
        JointState.cat([state, state], dim=2)


def test_reindex_reorders_and_selects_joints_by_name(state):
    picked = state.reindex(["wrist", "shoulder"])
    every_field(picked, state, lambda field: field[..., [2, 0]])
    assert picked.joint_names == ("wrist", "shoulder")
    every_field(picked.reindex(["shoulder", "wrist"]), state, lambda field: field[..., [0, 2]])


@pytest.mark.parametrize(
    ("names", "message"),
    [(["wrist", "hip"], r"got unknown \['hip'\]"), (["wrist", "wrist"], "expected every name once")],
)
def test_reindex_names_what_it_cannot_find(state, names, message):
    with pytest.raises(ValueError, match=message):
        state.reindex(names)


def test_reindex_needs_names(state):
    with pytest.raises(ValueError, match="joint_names: expected a state with joint names"):
        JointState(state.position).reindex(["wrist"])


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


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda x: JointState(None), TypeError, "position: expected a tensor, got NoneType"),
        (lambda x: JointState(x, [0.0]), TypeError, "velocity: expected a tensor, got list"),
        (
            lambda x: JointState(x, x[:1]),
            ValueError,
            r"velocity: expected the position's shape \[2, 3\], got .*\[1, 3\]",
        ),
        (lambda x: JointState(x[0, 0]), ValueError, r"position: expected \[..., dof\], got shape \[\]"),
        (
            lambda x: JointState(x, joint_names=["a"]),
            ValueError,
            r"joint_names: expected 3 different names, got \['a'\]",
        ),
        (lambda x: JointState(x, joint_names="aab"), ValueError, "joint_names: expected 3 different names"),
    ],
)
def test_constructor_names_what_does_not_fit(make, error, message):
    with pytest.raises(error, match=message):
        make(torch.zeros(2, 3))


def test_is_a_pytree_of_its_tensors(state):
    leaves, spec = _pytree.tree_flatten(state)
    assert [leaf is getattr(state, name) for leaf, name in zip(leaves, FIELDS, strict=True)] == [True] * 4
    doubled = _pytree.tree_map(lambda leaf: 2 * leaf, state)
    every_field(doubled, state, lambda field: 2 * field)
    assert doubled.joint_names == NAMES
    assert _pytree.tree_unflatten(leaves, spec).position is state.position


def test_vmap_takes_and_returns_states(state):
    def double(row: JointState) -> JointState:
        return JointState(2 * row.position, row.velocity, joint_names=row.joint_names)

    result = torch.func.vmap(double)(state)
    assert torch.equal(result.position, 2 * state.position)
    assert result.joint_names == NAMES


def test_length_is_the_number_of_rows(state):
    assert len(state) == 2
    assert state.dof == 3
    with pytest.raises(TypeError, match="one state has no rows"):
        len(state[0, 0])


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
    with pytest.raises(TypeError, match=r"dtype: expected a torch\.dtype, got 'float32'"):
        TensorDeviceType("cpu", "float32")

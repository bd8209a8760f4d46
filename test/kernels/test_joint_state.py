"""JointState and TensorDeviceType: arguments and results of the drop-in module's helpers."""

from __future__ import annotations

import pytest
import torch

from traj_integrator_ros.kernels.integration_utils import JointState, TensorDeviceType

NAMES = ("shoulder", "elbow", "wrist")
FIELDS = ("position", "velocity", "acceleration", "jerk")


@pytest.fixture
def state() -> JointState:
    """Two rows of three steps of three joints; all numbers differ."""
    values = torch.arange(4 * 2 * 3 * 3, dtype=torch.float64).reshape(4, 2, 3, 3)
    return JointState(*values, joint_names=NAMES)


def every_field(result, source, function):
    for name in FIELDS:
        assert torch.equal(getattr(result, name), function(getattr(source, name)))


@pytest.mark.parametrize(
    ("of_state", "of_field"),
    [
        (lambda s: s[0], lambda f: f[0]),
        (lambda s: s[:, 1:], lambda f: f[:, 1:]),
        (lambda s: s[..., -1], lambda f: f[:, -1]),
        (lambda s: s[torch.tensor([1, 0])], lambda f: f.flip(0)),
        (lambda s: s[[1]], lambda f: f[1:]),
        (lambda s: s[:, None], lambda f: f[:, None]),
        (lambda s: s[0, 2], lambda f: f[0, 2]),
        (lambda s: s[torch.tensor([[True, False, True], [False, False, True]])], lambda f: f[[0, 0, 1], [0, 2, 2]]),
        *((lambda s, dim=dim: s.unsqueeze(dim), lambda f, dim=dim: f.unsqueeze(dim)) for dim in (0, 1, 2, -2)),
        (lambda s: JointState.stack([s, s]), lambda f: torch.stack([f, f])),
        (lambda s: JointState.stack([s, s], 1), lambda f: torch.stack([f, f], 1)),
        (lambda s: JointState.cat([s[:1], s[1:]]), lambda f: f),
        (lambda s: JointState.cat([s, s], dim=1), lambda f: torch.cat([f, f], 1)),
    ],
)
def test_rows_of_every_field_are_picked_and_joined_and_the_joints_left(state, of_state, of_field):
    assert (len(state), state.dof) == (2, 3)
    every_field(of_state(state), state, of_field)
    assert of_state(state).joint_names == NAMES


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
        assert (result.velocity, result.acceleration, result.jerk) == (None, None, None)


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


def test_zeros_are_at_rest_and_tensors_made_in_the_dtype_asked_for():
    tensor_args = TensorDeviceType("cpu", torch.float64)
    assert tensor_args == TensorDeviceType(torch.device("cpu"), torch.float64)
    assert tensor_args.to_device([1, 2]).dtype == torch.zeros(2, **tensor_args.as_torch_dict()).dtype == torch.float64
    rest = JointState.zeros((2, 3), tensor_args, NAMES)
    assert all(torch.equal(getattr(rest, name), torch.zeros(2, 3, dtype=torch.float64)) for name in FIELDS)
    assert rest.joint_names == NAMES

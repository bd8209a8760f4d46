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
    ],
)
def test_rows_of_every_field_are_picked_and_the_joints_left(state, of_state, of_field):
    every_field(of_state(state), state, of_field)
    assert of_state(state).joint_names == NAMES


def test_reindex_reorders_and_selects_joints_by_name(state):
    picked = state.reindex(["wrist", "shoulder"])
    every_field(picked, state, lambda field: field[..., [2, 0]])
    assert picked.joint_names == ("wrist", "shoulder")
    every_field(picked.reindex(["shoulder", "wrist"]), state, lambda field: field[..., [0, 2]])


@pytest.mark.parametrize("target", [torch.float32, TensorDeviceType("cpu", torch.float32)])
def test_to_changes_every_field(state, target):
    moved = state.to(target)
    assert {getattr(moved, name).dtype for name in FIELDS} == {torch.float32}
    assert state.to("meta").position.device.type == "meta"


def test_fields_not_given_stay_none(state):
    only = JointState(state.position, joint_names=NAMES)
    for result in (only[0], only.unsqueeze(0), only.reindex(NAMES[:2])):
        assert (result.velocity, result.acceleration, result.jerk) == (None, None, None)


MISUSES = [
    (lambda s: s[0, 0, 0], IndexError, "too many indices"),
    (lambda s: s.unsqueeze(3), IndexError, "dim: expected a place before the dof, .* got 3"),
    (lambda s: s.unsqueeze(-1), IndexError, "dim: expected a place before the dof, .* got -1"),
    (lambda s: s.unsqueeze(-5), IndexError, "dim: expected a place before the dof, .* got -5"),
    (lambda s: s.reindex(["wrist", "hip"]), ValueError, r"got unknown \['hip'\]"),
    (lambda s: s.reindex(["wrist", "wrist"]), ValueError, "expected every name once"),
    (lambda s: JointState(s.position).reindex(["wrist"]), ValueError, "joint_names: expected a state with joint names"),
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

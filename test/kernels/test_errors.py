"""Every misuse of a step function raises an error that names the argument, what was expected, and what came."""

from __future__ import annotations

import math
import re

import pytest
import torch
from operator_cases import MAP, SIGNATURE, signature_case

from traj_integrator_ros.kernels import (
    MAPS,
    CostTerm,
    QuadraticCost,
    acceleration_step,
    clique_central_step,
    clique_step,
    control_map,
    differentiate_positions,
    quadratic_cost,
)

B, H, D = 3, 5, 2

# Argument to change, its bad value, type of the error, message after the argument's name.
MISUSES = [
    ("action", [[0.0]], TypeError, "expected a tensor, got list"),
    ("action", torch.zeros(B, H, D, dtype=torch.int64), TypeError, "expected one of torch.float64"),
    ("action", torch.zeros(D), ValueError, "expected shape [batch, horizon >= 1, dof]"),
    ("action", torch.zeros(B, H, D).to_sparse(), TypeError, "expected a dense tensor, got a torch.sparse_coo one"),
    ("action", torch.nested.nested_tensor([torch.zeros(H, D)] * B), TypeError, "expected a dense tensor, got a nested"),
    ("start_velocity", torch.zeros(B, D).to_sparse(), TypeError, "expected a dense tensor, got a torch.sparse_coo one"),
    ("start_position", torch.nested.nested_tensor([torch.zeros(D)] * B), TypeError, "expected a dense tensor"),
    ("dt", torch.ones(H).to_sparse(), TypeError, "expected a dense tensor, got a torch.sparse_coo one"),
    ("start_index", torch.zeros(B, dtype=torch.int64).to_sparse(), TypeError, "expected a dense tensor"),
    ("action", torch.zeros(B, 0, D), ValueError, "got [3, 0, 2]"),
    ("start_position", None, TypeError, "expected a tensor, got None"),
    ("start_position", 0.0, TypeError, "expected a tensor, got float"),
    ("start_velocity", [0.0] * D, TypeError, "expected a tensor, got list"),
    ("start_velocity", torch.zeros(B, D).double(), TypeError, "the action's dtype torch.float32, got torch.float64"),
    ("start_acceleration", torch.zeros(B, D, device="meta"), ValueError, "expected the action's device cpu, got meta"),
    ("start_position", torch.zeros(B, 4), ValueError, "expected shape [rows, dof = 2], got [3, 4]"),
    ("start_velocity", torch.zeros(2, 2, D), ValueError, "expected shape [rows, dof = 2], got [2, 2, 2]"),
    ("start_velocity", torch.zeros(2, D), ValueError, "expected 1 row, or one for each of the 3 trajectories, or"),
    ("start_velocity", torch.zeros(2, D), ValueError, "start_index to pick from a pool; got 2 rows"),
    ("start_index", torch.zeros(2, dtype=torch.int32), ValueError, "expected shape [batch = 3]"),
    ("start_index", torch.zeros(3, 1, dtype=torch.int64), ValueError, "got [3, 1]"),
    ("dt", [0.1] * H, TypeError, "expected a number of seconds or a tensor, got list"),
    ("start_index", [0] * B, TypeError, "expected an int32 or int64 tensor, got list"),
    ("start_index", torch.zeros(3), TypeError, "expected an int32 or int64 tensor, got torch.float32"),
    ("start_index", torch.zeros(3, dtype=torch.int64, device="meta"), ValueError, "expected the action's device cpu"),
    ("dt", 0.0, ValueError, "expected a finite number of seconds > 0, got 0.0"),
    ("dt", -0.1, ValueError, "expected a finite number of seconds > 0, got -0.1"),
    ("dt", math.nan, ValueError, "expected a finite number of seconds > 0, got nan"),
    ("dt", math.inf, ValueError, "expected a finite number of seconds > 0, got inf"),
    ("dt", "fast", TypeError, "expected a number of seconds or a tensor, got str"),
    ("dt", None, TypeError, "expected a number of seconds or a tensor, got NoneType"),
    ("dt", torch.ones(1, dtype=torch.int64), TypeError, "expected a floating-point tensor, got torch.int64"),
    ("dt", torch.ones(4), ValueError, "got shape [4] with dt_per='step'"),
    ("dt", torch.ones(B, H, 1), ValueError, "[3, 5], or [batch]"),
    ("dt", torch.ones(B), ValueError, "expected a scalar, [horizon = 5], [batch = 3, 1]"),
    ("dt", torch.ones(1, device="meta"), ValueError, "expected the action's device cpu, got meta"),
    ("dt_per", "row", ValueError, "expected 'step' or 'trajectory', got 'row'"),
    ("backend", "cuda", ValueError, "expected None or one of 'reference', 'native', 'triton', got 'cuda'"),
]


def arguments(kernel) -> dict[str, object]:
    return {
        kernel.action_name: torch.zeros(B, H, D),
        "start_position": torch.zeros(B, D),
        "start_velocity": torch.zeros(B, D),
        "start_acceleration": torch.zeros(B, D),
        "dt": 0.1,
    }


@SIGNATURE
@pytest.mark.parametrize(("argument", "value", "error", "message"), MISUSES)
def test_misuse_is_named_with_what_was_expected_and_what_came(kernel, argument, value, error, message):
    """Errors have the same words on the direct way into the C++ kernels and on the general one, beside a tensor dt."""
    argument = kernel.action_name if argument == "action" else argument
    kernel.step(**arguments(kernel))  # arguments that every misuse changes
    for options in ({}, {"dt": torch.tensor([0.1])}, {"backend": "reference"}):
        with pytest.raises(error, match=f"^{argument}: .*{re.escape(message)}"):
            kernel.step(**{**arguments(kernel), **options, argument: value})


@MAP
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("horizon", [1, 2])
def test_the_smallest_shapes_are_no_misuse(kernel, batch, horizon):
    case = signature_case(kernel, batch=batch, horizon=horizon, dof=1)
    outputs = case.step(*(inputs := case.leaves()))
    assert all(output.shape == (batch, kernel.output_horizon(horizon), 1) for output in outputs)
    gradients = torch.autograd.grad([output.sum() for output in outputs], inputs)
    assert [g.shape for g in gradients] == [x.shape for x in inputs]


VJP_MISUSES = [
    ({"upstream": (None,) * 4}, ValueError, "upstream: expected at least one tensor, got None for all"),
    ({"upstream": ([0.0], None, None, None)}, TypeError, "grad_position: expected a tensor, got list"),
    ({"action_horizon": H + 1}, ValueError, "grad_position: expected shape [batch, horizon = "),
    ({"double": True}, TypeError, "grad_jerk: expected torch.float32 on cpu like the others, got torch.float64 on cpu"),
    ({"start_rows": 2}, ValueError, "start_rows: expected 1 or 3 without start_index, got 2"),
    ({"start_index": torch.zeros(2, dtype=torch.int64)}, ValueError, "start_index: expected shape"),
    ({"dt": 0.0}, ValueError, "dt: expected a finite number of seconds > 0, got 0.0"),
]


@SIGNATURE
@pytest.mark.parametrize(("changes", "error", "message"), VJP_MISUSES)
def test_misuse_of_vjp_is_named(kernel, changes, error, message):
    gradient = torch.zeros(B, kernel.output_horizon(H), D)
    correct = {"upstream": (gradient, None, None, gradient), "dt": 0.1, "action_horizon": H, "start_rows": B}
    kernel.vjp(**correct)
    if "double" in changes:
        changes = {"upstream": (gradient, None, None, gradient.double())}
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        kernel.vjp(**{**correct, **changes})


ACTION, P0 = torch.zeros(4, H, D), torch.zeros(4, D)


def vjp(name: str, **options: object) -> None:
    MAPS[name].vjp([ACTION, None, None, None], dt=0.1, action_horizon=H, start_rows=1, **options)


def cost(start: torch.Tensor, **options: object) -> None:
    quadratic_cost(ACTION, start, cost=QuadraticCost(CostTerm(1.0)), control_map="jerk", dt=0.1, **options)


POOL, INDEX, WRONG = torch.zeros(3, D), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 4, 0])
ROWS, TIMES, TWICE = torch.zeros(3, 2), torch.arange(3.0), torch.tensor([0.0, 2.0, 2.0])
OTHERS = [
    (lambda: clique_step(ACTION, P0, POOL, dt=0.1, start_index=INDEX), "start_velocity: .* the 4 rows .* pool, got 3"),
    (lambda: clique_step(ACTION, POOL, dt=0.1, start_index=WRONG), "start_index: expected rows 0 to 2, got 4"),
    (lambda: clique_step(ACTION[:, :1], P0, goal_position=P0, dt=0.1), "action: .* horizon >= 2 with a goal, got 1"),
    (lambda: clique_step(ACTION, P0, goal_index=INDEX, dt=0.1), "goal_position: .* tensor with goal_index, got None"),
    (lambda: clique_central_step(ACTION, P0, dt=torch.ones(4, H)), "dt: central .* one step length per trajectory"),
    (lambda: clique_central_step(ACTION, P0, dt=torch.ones(H)), "dt: central .* one step length per trajectory"),
    (lambda: acceleration_step(ACTION, P0, dt=0.1, integrator="rk2"), "integrator: .* 'semi_.*_euler', got 'rk2'"),
    (lambda: control_map(7), "control_map: .*ControlSpace, got 7"),
    (lambda: control_map(1, "upwind"), "'upwind' is not a valid"),
    (lambda: control_map(3, "backward", "rk2"), "'rk2' is not a valid"),
    (lambda: cost(POOL, start_index=WRONG), "start_index"),
    (lambda: vjp("clique", goal_index=INDEX), "goal_rows: expected a number of rows with goal_index, got None"),
    (lambda: vjp("velocity", goal_rows=1), "goal_rows: expected None, because velocity takes no goal, got 1"),
    (lambda: differentiate_positions(TIMES, TIMES), r"position: expected shape \[..., N >= 1, D\], got \[3\]"),
    (lambda: differentiate_positions(ROWS, torch.arange(4.0)), r"time: expected shape \[3\].*got \[4\]"),
    (lambda: differentiate_positions(ROWS, TWICE), "time: expected strictly increasing values, got 2.*row 2"),
    (lambda: differentiate_positions(ROWS, TWICE * torch.nan), "time: expected strictly increasing"),
    (lambda: differentiate_positions(ROWS, TIMES, TIMES), r"start_velocity: expected shape \[2\].*got \[3\]"),
    (lambda: differentiate_positions(ROWS, TIMES, None, ROWS[:1]), r"start_acceleration: .* \[2\].*got \[1, 2\]"),
]


@pytest.mark.parametrize(("call", "message"), OTHERS)
def test_misuse_of_what_not_every_map_has_is_named(call, message):
    with pytest.raises((ValueError, IndexError), match=f"^{message}"):
        call()

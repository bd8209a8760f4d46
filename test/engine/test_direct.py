"""The C++ kernels on borrowed arrays: they take what suits, and touch nothing where anything does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from preloaded_python import preloaded_python

try:
    from traj_integrator_ros.kernels.native import step_into, vjp_into
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)

BATCH, HORIZON, DOF = 4, 6, 3
SIZE = BATCH * HORIZON * DOF
CENTRAL = 1


def zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def forward(**changes: object) -> list[object]:
    """Arguments of `step_into` that suit, but for the changes."""
    arguments = {
        "map": 0,
        "action": np.ones((BATCH, HORIZON, DOF), np.float32),
        "start": (zeros(1, DOF), zeros(1, DOF), None),
        "start_index": None,
        "goal": None,
        "goal_index": None,
        "dt": np.full((1, 1), 0.1),
        "out": np.full((4, BATCH, HORIZON, DOF), np.nan, np.float32),
    }
    assert changes.keys() <= arguments.keys()
    return list({**arguments, **changes}.values())


def of_vjp(**changes: object) -> list[object]:
    """Arguments of `vjp_into` that suit, but for the changes."""
    gradient, rows = np.ones((BATCH, HORIZON, DOF), np.float32), np.full((2, 1, DOF), np.nan, np.float32)
    arguments = {
        "map": 0,
        "upstream": (gradient, None, gradient, None),
        "start_index": None,
        "goal_index": None,
        "dt": np.full((1, 1), 0.1),
        "truncate": False,
        "action": np.full((BATCH, HORIZON, DOF), np.nan, np.float32),
        "start": (*rows, None),
        "goal": None,
    }
    assert changes.keys() <= arguments.keys()
    return list({**arguments, **changes}.values())


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


GRADIENT = zeros(BATCH, HORIZON, DOF)
POOL = {"start": (zeros(2, DOF), zeros(2, DOF))}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"action": torch.ones(BATCH, HORIZON, DOF), "start": (torch.zeros(1, DOF), None, None)},
        {"action": read_only(np.ones((BATCH, HORIZON, DOF), np.float32)), "start": (read_only(zeros(1, DOF)),)},
        {"start": (None, None, None)},
        {"start": (zeros(BATCH, DOF), zeros(BATCH, DOF), None)},
        {**POOL, "start_index": np.array([0, 1, 1, 0])},
        {**POOL, "start_index": np.array([0, 1, 1, 0], np.int32)},
        {"dt": np.full((BATCH, HORIZON), 0.1)},
        {"action": torch.zeros(BATCH, DOF, HORIZON).mT},
        {"action": torch.zeros(BATCH, HORIZON, DOF)._neg_view()},
    ],
)
def test_arrays_that_suit_are_taken(changes):
    arguments = forward(**changes)
    assert step_into(*arguments) is True
    assert np.isfinite(arguments[-1]).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"action": None},
        {"action": [[[0.0]]]},
        {"action": zeros(BATCH, HORIZON, DOF, dtype=np.float64)},
        {"action": zeros(BATCH, HORIZON, DOF, dtype=">f4")},
        {"action": zeros(BATCH, HORIZON, DOF, dtype=np.int32)},
        {"action": zeros(BATCH, HORIZON, DOF)[:, ::2]},
        {"action": zeros(BATCH, DOF)},
        {"action": zeros(BATCH, 0, DOF), "out": zeros(4, BATCH, 0, DOF)},
        {"action": torch.zeros(BATCH, HORIZON, DOF, dtype=torch.float16)},
        {"action": torch.zeros(BATCH, HORIZON, DOF, device="meta")},
        POOL,
        {"start": (zeros(BATCH, DOF), zeros(1, DOF))},
        {"start": (zeros(1, DOF + 1),)},
        {"start": (zeros(0, DOF),)},
        {**POOL, "start_index": np.array([0, 1, 2, 0])},
        {**POOL, "start_index": np.array([0, -1, 1, 0], np.int32)},
        {**POOL, "start_index": np.array([0, 1, 1, 0], np.uint32)},
        {**POOL, "start_index": np.array([0, 1, 1])},
        {"dt": None},
        {"dt": zeros(1, 1)},
        {"dt": np.ones((HORIZON, 1))},
        {"dt": np.ones(HORIZON)},
        {"dt": np.ones((1, HORIZON)), "map": CENTRAL, "out": zeros(4, BATCH, HORIZON + 4, DOF)},
        {"map": CENTRAL},
        {"out": zeros(3, BATCH, HORIZON, DOF)},
        {"out": zeros(4, BATCH, HORIZON, DOF, dtype=np.float64)},
        {"out": zeros(4, BATCH, HORIZON, DOF + 1)[..., :DOF]},
        {"out": read_only(zeros(4, BATCH, HORIZON, DOF))},
    ],
)
def test_what_does_not_suit_is_left_alone(changes):
    arguments = forward(**changes)
    before = None if arguments[-1] is None else arguments[-1].copy()
    assert step_into(*arguments) is False
    if before is not None:
        assert np.array_equal(arguments[-1], before, equal_nan=True)


@pytest.mark.parametrize(
    ("first", "are_apart"), [(0, True), (1, False), (5 * SIZE - 1, False), (5 * SIZE, True)], ids=str
)
def test_actions_and_outputs_may_touch_but_not_overlap(first, are_apart):
    memory = np.ones(6 * SIZE, np.float32)
    action = memory[first : first + SIZE].reshape(BATCH, HORIZON, DOF)
    out = memory[SIZE : 5 * SIZE].reshape(4, BATCH, HORIZON, DOF)
    assert step_into(*forward(action=action, out=out)) is are_apart


@pytest.mark.parametrize(
    "changes",
    [
        {"upstream": (None,) * 4},
        {"upstream": (zeros(BATCH, HORIZON + 1, DOF), None, GRADIENT, None)},
        {"upstream": (zeros(BATCH, HORIZON, DOF, dtype=np.float64), None, GRADIENT, None)},
        {"upstream": (GRADIENT, zeros(BATCH, HORIZON, 2 * DOF)[..., ::2], None, None)},
        {"map": CENTRAL},
        {"action": zeros(BATCH, HORIZON + 1, DOF)},
        {"action": read_only(zeros(BATCH, HORIZON, DOF))},
        POOL,
        {"start": (zeros(BATCH, DOF), zeros(1, DOF))},
        {"start": (read_only(zeros(1, DOF)),)},
        {**POOL, "start_index": np.array([0, 2, 0, 0])},
        {"dt": np.ones((2, 1))},
    ],
)
def test_vjp_calls_leave_alone_what_does_not_suit(changes):
    arguments = of_vjp(**changes)
    action = arguments[6]
    before = None if action is None else action.copy()
    assert vjp_into(*arguments) is False
    if before is not None:
        assert np.array_equal(action, before, equal_nan=True)


@pytest.mark.parametrize(
    "changes", [{}, {"start": (None,) * 3}, {"upstream": (None, torch.ones(BATCH, HORIZON, DOF), GRADIENT, None)}]
)
def test_vjp_calls_write_what_is_asked_for(changes):
    arguments = of_vjp(**changes)
    assert vjp_into(*arguments) is True
    for result in (arguments[6], *arguments[7]):
        assert result is None or np.isfinite(result).all()


def test_rows_of_a_large_batch_are_summed_in_order_for_any_part():
    """More start rows than are kept at a time give the sum of the float64 rows, in the order of the trajectories."""
    batch, dof = 50_000, 3
    random = np.random.default_rng(0)
    gradient = random.standard_normal((batch, 2, dof)).astype(np.float32)
    index = random.integers(0, 5, batch)
    rows = np.empty((2, 5, dof), np.float32)
    given = {"upstream": (gradient, None, None, None), "start_index": index}
    assert vjp_into(*of_vjp(**given, action=np.empty_like(gradient), start=tuple(rows)))
    expected = np.zeros((5, dof))
    np.add.at(expected, index, gradient[:, 0].astype(np.float64))
    assert np.array_equal(rows[0], expected.astype(np.float32))


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("instruction_set", ["baseline", "avx2", "avx512"])
def test_nothing_is_read_or_written_beyond_the_arrays(instruction_set):
    program = Path(__file__).with_name("steps_beside_a_wall.py")
    environment = {**os.environ, "TRAJ_INTEGRATOR_INSTRUCTION_SET": instruction_set}
    done = subprocess.run([preloaded_python(), str(program)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_wrong_number_of_arguments_is_refused():
    assert step_into() is False
    assert vjp_into(0) is False

"""The C++ kernels on borrowed arrays: suitable ones are taken, and if any is unsuitable, none is touched."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

try:
    from traj_integrator_ros.kernels import native
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)

BATCH, HORIZON, DOF = 4, 6, 3
SIZE = BATCH * HORIZON * DOF
CENTRAL = 1


def zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def nan(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan, np.float32)


def forward(**changes: object) -> tuple[Callable[[], object], tuple[np.ndarray | None, ...]]:
    """A suitable call of `native.forward`, with the changes; returns its results."""
    arguments = {
        "map": 0,
        "action": np.ones((BATCH, HORIZON, DOF), np.float32),
        "start": (zeros(1, DOF), zeros(1, DOF), None),
        "start_index": None,
        "dt": np.full((1, 1), 0.1),
        "out": nan(4, BATCH, HORIZON, DOF),
    }
    assert changes.keys() <= arguments.keys()
    which, action, start, index, dt, out = {**arguments, **changes}.values()
    return partial(native.forward, which, (action, *start), (index, None), dt, out), (out,)


def vjp(**changes: object) -> tuple[Callable[[], object], tuple[np.ndarray | None, ...]]:
    """The same for `native.vjp`."""
    gradient = np.ones((BATCH, HORIZON, DOF), np.float32)
    arguments = {
        "map": 0,
        "upstream": (gradient, None, gradient, None),
        "start_index": None,
        "dt": np.full((1, 1), 0.1),
        "action": nan(BATCH, HORIZON, DOF),
        "start": (nan(1, DOF), nan(1, DOF), None),
    }
    assert changes.keys() <= arguments.keys()
    which, upstream, index, dt, action, start = {**arguments, **changes}.values()
    return partial(native.vjp, which, upstream, (index, None), dt, False, False, (action, *start)), (action, *start)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


GRADIENT = zeros(BATCH, HORIZON, DOF)
POOL = {"start": (zeros(2, DOF), zeros(2, DOF))}


SUIT = {
    forward: [
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
    vjp: [{}, {"start": (None,) * 3}, {"upstream": (None, torch.ones(BATCH, HORIZON, DOF), GRADIENT, None)}],
}
UNFIT = {
    forward: [
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
    vjp: [
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
}


def each(table: dict[Callable, list[dict[str, object]]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("make", "changes"), [(make, row) for make, rows in table.items() for row in rows])


@each(SUIT)
def test_arrays_that_suit_are_taken_and_results_written(make, changes):
    call, results = make(**changes)
    call()
    assert all(result is None or np.isfinite(result).all() for result in results)


@each(UNFIT)
def test_what_does_not_suit_is_left_alone(make, changes):
    call, results = make(**changes)
    before = [None if result is None else result.copy() for result in results]
    with pytest.raises(native.UNFIT):
        call()
    for result, kept in zip(results, before, strict=True):
        assert result is None or np.array_equal(result, kept, equal_nan=True)


@pytest.mark.parametrize(
    ("first", "are_apart"), [(0, True), (1, False), (5 * SIZE - 1, False), (5 * SIZE, True)], ids=str
)
def test_actions_and_outputs_may_touch_but_not_overlap(first, are_apart):
    memory = np.ones(6 * SIZE, np.float32)
    action = memory[first : first + SIZE].reshape(BATCH, HORIZON, DOF)
    out = memory[SIZE : 5 * SIZE].reshape(4, BATCH, HORIZON, DOF)
    with contextlib.nullcontext() if are_apart else pytest.raises(native.UNFIT):
        forward(action=action, out=out)[0]()


def test_rows_of_a_large_batch_are_summed_in_order_for_any_part():
    """More start rows than are kept at a time give the sum of the float64 rows, in the order of the trajectories."""
    batch, dof = 50_000, 3
    random = np.random.default_rng(0)
    gradient = random.standard_normal((batch, 2, dof)).astype(np.float32)
    index = random.integers(0, 5, batch)
    rows = np.empty((2, 5, dof), np.float32)
    given = {"upstream": (gradient, None, None, None), "start_index": index}
    vjp(**given, action=np.empty_like(gradient), start=tuple(rows))[0]()
    expected = np.zeros((5, dof))
    np.add.at(expected, index, gradient[:, 0].astype(np.float64))
    assert np.array_equal(rows[0], expected.astype(np.float32))


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("instruction_set", ["baseline", "avx2"])
def test_nothing_is_read_or_written_beyond_the_arrays(instruction_set):
    program = Path(__file__).with_name("steps_beside_a_wall.py")
    environment = {**os.environ, "TRAJ_INTEGRATOR_INSTRUCTION_SET": instruction_set}
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]

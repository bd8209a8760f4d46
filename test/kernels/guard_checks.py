"""Checks that guarded interpretation finds what is wrong, and of kernels whose tensors exceed 2^31 elements.

`test_triton_kernels.py` runs this file in a process of its own.
"""

from __future__ import annotations

import dataclasses
import importlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from guarded import ROOM, Fault, guarded
from launch_cases import Launch, assert_close, assert_keeps_digits, assert_matches
from operator_cases import Case, numbers
from triton.runtime.errors import InterpreterError

from traj_integrator_ros import kernels
from traj_integrator_ros.kernels import MAPS, ControlMap, backends
from traj_integrator_ros.kernels.types import Inputs

STEPS = [name for name in MAPS if not name.startswith("bspline")]
CHAIN, POINTS = "velocity", "clique_central"
# Module, words of it, words in their place, and the map whose checks should notice.
PLANTED = (
    # Masks and bounds
    ("device", "tl.store(p_target + b_at, b_value, mask=b_mask)", "tl.store(p_target + b_at, b_value)", CHAIN),
    ("device", "b_trajectory < n_batch", "b_trajectory <= n_batch", POINTS),
    ("chain", "b_later = b_in & (b_h > 0)", "b_later = b_in", "clique"),
    ("differences", "b_in & (b_h + k < Ha)", "b_in", "clique"),
    # Offsets and strides
    ("device", "b_row * D + b_column", "b_row * (D + 1) + b_column", CHAIN),
    ("chain", "p_dt += i_trajectory * n_dt_batch", "p_dt += i_trajectory", "acceleration_zoh"),
    ("control_points", "(row - m * STEPS) * D", "(row - (m + 1) * STEPS) * D", POINTS),
    ("ends", "p_weights + i * 16", "p_weights + i * 15", POINTS),
    # Arithmetic
    ("chain", "b_v = b_mean - b_pdt", "b_v = b_mean", "jerk"),
)  # fmt: skip
LOST_ERROR = ("pairs", "tl.fma(b_x, b_y, b_product * -1.0)", "b_product * 0.0")
NARROW = (
    ("chain", "tl.program_id(0).to(tl.int64)", "tl.program_id(0)", CHAIN),
    ("device", "tl.program_id(0).to(tl.int64) * TRAJECTORIES", "tl.program_id(0) * TRAJECTORIES", POINTS),
)
found = pytest.raises((InterpreterError, Fault, AssertionError))


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault, tmp_path):
    *words, name = fault
    with planted(*words, tmp_path), found:
        check(name)


@pytest.mark.parametrize("name", {name for *_, name in PLANTED})
def test_without_a_fault_its_checks_pass(name):
    check(name)


def test_a_lost_rounding_error_is_found(tmp_path):
    with planted(*LOST_ERROR, tmp_path), guarded(), found:
        assert_keeps_digits("clique", 16, 0.0173, "")


@pytest.mark.parametrize("fault", NARROW)
def test_an_offset_of_32_bits_is_found(fault, tmp_path):
    *words, name = fault
    with planted(*words, tmp_path), found:
        check_large(MAPS[name])


@pytest.mark.parametrize("name", STEPS)
def test_more_than_2_31_elements_are_addressed(name):
    check_large(MAPS[name])


def check(name: str) -> None:
    """Several forms of input, and sizes whose last program is not full."""
    kernel = MAPS[name]
    goal = "own" if kernel.operator.goals else ""
    for dtype, sizes, dt, start in (
        (torch.float32, (3, 21, 7), "[B, 1]" if kernel.uniform_dt_only else "[B, H]", "pool"),
        (torch.float32, (9, 20, 5), "[B]", "own"),
        (torch.float32, (2, 1, 3), "[1]", "one"),
    ):
        with guarded():
            assert_matches(Launch(Case(kernel, *sizes, dt=dt, start=start, goal=goal), dtype))


def check_large(kernel: ControlMap, batch: int = 5_000_001, horizon: int = 64, dof: int = 7) -> None:
    """Run the programs of a few trajectories, around the element 2^31 and at the end; only their memory is touched."""
    rows = kernel.output_horizon(horizon)
    chosen = sorted({2**31 // (horizon * dof), 2**31 // (rows * dof), batch - 1})
    large = Launch(Case(kernel, 1, horizon, dof, dt="scalar", start="one"), torch.float16)
    generator = torch.Generator().manual_seed(0)
    small = dataclasses.replace(large, case=dataclasses.replace(large.case, batch=len(chosen)))
    given = [numbers(len(chosen), size, dof, generator=generator).half() for size in (horizon, rows)]
    start, dt = large.inputs.values[1:], torch.full((1, 1), 0.5, dtype=torch.float64)
    small.inputs, small.upstream = Inputs((given[0], *start), (None, None), dt), [given[1]] * 4
    action, upstream = (one.new_empty(batch, *one.shape[1:]) for one in given)  # memory that is not touched
    action[chosen], upstream[chosen] = given
    large.inputs, large.upstream = Inputs((action, *start), (None, None), dt), [upstream] * 4
    large.needs = small.needs = [True] + [False] * 8

    def groups(count: int) -> Sequence[int]:
        return sorted({one * count // batch for one in chosen} | {one // -(-batch // count) for one in chosen})

    expected, _ = small.expected()
    with guarded(256, groups, nan=False):
        for got, want in zip(large.both("triton")[:5], expected, strict=False):
            assert_close(got[chosen], want, 2**-9)


@contextmanager
def planted(module: str, right: str, wrong: str, folder: Path) -> Iterator[None]:
    """Import the kernels anew from a copy with other words, and the right ones after it."""
    shutil.copytree(Path(kernels.__path__[0]) / "triton", folder / "triton")
    changed = folder / "triton" / f"{module}.py"
    text = changed.read_text(encoding="utf-8")
    assert right in text
    changed.write_text(text.replace(right, wrong), encoding="utf-8")
    before = _forgotten()
    kernels.__path__.insert(0, str(folder))
    try:
        importlib.import_module(ROOM)
        yield
    finally:
        kernels.__path__.remove(str(folder))
        _forgotten()
        sys.modules.update(before)
        if before:
            kernels.triton = before[ROOM]


def _forgotten() -> dict[str, object]:
    """Forget the imported kernels; return them."""
    backends.launcher.cache_clear()
    return {name: sys.modules.pop(name) for name in [*sys.modules] if name == ROOM or name.startswith(f"{ROOM}.")}

"""Checks that executing PTX finds what is wrong, and of kernels whose tensors are too large for any machine here.

`test_triton_kernels.py` runs this file in processes of its own. `PTX_CHECKS` is "all", or "some" for a sample.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from unittest import mock

import numpy as np
import pytest
import torch
from launch_cases import Launch, assert_close, assert_keeps_digits, assert_matches
from offline import ROOM
from operator_cases import Case
from planted_faults import IN_REVERSED, PLANTED, REVERSED, Planted, planted
from ptx_launch import ARCHITECTURES, Execution, executing
from ptx_memory import Fault, Simulated

from traj_integrator_ros.kernels import MAPS, ControlMap
from traj_integrator_ros.kernels.types import Inputs

ALL = os.environ.get("PTX_CHECKS", "some") == "all"
# Each must notice some fault of a kind that the others cannot.
SAMPLE = PLANTED if ALL else [PLANTED[i] for i in (0, 5, 10, 11)]
SMOOTH = {"clique": ("clique", 16, 0.0173, "")}
LARGE = [name for name in MAPS if not name.startswith("bspline")] if ALL else ["velocity", "clique_central"]


def test_a_kernel_without_faults_does_what_it_says():
    given, found = reversed_by(REVERSED)
    assert torch.equal(found, given.flip(0).view(-1, 2).flip(1).view(-1))


@pytest.mark.parametrize("name", IN_REVERSED)
def test_a_fault_in_a_kernel_of_two_warps_is_named(name):
    right, wrong, message = IN_REVERSED[name]
    assert right in REVERSED
    with pytest.raises(Fault, match=re.escape(message)):
        reversed_by(REVERSED.replace(right, wrong, 1))


def reversed_by(text: str) -> tuple[torch.Tensor, torch.Tensor]:
    given, found = torch.arange(64, dtype=torch.int32), torch.empty(64, dtype=torch.int32)
    Execution(90).execute(text, (1,), {"given": given, "found": found}, 2, shared=256)
    return given, found


@pytest.mark.parametrize("place", range(len(SAMPLE)))
def test_a_planted_fault_is_found(place, tmp_path):
    fault = SAMPLE[place]
    with planted(fault, tmp_path), pytest.raises((Fault, AssertionError)):
        check(fault, ARCHITECTURES[place % len(ARCHITECTURES)])


def check(fault: Planted, architecture: int) -> None:
    """Run the checks that are to find a fault; all of them pass without it."""
    for name in fault.maps:
        if fault.kind == "large":
            check_large(MAPS[name], architecture)
            continue
        with executing(architecture):
            if fault.kind == "smooth":
                assert_keeps_digits(*SMOOTH[name])
                continue
            goal = "own" if MAPS[name].operator.goals else ""
            for dtype, sizes, dt, start in (
                (torch.float32, (3, 21, 7), "[B, 1]" if MAPS[name].uniform_dt_only else "[B, H]", "pool"),
                (torch.float32, (9, 20, 5), "[B]", "own"),
                (torch.float32, (2, 1, 3), "[1]", "one"),
            ):
                assert_matches(Launch(Case(MAPS[name], *sizes, dt=dt, start=start, goal=goal), dtype))


@pytest.mark.parametrize("name", {name for fault in SAMPLE for name in fault.maps if fault.kind == "any"})
def test_without_a_fault_its_checks_pass(name):
    check(Planted("", "", "", (name,)), 120)


# Tensors of more than 2^31 elements


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("architecture", ARCHITECTURES if ALL else [90])
def test_more_than_2_31_elements_are_addressed(name, architecture):
    check_large(MAPS[name], architecture)


def check_large(kernel: ControlMap, architecture: int, batch: int = 5_000_001, horizon: int = 64, dof: int = 7) -> None:
    """Execute the programs of a few trajectories, around the element 2^31 and at the end, in simulated tensors."""
    rows = kernel.output_horizon(horizon)
    chosen = sorted({2**31 // (horizon * dof), 2**31 // (rows * dof), batch - 1})
    large = Launch(Case(kernel, 1, horizon, dof, dt="scalar", start="one"), torch.float16)
    stores: dict[str, Simulated] = {}

    def simulated(name: str, tensor: torch.Tensor) -> Simulated:
        assert tensor.numel() < 2**31 or not name.startswith("p_start")
        return stores.setdefault(name, Simulated(pattern))

    def programs(grid: tuple[int, ...]) -> list[tuple[int, int]]:
        groups = {one * grid[0] // batch for one in chosen} | {one // -(-batch // grid[0]) for one in chosen}
        return [(group, k) for group in sorted(groups) for k in range(grid[1])]

    dt = torch.full((1, 1), 0.5, dtype=torch.float64)
    empty = torch.empty(batch, horizon, dof, dtype=torch.float16, device="meta")
    values = [torch.from_numpy(one) for one in (of_trajectories(chosen, n, dof) for n in (horizon, rows))]
    small = dataclasses.replace(large, case=dataclasses.replace(large.case, batch=len(chosen)))
    start = large.inputs.values[1:]
    large.inputs = Inputs((empty, *start), (None, None), dt)
    small.inputs = Inputs((values[0], *start), (None, None), dt)
    large.upstream = [torch.empty(batch, rows, dof, dtype=torch.float16, device="meta")] * 4
    small.upstream = [values[1]] * 4
    large.needs = small.needs = [True] + [False] * 8
    tables = mock.patch(f"{ROOM}.control_points.on_device", on_host)
    with executing(architecture, programs=programs, simulated=simulated), tables:
        large.both("triton")
    expected, _ = small.expected()
    names = [f"p_{kind}" for kind in ("position", "velocity", "acceleration", "jerk")] + ["p_grad_action"]
    for name, want in zip(names, expected, strict=False):
        assert_close(stored(stores[name], chosen, want[0].numel()).view(want.shape), want, 2**-9, name)


def on_host(table: bytes, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A table of weights, which exists."""
    return torch.from_numpy(np.frombuffer(table).copy()).float()


def pattern(index: np.ndarray) -> np.ndarray:
    """Bits of a float16 that follows from the index of an element."""
    mixed = (index.astype(np.uint64) * np.uint64(2654435761)) >> np.uint64(7)
    return ((mixed % np.uint64(2048)).astype(np.float16) / 1024 - 1).astype(np.float16).view(np.uint16)


def of_trajectories(chosen: list[int], rows: int, dof: int) -> np.ndarray:
    size = rows * dof
    index = np.array(chosen)[:, None] * size + np.arange(size)
    return pattern(index).view(np.float16).reshape(len(chosen), rows, dof)


def stored(tensor: Simulated, chosen: list[int], size: int) -> torch.Tensor:
    """What was written of some trajectories; NaN where nothing was."""
    found = np.full(len(chosen) * size, math.nan)
    for index, bits in tensor.stored:
        for place, one in enumerate(chosen):
            here = index // size == one
            found[place * size + index[here] - one * size] = bits[here].view(np.float16)
    return torch.from_numpy(found)

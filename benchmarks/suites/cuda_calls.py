"""Host time of an eager call on CUDA, measured without a device, with a driver that does nothing.

The same case with a device is one of `cuda_kernels`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from traj_integrator_ros.kernels import clique_step, jerk_step
from traj_integrator_ros.kernels.fast_path import native_kernels

from ..checks import random
from ..empty_function import empty_function
from ..registry import Case, Contender, Run, Unmeasured, suite
from .cuda_kernels import DOF, DT, HORIZON, LAUNCH_TARGET

MAPS = {"clique": clique_step, "jerk": jerk_step}


@suite("cuda_calls")
def cuda_calls(quick: bool) -> Iterator[Case | Unmeasured]:
    obstacle = _obstacle()
    if obstacle:
        yield Unmeasured("all cases of cuda_calls", obstacle)
        return
    from ..stub_driver import replays, stub_driver

    with stub_driver(), replays():
        for name in MAPS:
            yield call(name)


def _obstacle() -> str:
    if torch.cuda.is_available():
        return "there is a device to measure on: cuda_kernels"
    if importlib.util.find_spec("triton") is None or native_kernels() is None:
        return "Triton and the C++ extension are needed"
    return "TRITON_INTERPRET is set" if os.environ.get("TRITON_INTERPRET") == "1" else ""


def call(name: str) -> Case:
    """Forward and gradient as a user calls them, beside launches, and an autograd function that computes nothing."""
    from ..cheapest_launch import launch

    action, start, target = random(1, HORIZON, DOF).requires_grad_(), random(1, DOF), torch.zeros(1)
    upstream = [random(1, HORIZON, DOF, seed=k) for k in range(4)]
    step = MAPS[name]

    def contender(called: str, outputs_of: Run) -> Contender:
        def run() -> Sequence[Tensor]:
            outputs = outputs_of()
            return [*outputs, *torch.autograd.grad(outputs, action, upstream)]

        return Contender(called, run, has_five_results)

    return Case(
        f"{name}, forward + gradient, host only",
        1,
        HORIZON,
        DOF,
        contender("ours", lambda: step(action, start, dt=DT)),
        (
            contender("launched from Python", lambda: step(action, start, dt=DT, backend="triton")),
            contender("empty C++ function", lambda: empty_function()(action, start)),
            Contender("cheapest Triton launch", lambda: launch(target), lambda result: None),
        ),
        device="stub",
        # Torch's own calls around a function that computes nothing take more than the launches that are allowed.
        targets={"empty C++ function": 1.0, "cheapest Triton launch": LAUNCH_TARGET},
    )


def has_five_results(results: Sequence[Tensor]) -> None:
    """Nothing is computed, so only the shapes can be checked."""
    assert [result.shape for result in results] == [(1, HORIZON, DOF)] * 5

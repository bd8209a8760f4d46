"""Prints the accuracy of each map (docs/kernels.md): float32 results against float64 arithmetic on the same inputs.

Run `python docs/figures/accuracy.py [PATTERN]` in the project's environment, with a regular expression for the names of
maps; with TRITON_INTERPRET=1 it prints the Triton kernels' accuracy as well (minutes).
"""

from __future__ import annotations

import re
import sys
from functools import partial

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.kernels import MAPS, Backend, ControlMap, ControlSpace, backend_info

# Steps in s, none the reciprocal of a whole number, whose products come out exact; and horizons.
SHORT = tuple((dt, horizon) for dt in (0.0011, 0.0173, 0.97) for horizon in (1, 64))
LONG = (0.0011, 1024), (0.97, 1024), (0.0173, 4096)
LONG_UNEVEN = ((0.0173, 1024),)
UNEVEN = 0.3
"""Share by which steps of any length differ from the mean."""


def main() -> None:
    """Print a row for each map: the largest errors over horizons and step lengths, by kind of motion and backend."""
    (cpu,) = (info for info in backend_info() if info.device == "cpu")
    backends = [backend for backend in Backend if backend not in cpu.unavailable]
    if Backend.TRITON in backends:
        quicken()
    columns = [f"{motion}, {backend.value}" for motion in ("random", "smooth") for backend in backends]
    print("| outputs, gradients of actions, of ends |", " | ".join(columns), "|\n|---|" + "---|" * len(columns))
    pattern = re.compile("|".join(sys.argv[1:]))
    for kernel in MAPS.values():
        kinds = {"": (False, False)}
        if not kernel.uniform_dt_only:
            kinds[", steps of any length"] = (True, False)
        if kernel.operator.goals:
            kinds[", to a goal"] = (False, True)
        for kind, (uneven, goal) in kinds.items():
            if not pattern.search(kernel.name + kind):
                continue
            cells = []
            for random in (True, False):
                for backend in backends:
                    errors = [
                        largest_errors(kernel, dt, horizon, backend, random, uneven, goal)
                        for dt, horizon in SHORT + (LONG_UNEVEN if uneven else LONG)
                    ]
                    cells.append(", ".join(f"{max(kind):.1e}" for kind in zip(*errors, strict=True)))
            print(f"| `{kernel.name}`{kind} |", " | ".join(cells), "|", flush=True)


def quicken() -> None:
    """Let Triton's interpreter run few programs, and round fused products and sums once, as devices do."""
    from triton.runtime import interpreter

    from traj_integrator_ros.kernels.triton import launch

    def create_fma(self: object, x: object, y: object, z: object) -> object:
        exact = x.data.astype(np.float64) * y.data + z.data
        return interpreter.TensorHandle(exact.astype(x.data.dtype), x.dtype.scalar)

    interpreter.InterpreterBuilder.create_fma = create_fma
    launch.TRAJECTORIES = 1


def largest_errors(
    kernel: ControlMap, dt: float, horizon: int, backend: Backend, random: bool, uneven: bool, goal: bool
) -> tuple[float, float, float]:
    """Largest errors over the largest value: of outputs, and of gradients of a weighted sum of them.

    Weights are random, or sines of the time.
    """
    rows = kernel.output_horizon(horizon)
    lengths = dt * (1 + (UNEVEN * torch.sin(torch.arange(rows + 1.0, dtype=torch.float64)) if uneven else 0))
    times = (lengths * torch.ones(rows + 1, dtype=torch.float64)).cumsum(0)
    action, states, weights = (random_inputs if random else smooth_inputs)(kernel, times, horizon)
    states = [one for end in states[: 1 + goal] for one in end[: kernel.operator.starts]]
    names = ("start_jerk", *(f"goal_{kind}" for kind in ("position", "velocity", "acceleration", "jerk")))
    results = []
    for dtype, chosen in ((torch.float32, backend), (torch.float64, Backend.REFERENCE)):
        given = [one.float().to(dtype).requires_grad_() for one in (action, *states)]
        later = dict(zip(names, given[4:], strict=False))
        step = lengths[:horizon] if uneven else dt
        trajectory = kernel.step(*given[:4], **later, dt=step, backend=chosen)
        upstream = [one.float().to(dtype) for one in weights]
        gradients = torch.autograd.grad(trajectory, given, upstream)
        results.append((*(one.detach() for one in trajectory), *gradients))
    errors = [
        float((got.double() - exact).abs().max() / exact.abs().max().clamp_min(1e-300))
        for got, exact in zip(*results, strict=True)
    ]
    return max(errors[:4]), errors[4], max(errors[5:])


def random_inputs(kernel: ControlMap, times: Tensor, horizon: int) -> tuple[Tensor, list[list[Tensor]], list[Tensor]]:
    """Normal actions `[2, H, 7]`, states of start and goal, and weights of the outputs."""
    generator = torch.Generator().manual_seed(0)
    normal = partial(torch.randn, generator=generator, dtype=torch.float64)
    states = [[normal(2, 7) for _ in range(4)] for _ in range(2)]
    return normal(2, horizon, 7), states, [normal(2, len(times) - 1, 7) for _ in range(4)]


def smooth_inputs(kernel: ControlMap, times: Tensor, horizon: int) -> tuple[Tensor, list[list[Tensor]], list[Tensor]]:
    """Joints with 2 + 0.8 sin(w t + phase) in the map's control space between its own states, and sines of the time.

    w is 1.3 rad/s, but at most one radian for each action: the map would smooth faster ones away.
    """
    splines = kernel.control_space is ControlSpace.BSPLINE
    steps = kernel.scheme[1] if splines else 1
    w = min(1.3, float(1 / (steps * (times[1:] - times[:-1]).max())))
    times = w * times[:, None] + torch.arange(4)
    sine, cosine = 0.8 * torch.sin(times), 0.8 * torch.cos(times)
    derivatives = [2 + sine, w * cosine, -(w**2) * sine, -(w**3) * cosine]
    if splines:
        action = derivatives[0][3 * steps :: steps][:horizon]
    else:
        action = derivatives[kernel.control_space - 1][1 : horizon + 1]
    states = [[one[place, None] for one in derivatives] for place in (0, -1)]
    return action[None], states, [torch.sin(times[None, :-1] + kind) for kind in range(4)]


if __name__ == "__main__":
    main()

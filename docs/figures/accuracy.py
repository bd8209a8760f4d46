"""Prints the accuracy of each map (docs/kernels.md): float32 results against float64 arithmetic on the same inputs.

Run `python docs/figures/accuracy.py` in the project's environment; with TRITON_INTERPRET=1 it prints the Triton
kernels' accuracy as well.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.kernels import MAPS, Backend, ControlMap, ControlSpace, backend_info

HORIZONS = (1, 64, 1024, 4096)
SPLINE_HORIZONS = (1, 32, 128)  # each point affects a bounded number of rows
STEPS = (0.0011, 0.0173, 0.97)  # s; none the reciprocal of a whole number, whose products come out exact


def main() -> None:
    """Print a row for each map: the largest errors over horizons and step lengths, by kind of motion and backend."""
    (cpu,) = (info for info in backend_info() if info.device == "cpu")
    backends = [backend for backend in Backend if backend not in cpu.unavailable]
    if Backend.TRITON in backends:
        fuse()
    motions = {"random": random_inputs, "smooth": smooth_inputs}
    columns = [f"{motion}, {backend.value}" for motion in motions for backend in backends]
    print("| outputs, gradient |", " | ".join(columns), "|\n|---|" + "---|" * len(columns))
    for kernel in MAPS.values():
        cells = []
        horizons = SPLINE_HORIZONS if kernel.control_space is ControlSpace.BSPLINE else HORIZONS
        for inputs in motions.values():
            for backend in backends:
                errors = [
                    largest_errors(kernel, inputs(kernel, dt, horizon), dt, backend, random=inputs is random_inputs)
                    for dt in STEPS
                    for horizon in horizons
                ]
                cells.append(", ".join(f"{max(kind):.1e}" for kind in zip(*errors, strict=True)))
        print(f"| `{kernel.name}` |", " | ".join(cells), "|")


def fuse() -> None:
    """Round fused products and sums once, as devices do: Triton's interpreter rounds the product, too."""
    from triton.runtime import interpreter

    def create_fma(self: object, x: object, y: object, z: object) -> object:
        exact = x.data.astype(np.float64) * y.data + z.data
        return interpreter.TensorHandle(exact.astype(x.data.dtype), x.dtype.scalar)

    interpreter.InterpreterBuilder.create_fma = create_fma


def largest_errors(
    kernel: ControlMap, inputs: list[Tensor], dt: float, backend: Backend, random: bool
) -> tuple[float, float]:
    """Largest errors of outputs, and of the gradient of a weighted sum of them by the actions, over the largest value.

    Weights are random, or sines of the time.
    """
    results = []
    for dtype, chosen in ((torch.float32, backend), (torch.float64, Backend.REFERENCE)):
        action, *start = (value.float().to(dtype) for value in inputs)
        action.requires_grad_()
        trajectory = kernel.step(action, *start, dt=dt, backend=chosen)
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(*one.shape, generator=generator) for one in trajectory]
        if not random:
            times = dt * torch.arange(trajectory[0].shape[1], dtype=torch.float64)[:, None]
            weights = [torch.sin(1.3 * times + kind).float().expand(one.shape) for kind, one in enumerate(trajectory)]
        gradients = torch.autograd.grad(trajectory, action, [one.to(dtype) for one in weights])
        results.append((*(one.detach() for one in trajectory), *gradients))
    errors = [
        float((got.double() - exact).abs().max() / exact.abs().max().clamp_min(1e-300))
        for got, exact in zip(*results, strict=True)
    ]
    return max(errors[:4]), errors[4]


def random_inputs(kernel: ControlMap, dt: float, horizon: int) -> list[Tensor]:
    """Normal actions `[2, H, 7]` and start states."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, horizon, 7), (2, 7), (2, 7), (2, 7)]
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


def smooth_inputs(kernel: ControlMap, dt: float, horizon: int) -> list[Tensor]:
    """2 + 0.8 sin(1.3 t) in the map's control space, from its own start state."""
    time = torch.arange(horizon + 1, dtype=torch.float64) * dt
    sine, cosine = 0.8 * torch.sin(1.3 * time), 0.8 * torch.cos(1.3 * time)
    derivatives = [2 + sine, 1.3 * cosine, -(1.3**2) * sine, -(1.3**3) * cosine]
    if kernel.control_space is ControlSpace.BSPLINE:  # a control point for each 4 rows
        action = (2 + 0.8 * torch.sin(1.3 * 4 * (time[1:] + dt))).reshape(1, horizon, 1)
    else:
        action = derivatives[kernel.control_space - 1][1:].reshape(1, horizon, 1)
    return [action, *(value[:1].reshape(1, 1) for value in derivatives[:3])]


if __name__ == "__main__":
    main()

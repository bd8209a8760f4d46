"""Prints the accuracy of each map (docs/kernels.md): float32 results against float64 arithmetic on the same inputs.

Run `python docs/figures/accuracy.py` in the project's environment.
"""

from __future__ import annotations

import torch
from torch import Tensor

from traj_integrator_ros.kernels import MAPS, Backend, ControlMap, ControlSpace, backend_info

HORIZON = 64
STEPS = (0.0011, 0.0173, 0.097)  # s; none the reciprocal of a whole number, whose products come out exact


def main() -> None:
    """Print a row for each map: the largest error over outputs and step lengths, by kind of motion and backend."""
    (cpu,) = (info for info in backend_info() if info.device == "cpu")
    backends = [backend for backend in (Backend.REFERENCE, Backend.NATIVE) if backend not in cpu.unavailable]
    motions = {"random": random_inputs, "smooth": smooth_inputs}
    columns = [f"{motion}, {backend.value}" for motion in motions for backend in backends]
    print("| map |", " | ".join(columns), "|\n|---|" + "---|" * len(columns))
    for kernel in MAPS.values():
        errors = [
            max(largest_error(kernel, inputs(kernel, dt), dt, backend) for dt in STEPS)
            for inputs in motions.values()
            for backend in backends
        ]
        print(f"| `{kernel.name}` |", " | ".join(f"{error:.1e}" for error in errors), "|")


def largest_error(kernel: ControlMap, inputs: list[Tensor], dt: float, backend: Backend) -> float:
    """Relative error by the norm of each output; the largest of the four."""
    single = [value.float() for value in inputs]
    got = kernel.step(*single, dt=dt, backend=backend)
    exact = kernel.step(*(value.double() for value in single), dt=dt, backend=Backend.REFERENCE)
    return max(float((a.double() - b).norm() / b.norm()) for a, b in zip(got, exact, strict=True))


def random_inputs(kernel: ControlMap, dt: float) -> list[Tensor]:
    """Normal actions `[16, H, 7]` and start states."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(16, HORIZON, 7), (16, 7), (16, 7), (16, 7)]
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


def smooth_inputs(kernel: ControlMap, dt: float) -> list[Tensor]:
    """2 + 0.8 sin(1.3 t) in the map's control space, from its own start state."""
    time = torch.arange(HORIZON + 1, dtype=torch.float64) * dt
    sine, cosine = 0.8 * torch.sin(1.3 * time), 0.8 * torch.cos(1.3 * time)
    derivatives = [2 + sine, 1.3 * cosine, -(1.3**2) * sine, -(1.3**3) * cosine]
    if kernel.control_space is ControlSpace.BSPLINE:  # a control point for each 4 rows
        action = (2 + 0.8 * torch.sin(1.3 * 4 * (time[1:] + dt))).reshape(1, HORIZON, 1)
    else:
        action = derivatives[kernel.control_space - 1][1:].reshape(1, HORIZON, 1)
    return [action, *(value[:1].reshape(1, 1) for value in derivatives[:3])]


if __name__ == "__main__":
    main()

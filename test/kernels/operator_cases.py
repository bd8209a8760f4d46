"""What the operator tests share: the maps, the backends, inputs, and a backend that keeps a diary."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from traj_integrator_ros.kernels import MAPS, Backend, ControlMap, backend_info
from traj_integrator_ros.kernels import operator as operator_module

MAP = pytest.mark.parametrize("kernel", MAPS.values(), ids=MAPS)
# The operators know the maps by their signature alone: one of each stands for all where nothing but that matters.
SIGNATURES = ("acceleration_zoh", "clique_central", "bspline_tight")
SIGNATURE = pytest.mark.parametrize("kernel", [MAPS[name] for name in SIGNATURES], ids=SIGNATURES)

# By device, and every other one that can run here: the reference where the C++ kernels are the default, Triton's
# interpreter where TRITON_INTERPRET=1 is set.
_CPU = backend_info()[0]
CPU_BACKENDS = (None, *(other for other in Backend if other is not _CPU.backend and other not in _CPU.unavailable))
BACKEND = pytest.mark.parametrize(
    "backend", CPU_BACKENDS, ids=["by device" if backend is None else backend.value for backend in CPU_BACKENDS]
)

NAMES = ("action", "start_position", "start_velocity", "start_acceleration", "dt")


def random_inputs(kernel: ControlMap, batch: int = 2, horizon: int = 4, dof: int = 2, seed: int = 0) -> list[Tensor]:
    """Action, three start rows for each trajectory, and dt `[B, Ha]` (`[B, 1]` where it must be uniform), float64."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    columns = 1 if kernel.uniform_dt_only else horizon
    dt = 0.5 + torch.rand(batch, columns, generator=generator, dtype=torch.float64)
    return [normal(batch, horizon, dof), *(normal(batch, dof) for _ in range(3)), dt]


def leaves(kernel: ControlMap, **sizes: int) -> list[Tensor]:
    """`random_inputs` that require grad."""
    return [tensor.requires_grad_() for tensor in random_inputs(kernel, **sizes)]


def function(kernel: ControlMap, backend: Backend | None = None, **options) -> Callable[..., tuple[Tensor, ...]]:
    """The map as a function of action, start position, velocity, acceleration and dt."""

    def step(action: Tensor, p0: Tensor, v0: Tensor, a0: Tensor, dt: Tensor) -> tuple[Tensor, ...]:
        return tuple(kernel.step(action, p0, v0, a0, dt=dt, backend=backend, **options))

    return step


def weights_like(outputs) -> list[Tensor]:
    """Tensors of no particular values, for use under any transform: no random numbers."""
    return [
        (torch.arange(output.numel(), dtype=output.dtype) * 0.7 + k).sin().view(output.shape)
        for k, output in enumerate(outputs)
    ]


def cost(outputs) -> Tensor:
    """A scalar that is quadratic in every output, each element weighted differently."""
    return sum((weight * output * output).sum() for weight, output in zip(weights_like(outputs), outputs, strict=True))


def assert_all_close(got, expected, tolerance: float = 1e-9) -> None:
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def assert_derivatives(f, inputs):
    """First and second derivatives along one direction, in every mode, against central differences."""
    directions = [torch.arange(x.numel(), dtype=x.dtype).add(k).cos().view(x.shape) for k, x in enumerate(inputs)]
    h = 1e-5

    def quotient(g):
        ends = [g(*(x + sign * h * d for x, d in zip(inputs, directions, strict=True))) for sign in (1, -1)]
        return [(high - low) / (2 * h) for high, low in zip(*ends, strict=True)]

    def gradient(*x, create_graph=False):
        x = [t if t.requires_grad else t.requires_grad_() for t in x]
        value = cost(f(*x))
        return torch.autograd.grad(value, x, create_graph=create_graph, materialize_grads=True), x

    def close(got, wanted):
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6 * max(float(b.abs().max()), 1.0))

    _, tangents = torch.func.jvp(f, tuple(inputs), tuple(directions))
    close(tangents, quotient(f))
    first, leaves = gradient(*(x.clone() for x in inputs), create_graph=True)
    along = sum((g * d).sum() for g, d in zip(first, directions, strict=True))
    close([along], quotient(lambda *x: [cost(f(*x))]))
    second = quotient(lambda *x: gradient(*x)[0])
    close(torch.autograd.grad(along, leaves, materialize_grads=True), second)
    of_gradient = torch.func.grad(lambda *x: cost(f(*x)), argnums=tuple(range(len(inputs))))
    close(torch.func.jvp(of_gradient, tuple(inputs), tuple(directions))[1], second)


class Launch(NamedTuple):
    """One call of a backend."""

    map_name: str
    direction: str
    upstream: tuple[bool, ...]
    """Which upstream gradients came."""
    needs: tuple[bool, ...] | None


@pytest.fixture
def launches(monkeypatch) -> list[Launch]:
    """The diary of all backend calls that the operators make in a test."""
    diary: list[Launch] = []
    original = operator_module.launcher

    def spying_launcher(name: str, direction: str, backend: str | None, device_type: str):
        launch = original(name, direction, backend, device_type)

        def spy(*tensors, **options):
            upstream = tuple(x is not None for x in tensors[:4]) if direction == "vjp" else ()
            diary.append(Launch(name, direction, upstream, options.get("needs")))
            return launch(*tensors, **options)

        return spy

    monkeypatch.setattr(operator_module, "launcher", spying_launcher)
    return diary


class OperatorCalls(TorchDispatchMode):
    """Records every call of one of our operators with its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[torch._ops.OpOverload, tuple]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "traj_integrator":
            self.calls.append((func, args))
        return func(*args, **(kwargs or {}))

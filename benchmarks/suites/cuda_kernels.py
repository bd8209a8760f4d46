"""The Triton kernels and the engine on a CUDA device: beside copies, the CPU, and torch in other ways."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from traj_integrator_ros.engine.call import call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS, ControlMap, clique_step
from traj_integrator_ros.kernels.backends import launcher

from ..checks import copies_of, exactly, gradients, is_close_to, random
from ..registry import Case, Contender, Unmeasured, suite
from .cpu_kernels import matrix_form, slices

HORIZON, DOF, DT = 32, 7, 0.02
LARGE_ELEMENTS, QUICK_ELEMENTS, PEER_ELEMENTS = 1 << 28, 1 << 25, 1 << 24
# Least share of what a device copy of the same bytes reaches, at the largest batch.
BANDWIDTH_TARGET = 0.9
SMALL_BATCH, REPLAY_MOST_US = 64, 10.0
CHECKED = 50
BATCHES = (1, 10, SMALL_BATCH, 1000, 10_000, 100_000)
ENGINE_BATCHES = (1, 4, 16, 32, 64, 128, 256, 1000, 10_000, 100_000)
"""Denser where the device may begin to win."""
DEVICE = "cuda"
"""Tests run the cases on the CPU."""

Step = Callable[[Tensor, Tensor], Sequence[Tensor]]
Cases = Callable[[bool], Iterator[Case]]


def device_suite(name: str) -> Callable[[Cases], Cases]:
    """Register cases that need a device."""

    def register(cases: Cases) -> Cases:
        @suite(name)
        def measured(quick: bool) -> Iterator[Case | Unmeasured]:
            if torch.cuda.is_available():
                yield from cases(quick)
            else:
                yield Unmeasured(f"all cases of {name}", "no CUDA device")

        return cases

    return register


@device_suite("cuda_kernels")
def cuda_kernels(quick: bool) -> Iterator[Case]:
    """Beside other ways in torch."""
    yield against_peers(PEER_ELEMENTS)


@device_suite("cuda_sweep")
def cuda_sweep(quick: bool) -> Iterator[Case]:
    """Forward and vjp of every map at every batch, up to what the device holds."""
    for name in ("clique", "acceleration_zoh") if quick else MAPS:
        for batch in BATCHES:
            yield swept(name, batch)
        elements = min(QUICK_ELEMENTS if quick else LARGE_ELEMENTS, most_elements())
        yield swept(name, elements // (HORIZON * DOF), targets={"limit": BANDWIDTH_TARGET})


@device_suite("cuda_engine")
def cuda_engine(quick: bool) -> Iterator[Case]:
    """Host arrays to host arrays, both directions, on the device, the CPU and as `auto` chooses by its crossover."""
    engines = engines_of((DEVICE, "cpu", "auto"))
    for batch in (1, 1000) if quick else ENGINE_BATCHES:
        yield between_host_arrays(batch, engines)
    print(f"auto: {engines['auto'].place}")


class Buffers:
    """Inputs and outputs of a map, with both of its launchers on them."""

    def __init__(self, kernel: ControlMap, batch: int) -> None:
        rows = kernel.output_horizon(HORIZON)
        generator = torch.Generator(DEVICE).manual_seed(0)

        def draw(*size: int) -> Tensor:
            return torch.randn(size, generator=generator, device=DEVICE)

        self.kernel = kernel
        self.moved = 4 * batch * DOF * (HORIZON + 4 * rows)
        """Bytes of each direction."""
        self.action, self.start = draw(batch, HORIZON, DOF), draw(1, DOF)
        self.upstream = [draw(batch, rows, DOF) for _ in range(4)]
        self.out = [torch.empty_like(self.upstream[0]) for _ in range(4)]
        self.gradient = torch.empty_like(self.action)
        self._dt = torch.full((1, 1), DT, dtype=torch.float64, device=DEVICE)
        operator = kernel.operator
        self._scheme = operator.scheme((*kernel.scheme, None))
        # Nothing but a start position: no index, and no goal where the map knows one.
        self._absent = [None] * (operator.starts + (operator.goals + 1 if operator.goals else 0))
        self._indices = [None] * (operator.vjp_dt_place - 4)
        self._counts = operator.counts((1, -1) if operator.goals else (1,), [None] * len(operator.ends), batch)
        self._needs = (True, *[False] * (operator.starts + operator.goals))
        self._forward = launcher(operator.name, "forward", None, DEVICE)
        self._vjp = launcher(operator.name, "vjp", None, DEVICE)

    def forward(self) -> list[Tensor]:
        """The four outputs."""
        self._forward(self.action, self.start, *self._absent, self._dt, out=self.out, **self._scheme)
        return self.out

    def vjp(self) -> list[Tensor]:
        """The gradient of the action, for all four upstream gradients."""
        self._vjp(
            *self.upstream,
            *self._indices,
            self._dt,
            **self._counts,
            action_horizon=HORIZON,
            needs=self._needs,
            out=self.gradient,
            **self._scheme,
        )
        return [self.gradient]

    def both(self) -> list[Tensor]:
        """All five."""
        return [*self.forward(), *self.vjp()]

    def through_autograd(self) -> list[Tensor]:
        """The same as a user calls it: the public function and `torch.autograd.grad`, in fresh memory."""
        action = self.action.requires_grad_()
        return gradients(lambda u: self.kernel.step(u, self.start, dt=DT), [action], self.upstream)

    def expected(self) -> list[Tensor]:
        """What float64 arithmetic on the CPU makes of the first trajectories."""
        start = self.start.cpu().double()
        first = [values[:CHECKED] for values in (self.action, *self.upstream)]
        return exactly(lambda u: self.kernel.step(u, start, dt=DT, backend="reference"), first[:1], first[1:])


def first_close_to(expected: Sequence[Tensor], limit: float = 5e-6) -> Callable[[Sequence[Tensor]], None]:
    close = is_close_to(*expected, limit=limit)
    return lambda results: close([result[:CHECKED].cpu() for result in results])


def swept(name: str, batch: int, targets: dict[str, float] | None = None) -> Case:
    """Both directions by the launchers from a graph, beside the same launches one by one, autograd and a copy."""
    buffers = Buffers(MAPS[name], batch)
    close = first_close_to(buffers.expected())
    ways = [Contender("eager", buffers.both, close), Contender("autograd", buffers.through_autograd, close)]
    if DEVICE == "cuda":
        ways.insert(0, replayed(buffers, close))
    most_us = REPLAY_MOST_US if (name, batch) == ("clique", SMALL_BATCH) else None
    copy = copies_of(buffers.moved // 4, device=DEVICE)
    return case(name, batch, ways[0], tuple(ways[1:]), copy, targets=targets or {}, most_us=most_us)


def engines_of(devices: Sequence[str]) -> dict[str, TrajectoryIntegrator]:
    return {device: TrajectoryIntegrator(device) for device in devices}


def between_host_arrays(batch: int, engines: dict[str, TrajectoryIntegrator]) -> Case:
    """Integration and vjp; the first engine is ours."""
    actions, start = random(batch, HORIZON, DOF), random(1, DOF)
    upstream = random(4, batch, HORIZON, DOF)
    expected = exactly(lambda u: clique_step(u, start.double(), dt=DT, backend="reference"), [actions], list(upstream))
    call = call_of(MAPS["clique"], actions.numpy(), DT, ends_of((start.numpy(), None, None)))
    backward = call._replace(upstream=tuple(upstream.numpy()))

    def contender(name: str, engine: TrajectoryIntegrator) -> Contender:
        def run() -> list[Tensor]:
            found = [*torch.tensor(engine.integrate(call))]
            return [*found, torch.from_numpy(engine.vjp(backward).action)]

        return Contender(name, run, is_close_to(*expected))

    ours, *others = (contender(name, engine) for name, engine in engines.items())
    return case("engine, host to host", batch, ours, tuple(others))


def most_elements() -> int:
    """Action elements that the device holds: twenty tensors of a map and its copy, and what autograd allocates."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    return int(free * 0.8) // (40 * 4)


def against_peers(elements: int) -> Case:
    """Forward and backward through autograd, as a user calls them, beside the other ways to do it in torch."""
    batch = elements // (HORIZON * DOF)
    action, start = random(batch, HORIZON, DOF, device=DEVICE).requires_grad_(), random(1, DOF, device=DEVICE)
    upstream = [random(batch, HORIZON, DOF, seed=k, device=DEVICE) for k in range(4)]
    first = [values[:CHECKED] for values in (action, *upstream)]
    origin = start.cpu().double()
    expected = exactly(lambda u: clique_step(u, origin, dt=DT, backend="reference"), first[:1], first[1:])

    def contender(name: str, step: Step, limit: float) -> Contender:
        run = functools.partial(gradients, lambda u: step(u, start.expand(batch, -1)), [action], upstream)
        return Contender(name, run, first_close_to(expected, limit))

    # In float32 the peers' own rounding grows with the order of the derivative.
    return case(
        "clique, forward + backward",
        batch,
        contender("ours", lambda action, start: clique_step(action, start, dt=DT), 5e-6),
        (
            contender("matrix form", matrix_form, 1e-3),
            contender("torch slices", slices, 1e-3),
            *(
                contender(f"torch.compile {mode}", torch.compile(slices, dynamic=False, mode=mode), 1e-3)
                for mode in ("default", "reduce-overhead")
            ),
        ),
        copies_of(5 * batch * HORIZON * DOF, device=DEVICE),
    )


def replayed(buffers: Buffers, close: Callable[[object], None]) -> Contender:
    """Both directions captured in one graph."""
    buffers.both()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        buffers.both()

    def run() -> list[Tensor]:
        graph.replay()
        return [*buffers.out, buffers.gradient]

    return Contender("graph", run, close)


def case(name: str, batch: int, *ways: object, **options: object) -> Case:
    synchronize = torch.cuda.synchronize if DEVICE == "cuda" else None
    return Case(name, batch, HORIZON, DOF, *ways, device=DEVICE, synchronize=synchronize, **options)

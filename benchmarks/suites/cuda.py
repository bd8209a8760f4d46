"""The Triton kernels and the engine on a CUDA device: beside copies, the CPU, and torch in other ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS

from ..problems import DOF, DT, HORIZON, Problem
from ..registry import CannotRun, Case, Contender, suite
from .cpu import matrix_form, slices
from .engine import from_rest

LARGE_ELEMENTS, QUICK_ELEMENTS, PEER_ELEMENTS = 1 << 28, 1 << 25, 1 << 24
# Least share of what a device copy of the same bytes reaches, at the largest batch.
BANDWIDTH_TARGET = 0.9
SMALL_BATCH, REPLAY_MOST_US = 64, 10.0
BATCHES = (1, 10, SMALL_BATCH, 1000, 10_000, 100_000)
ENGINE_BATCHES = (1, 4, 16, 32, 64, 128, 256, 1000, 10_000, 100_000)
"""Denser where the device may begin to win."""
DEVICE = "cuda"
"""Tests run the cases on the CPU."""


def needs_device() -> None:
    """Raise CannotRun if there is none."""
    if not torch.cuda.is_available():
        raise CannotRun("no CUDA device")


@suite("cuda_kernels")
def cuda_kernels(quick: bool) -> Iterator[Case]:
    """Beside other ways in torch."""
    needs_device()
    yield against_peers(PEER_ELEMENTS // (HORIZON * DOF))


@suite("cuda_sweep")
def cuda_sweep(quick: bool) -> Iterator[Case]:
    """Forward and vjp of every map at every batch, up to what the device holds."""
    needs_device()
    for name in ("clique", "acceleration_zoh") if quick else MAPS:
        for batch in BATCHES:
            yield swept(name, batch)
        elements = min(QUICK_ELEMENTS if quick else LARGE_ELEMENTS, most_elements())
        yield swept(name, elements // (HORIZON * DOF), targets={"limit": BANDWIDTH_TARGET})


@suite("cuda_engine")
def cuda_engine(quick: bool) -> Iterator[Case]:
    """Host arrays to host arrays, both directions, on the device, the CPU and as `auto` chooses by its crossover."""
    needs_device()
    engines = {device: TrajectoryIntegrator(device) for device in (DEVICE, "cpu", "auto")}
    for batch in (1, 1000) if quick else ENGINE_BATCHES:
        yield between_host_arrays(batch, engines)
    print(f"auto: {engines['auto'].place}")


def problem_of(name: str, batch: int, device: str) -> Problem:
    """Every trajectory begins at the same position, and the first fifty are checked."""
    rows, start = MAPS[name].output_horizon(HORIZON), [torch.zeros(1, DOF, device=device)]
    step = partial(MAPS[name].step, dt=DT)
    return Problem(step, (batch, HORIZON, DOF), fixed=start, rows=rows, first=50, device=device)


def most_elements() -> int:
    """Action elements that the device holds: twenty tensors of a map and its copy, and what autograd allocates."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    return int(free * 0.8) // (40 * 4)


def swept(name: str, batch: int, targets: Mapping[str, float] | None = None) -> Case:
    """Both directions through autograd from a graph, beside the same eagerly and a copy."""
    problem = problem_of(name, batch, DEVICE)
    eager = problem.by_autograd("eager")
    ours = replayed(eager) if DEVICE == "cuda" else problem.by_autograd()
    most_us = REPLAY_MOST_US if (name, batch) == ("clique", SMALL_BATCH) else None
    return problem.case(name, ours, eager, limit=problem.copies(count=1), targets=targets or {}, most_us=most_us)


def replayed(eager: Contender) -> Contender:
    """The same captured in a graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # torch wants what autograd allocates at first to be there before a capture
        for _ in range(3):
            eager.run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = eager.run()

    def run() -> Sequence[Tensor]:
        graph.replay()
        return results

    return Contender("graph", run, eager.check)


def against_peers(batch: int) -> Case:
    """Forward and backward through autograd, as a user calls them, beside the other ways to do it in torch."""
    problem = problem_of("clique", batch, DEVICE)
    peers = {"matrix form": matrix_form, "torch slices": slices}
    for mode in ("default", "reduce-overhead"):
        peers[f"torch.compile {mode}"] = torch.compile(slices, dynamic=False, mode=mode)
    # In float32 the peers' own rounding grows with the order of the derivative.
    others = [
        problem.by_autograd(name, lambda u, p, step=step: step(u, p.expand(batch, -1)), limit=1e-3)
        for name, step in peers.items()
    ]
    return problem.case("clique, forward + backward", problem.by_autograd(), *others, limit=problem.copies(count=1))


def between_host_arrays(batch: int, engines: Mapping[str, TrajectoryIntegrator]) -> Case:
    """Integration and vjp; the first engine is ours."""
    problem = problem_of("clique", batch, "cpu")
    upstream = [gradient.numpy() for gradient in problem.upstream]
    forward, backward = from_rest("clique", problem.leaves[0].detach().numpy(), upstream)

    def run(engine: TrajectoryIntegrator) -> list[np.ndarray]:
        found = np.array(engine.integrate(forward))  # a copy: the memory is used again
        return [*found, engine.vjp(backward).action]

    ways = [problem.by_calling(name, partial(run, engine)) for name, engine in engines.items()]
    return problem.case("engine, host to host", *ways)

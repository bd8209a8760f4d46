"""The Triton kernels and the engine on a CUDA device: beside copies, the CPU, and torch in other ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.engine.call import call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS, clique_step

from ..problems import DOF, DT, HORIZON, Problem
from ..registry import CannotRun, Case, Contender, suite
from .cpu_kernels import matrix_form, slices

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
    engines = engines_of((DEVICE, "cpu", "auto"))
    for batch in (1, 1000) if quick else ENGINE_BATCHES:
        yield between_host_arrays(batch, engines)
    print(f"auto: {engines['auto'].place}")


def problem_on_device(name: str, batch: int) -> Problem:
    """Every trajectory begins at the same position."""
    step, rows = partial(MAPS[name].step, dt=DT), MAPS[name].output_horizon(HORIZON)
    start = [torch.zeros(1, DOF, device=DEVICE)]
    return Problem(step, (batch, HORIZON, DOF), fixed=start, rows=rows, first=CHECKED, device=DEVICE)


def most_elements() -> int:
    """Action elements that the device holds: twenty tensors of a map and its copy, and what autograd allocates."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    return int(free * 0.8) // (40 * 4)


def swept(name: str, batch: int, targets: dict[str, float] | None = None) -> Case:
    """Both directions through autograd from a graph, beside the same eagerly and a copy."""
    problem = problem_on_device(name, batch)
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
    problem = problem_on_device("clique", batch)
    peers = {"matrix form": matrix_form, "torch slices": slices}
    for mode in ("default", "reduce-overhead"):
        peers[f"torch.compile {mode}"] = torch.compile(slices, dynamic=False, mode=mode)
    # In float32 the peers' own rounding grows with the order of the derivative.
    others = [
        problem.by_autograd(name, lambda u, p, step=step: step(u, p.expand(batch, -1)), limit=1e-3)
        for name, step in peers.items()
    ]
    return problem.case("clique, forward + backward", problem.by_autograd(), *others, limit=problem.copies(count=1))


def engines_of(devices: Sequence[str]) -> dict[str, TrajectoryIntegrator]:
    return {device: TrajectoryIntegrator(device) for device in devices}


def between_host_arrays(batch: int, engines: dict[str, TrajectoryIntegrator]) -> Case:
    """Integration and vjp; the first engine is ours."""
    problem = Problem(partial(clique_step, dt=DT), (batch, HORIZON, DOF), fixed=[torch.zeros(1, DOF)])
    ends = ends_of((np.zeros((1, DOF), np.float32), None, None))
    call = call_of(MAPS["clique"], problem.leaves[0].detach().numpy(), DT, ends)
    backward = call._replace(upstream=tuple(gradient.numpy() for gradient in problem.upstream))

    def run(engine: TrajectoryIntegrator) -> list[np.ndarray]:
        found = np.array(engine.integrate(call))  # a copy: the memory is used again
        return [*found, engine.vjp(backward).action]

    ways = [problem.by_calling(name, partial(run, engine)) for name, engine in engines.items()]
    return problem.case("engine, host to host", *ways)

"""The Triton kernels and the engine on a CUDA device: beside copies, the CPU, and torch in other ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.engine.call import call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS

from ..problems import COPY, DOF, DT, HORIZON, Problem
from ..registry import CannotRun, Case, Contender

LARGE_ELEMENTS, QUICK_ELEMENTS, PEER_ELEMENTS = 1 << 28, 1 << 25, 1 << 24
# Least share of the speed of a device copy of the same bytes, at the largest batch.
BANDWIDTH_TARGET = 0.9
SMALL_BATCH, REPLAY_MOST_US = 64, 10.0
BATCHES = (1, 10, SMALL_BATCH, 1000, 10_000, 100_000)
ENGINE_BATCHES = (1, 4, 16, 32, 64, 128, 256, 1000, 10_000, 100_000)
"""Denser where the device may begin to win."""
DEVICE = "cuda"


def needs_device() -> None:
    """Raise CannotRun if there is no device."""
    if not torch.cuda.is_available():
        raise CannotRun("no CUDA device")


def cuda_kernels(quick: bool) -> Iterator[Case]:
    """Forward and backward through autograd, as a user calls them, beside the other ways in torch."""
    needs_device()
    batch = PEER_ELEMENTS // (HORIZON * DOF)
    problem, compiled = Problem("clique", batch, HORIZON, DOF, device=DEVICE), torch.compile(slices, dynamic=False)
    # In float32 the peers' own rounding grows with the order of the derivative.
    others = [
        problem.by_autograd(name, lambda u, p, step=step: step(u, p.expand(batch, -1)), limit=1e-3)
        for name, step in {"torch slices": slices, "torch.compile": compiled}.items()
    ]
    yield problem.case("clique, forward + backward", problem.by_autograd(), *others)


def slices(action: Tensor, start: Tensor) -> Sequence[Tensor]:
    """A torch user's implementation, for a start at rest."""
    outputs = [torch.cat([start[:, None], action[:, :-1]], 1)]
    zero = torch.zeros_like(start)[:, None]
    for _ in range(3):
        outputs.append(torch.cat([zero, (outputs[-1][:, 1:] - outputs[-1][:, :-1]) / DT], 1))
    return outputs


def cuda_sweep(quick: bool) -> Iterator[Case]:
    """Both directions of every map at every batch that the device holds: from a graph, eagerly, and a copy."""
    needs_device()
    for name in ("clique", "acceleration_zoh") if quick else MAPS:
        elements = min(QUICK_ELEMENTS if quick else LARGE_ELEMENTS, most_elements())
        for batch in (*BATCHES, elements // (HORIZON * DOF)):
            problem = Problem(name, batch, HORIZON, DOF, device=DEVICE)
            eager = problem.by_autograd("eager")
            options = {"most_us": REPLAY_MOST_US} if (name, batch) == ("clique", SMALL_BATCH) else {}
            targets = {} if batch in BATCHES else {COPY: BANDWIDTH_TARGET}
            yield problem.case(name, replayed(eager), eager, problem.copies(), targets=targets, **options)


def cuda_engine(quick: bool) -> Iterator[Case]:
    """Host arrays to host arrays, both directions: on the device and on the CPU."""
    needs_device()
    engines = {device: TrajectoryIntegrator(device) for device in (DEVICE, "cpu")}
    for batch in (1, 1000) if quick else ENGINE_BATCHES:
        problem = Problem("clique", batch, HORIZON, DOF)
        ways = [by_engine(problem, engine, name) for name, engine in engines.items()]
        yield problem.case("engine, host to host", *ways)


def by_engine(problem: Problem, engine: TrajectoryIntegrator, name: str) -> Contender:
    """Integration and its vjp by an engine from arrays of the host to arrays of their own."""
    start = np.zeros((1, problem.shape[2]), np.float32)
    forward = call_of(MAPS[problem.name], problem.action.detach().numpy(), DT, ends_of((start, None, None)))
    backward = forward._replace(upstream=tuple(gradient.numpy() for gradient in problem.upstream))

    def run() -> list[np.ndarray]:
        return [*np.array(engine.integrate(forward)), engine.vjp(backward).action]

    return problem.by_calling(name, run)


def most_elements() -> int:
    """Action elements that the device holds: twenty tensors of a map and its copy, and what autograd allocates."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    return int(free * 0.8) // (40 * 4)


def replayed(eager: Contender) -> Contender:
    """The same work captured in a graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # torch wants memory that autograd allocates at first to exist before a capture
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

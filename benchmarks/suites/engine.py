"""The engine compared with the kernels it calls: the cost of checks, memory reuse and the choice of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.engine.call import Call, call_of, ends_of, step_lengths, time_from_start
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS, Backend, clique_step, default_backend
from traj_integrator_ros.kernels.types import Inputs, VjpInputs

from ..problems import DOF, DT, HORIZON, Problem, add_of, is_close_to, random
from ..registry import CannotRun, Case, Contender, sizes, suite

# Most that the engine may add to the kernel's own time for one small trajectory, us.
ADDED_US = 25.0


def from_rest(name: str, actions: np.ndarray, upstream: Sequence[np.ndarray]) -> tuple[Call, Call]:
    """The calls of a map for trajectories from rest at zero, and for its vjp."""
    start = np.zeros((1, actions.shape[2]), np.float32)
    forward = call_of(MAPS[name], actions, DT, ends_of((start, None, None)))
    return forward, forward._replace(upstream=tuple(upstream))


@suite("engine")
def engine(quick: bool, only: int | None = None) -> Iterator[Case]:
    if default_backend(torch.device("cpu")) is not Backend.NATIVE:
        raise CannotRun("the C++ kernels are not built")
    for batch in sizes(quick, only, (1, 64), (1, 64, 1000)):
        yield from both_ways(batch)
    exact = torch.arange(HORIZON).double() * DT
    add = add_of(random(1, HORIZON, DOF), "torch.add of 1 x 32 x 7")
    mine = Contender("ours", lambda: time_from_start(MAPS["clique"], step_lengths(DT), HORIZON), is_close_to(exact))
    yield Case("time_from_start", 1, HORIZON, DOF, mine, (add,), dtype="float64")


def both_ways(batch: int) -> Iterator[Case]:
    """Integration and vjp with numpy arrays, as the node calls them."""
    from traj_integrator_ros.kernels import native

    ours, problem = TrajectoryIntegrator("cpu"), Problem(partial(clique_step, dt=DT), (batch, HORIZON, DOF), (1, DOF))
    action, start = (leaf.detach() for leaf in problem.leaves)
    actions, state, given = action.numpy(), start.numpy(), tuple(gradient.numpy() for gradient in problem.upstream)
    dt = torch.full((1, 1), DT, dtype=torch.float64)
    out, into = [torch.empty_like(action) for _ in range(4)], torch.empty_like(action)
    inputs = Inputs((action, start, *[None] * 7), (None, None), dt)
    needs = (*[True] * 4, *[False] * 5)
    of_vjp = VjpInputs(problem.upstream, (None, None), dt, (1, -1), HORIZON, needs)

    def call() -> Call:
        return call_of(MAPS["clique"], actions, DT, ends_of((state, None, None)))

    def engine_vjp() -> tuple[np.ndarray, ...]:
        gradient = ours.vjp(call()._replace(upstream=given))
        return gradient.action, gradient.start[0]

    def kernel_forward() -> list[Tensor]:
        native.clique_forward(inputs, out=out)
        return out

    def kernel_vjp() -> tuple[Tensor, ...]:
        return native.clique_vjp(of_vjp, out=(into, *[None] * 8))[:2]

    for name, by_engine, by_kernel, exact in (
        ("integrate_array", lambda: ours.integrate(call()), kernel_forward, problem.exact[:4]),
        ("vjp_arrays", engine_vjp, kernel_vjp, problem.exact[4:]),
    ):
        check = is_close_to(*exact)
        peer = Contender("kernel on tensors", by_kernel, check)
        added = {peer.name: ADDED_US} if batch == 1 else {}
        mine = Contender("ours", by_engine, check)
        yield problem.case(name, mine, peer, add_of(action), added_targets_us=added)

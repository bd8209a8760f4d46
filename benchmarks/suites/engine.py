"""The engine compared with the kernels it calls: the cost of checks, memory reuse and the choice of a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from traj_integrator_ros.engine.call import Call, call_of, ends_of, step_lengths, time_from_start
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS, Backend, clique_step, default_backend

from ..checks import exactly, is_close_to, random
from ..registry import Case, Contender, Unmeasured, suite

HORIZON, DOF, DT = 32, 7, 0.02
# Most that the engine may add to the kernel's own time for one small trajectory, us.
ADDED_US = 25.0


@suite("engine")
def engine(quick: bool) -> Iterator[Case | Unmeasured]:
    if default_backend(torch.device("cpu")) is not Backend.NATIVE:
        yield Unmeasured("integrate, vjp", "the C++ kernels are not built")
        return
    for batch in (1, 64) if quick else (1, 64, 1000):
        yield from both_ways(batch)
    yield times()


def both_ways(batch: int) -> Iterator[Case]:
    """Integration and vjp with numpy arrays, as the node calls them."""
    from traj_integrator_ros.kernels import native

    ours = TrajectoryIntegrator("cpu")
    action, start = random(batch, HORIZON, DOF), random(1, DOF)
    upstream = [random(batch, HORIZON, DOF) for _ in range(4)]
    expected = exactly(partial(clique_step, dt=DT, backend="reference"), [action, start], upstream)
    outputs, gradients = expected[:4], expected[4:]

    def call() -> Call:
        return call_of(MAPS["clique"], actions, DT, ends_of((state, None, None)))

    actions, state = action.numpy(), start.numpy()
    given = tuple(gradient.numpy() for gradient in upstream)
    dt = torch.full((1, 1), DT, dtype=torch.float64)
    out, into = [torch.empty_like(action) for _ in range(4)], torch.empty_like(action)
    needs = (True, True, True, True)

    def vjp(call: Call) -> tuple[object, ...]:
        gradient = ours.vjp(call)
        return gradient.action, gradient.start[0]

    def raw_forward() -> list[Tensor]:
        native.clique_forward(action, start, None, None, None, dt, out=out)
        return out

    def raw_vjp() -> tuple[Tensor | None, ...]:
        options = {"start_rows": 1, "action_horizon": HORIZON, "needs": needs, "out": into}
        return native.clique_vjp(*upstream, None, dt, **options)[:2]

    add = Contender("torch.add of this size", lambda: torch.add(action, action), is_close_to(2 * action))
    added = {"kernel on tensors": ADDED_US} if batch == 1 else {}
    yield Case(
        "integrate_array",
        batch,
        HORIZON,
        DOF,
        Contender("ours", lambda: ours.integrate(call()), is_close_to(*outputs)),
        (Contender("kernel on tensors", raw_forward, is_close_to(*outputs)), add),
        added_targets_us=added,
    )
    yield Case(
        "vjp_arrays",
        batch,
        HORIZON,
        DOF,
        Contender(
            "ours",
            lambda: vjp(call()._replace(upstream=given)),
            is_close_to(*gradients),
        ),
        (Contender("kernel on tensors", raw_vjp, is_close_to(*gradients)), add),
        added_targets_us=added,
    )


def times() -> Case:
    small = random(1, HORIZON, DOF)
    return Case(
        "time_from_start",
        1,
        HORIZON,
        DOF,
        Contender(
            "ours",
            lambda: time_from_start(MAPS["clique"], step_lengths(DT), HORIZON),
            is_close_to(torch.arange(HORIZON).double() * DT),
        ),
        (Contender("torch.add of 1 x 32 x 7", lambda: torch.add(small, small), is_close_to(2 * small)),),
        dtype="float64",
    )

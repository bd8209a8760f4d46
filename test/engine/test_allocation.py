"""Once a kind of call has been seen, the engine allocates no tensor and gives the same memory back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from engine_cases import EngineCase
from torch.profiler import ProfilerActivity, profile

from traj_integrator_ros.engine.call import Wanted, step_lengths
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import MAPS, Backend, ControlMap, CostTerm, QuadraticCost, default_backend

NEEDS_NATIVE = pytest.mark.skipif(
    default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ kernels are not built"
)


def allocations(run: Callable[[], object]) -> int:
    """Tensor memory allocated on the host while `run` runs, counted by torch's profiler."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    events = profiled.profiler.kineto_results.events()
    return sum(event.name() == "[memory]" and event.nbytes() > 0 for event in events)


def runs_of(engine: TrajectoryIntegrator, kernel: ControlMap, form: str) -> list[Callable[[], object]]:
    """Forward and vjp calls of one kind, with inputs in the forms that requests bring."""
    case = EngineCase(kernel, start=form)
    call, upstream = case.call(), case.upstream()
    linear = call._replace(actions=None, start=call.start._replace(rows=()))
    return [
        lambda: engine.integrate(call),
        lambda: engine.integrate(call._replace(dt=step_lengths(0.1))),
        lambda: engine.vjp(call._replace(upstream=upstream)),
        lambda: engine.vjp(linear._replace(upstream=(*upstream[:3], None))),
        lambda: engine.vjp(linear._replace(upstream=(None,) * 4)),
    ]


@NEEDS_NATIVE
def test_nothing_is_allocated_in_the_steady_state():
    engine = TrajectoryIntegrator("cpu")
    runs = [run for kernel in MAPS.values() for form in ("one", "own", "pool") for run in runs_of(engine, kernel, form)]

    def all_of_them() -> None:
        for run in runs:
            run()

    assert allocations(all_of_them) > 0
    assert allocations(all_of_them) == 0


@pytest.mark.parametrize("kernel", ["clique", "bspline_tight"])
@pytest.mark.parametrize("is_staged", [False, True], ids=["direct", "staged"])
def test_a_dropped_engine_frees_its_memory_at_once(kernel: str, is_staged: bool) -> None:
    engine = TrajectoryIntegrator(
        "cpu", runner=StagedRunner(torch.device("cpu"), torch.float32, 4) if is_staged else None
    )
    case = EngineCase(MAPS[kernel])
    case.run(engine, want_dt=True)
    terms = QuadraticCost(CostTerm(weight=np.ones(case.dof)))
    engine.evaluate(case.call(), terms, Wanted(start=True, dt=True))
    memory = engine._buffers._storage.values()
    gone = [weakref.ref(part) for part in (engine._runner, engine._buffers, *memory)]
    del memory
    gc.disable()
    try:
        del engine
        assert not any(part() is not None for part in gone)
    finally:
        gc.enable()

"""Once a kind of call has been seen, the engine allocates no tensor and gives the same memory back."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from traj_integrator_ros.engine.integrator import (
    IntegratorConfig,
    StartState,
    TrajectoryIntegrator,
    UpstreamGradient,
    Wanted,
)
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import Backend, ControlSpace, CostTerm, QuadraticCost, default_backend

NEEDS_NATIVE = pytest.mark.skipif(
    default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ kernels are not built"
)
DOF = 3


def engine_with(**fields: object) -> TrajectoryIntegrator:
    return TrajectoryIntegrator(IntegratorConfig(**{"dof": DOF, "device": "cpu", **fields}))


def allocations(run: Callable[[], object]) -> int:
    """Tensor memory allocated on the host while `run` runs, counted by torch's profiler."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    events = profiled.profiler.kineto_results.events()
    return sum(event.name() == "[memory]" and event.nbytes() > 0 for event in events)


def test_the_count_sees_an_allocation():
    assert allocations(lambda: None) == 0
    assert allocations(lambda: [torch.empty(5), torch.add(torch.ones(2), 1)]) >= 3


def calls(engine: TrajectoryIntegrator, space: ControlSpace, form: str, dtype: type) -> list[Callable[[], object]]:
    """Forward and vjp calls of one kind, with inputs in the forms that requests bring."""
    random = np.random.default_rng(0)
    batch, horizon = 5, 6
    rows = {"one row": 1, "rows": batch, "pool": 2}[form]
    start = StartState(*random.standard_normal((3, rows, DOF)).astype(dtype))
    actions = random.standard_normal((batch, horizon, DOF)).astype(dtype)
    shape = (batch, engine.output_horizon(horizon, space), DOF)
    upstream = UpstreamGradient(*random.standard_normal((4, *shape)).astype(dtype))
    given = {"control_space": space, "start_index": np.array([0, 1, 1, 0, 1]) if form == "pool" else None}
    size = {"batch": batch, "action_horizon": horizon}
    return [
        lambda: engine.integrate_array(start, actions, **given),
        lambda: engine.integrate_array(start, actions, 0.1, **given),
        lambda: engine.vjp_arrays(start, upstream, **size, **given),
        lambda: engine.vjp_arrays(None, upstream._replace(jerk=None), **size, **given, start_rows=rows),
        lambda: engine.vjp_arrays(start, UpstreamGradient(), **size, **given),
    ]


@NEEDS_NATIVE
@pytest.mark.parametrize("difference", ["backward", "central"])
def test_nothing_is_allocated_in_the_steady_state(difference):
    engine = engine_with(finite_difference=difference)
    forms = [(form, dtype) for form in ("one row", "rows", "pool") for dtype in (np.float32, np.float64)]
    runs = [run for space in ControlSpace for form in forms for run in calls(engine, space, *form)]

    def all_of_them() -> None:
        for run in runs:
            run()

    assert allocations(all_of_them) > 0
    assert allocations(all_of_them) == 0


@NEEDS_NATIVE
def test_python_memory_does_not_grow_with_calls():
    runs = calls(engine_with(), ControlSpace.JERK, "pool", np.float32)

    def traced(count: int) -> int:
        for _ in range(count):
            for run in runs:
                run()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = traced(2000)  # Python keeps up to 2,000 dead tuples of a size
        assert traced(2000) - before < 20_000
    finally:
        tracemalloc.stop()


def test_the_same_kind_of_call_gives_the_same_memory_and_a_larger_one_grows_it_once():
    engine = engine_with()

    def addresses(batch: int) -> list[int]:
        actions, start = np.ones((batch, 16, DOF), np.float32), StartState(np.zeros((1, DOF), np.float32))
        actions.flags.writeable = False
        evaluated = engine.evaluate(start, actions, QuadraticCost(CostTerm(weight=np.ones(DOF)))).action
        outputs = engine.integrate_array(start, actions)
        gradient = engine.vjp_arrays(start, UpstreamGradient(*outputs), actions=actions)
        assert outputs.flags.c_contiguous
        assert np.array_equal(np.concatenate([values.ravel() for values in gradient[:4]]), gradient.values)
        assert evaluated.dtype == np.float32
        return [values.ctypes.data for values in (outputs, *gradient[:4], evaluated)]

    small = addresses(3)
    assert addresses(3) == small
    large = addresses(64)
    assert addresses(64) == large
    assert addresses(3)[0] == large[0], "the memory for the largest serves the smaller ones"
    assert addresses(64) == large


def test_shapes_that_change_all_the_time_are_not_all_remembered():
    engine, start = engine_with(), StartState(np.zeros((1, DOF), np.float32))
    for horizon in range(256, 0, -1):  # the memory for results, which takes views along, does not grow
        for batch in (1, 2, 3):
            engine.integrate_array(start, np.zeros((batch, horizon, DOF), np.float32), 0.1 / horizon)
    assert len(engine._buffers._views) <= 256


def _used_engine(space: ControlSpace, *, is_staged: bool) -> TrajectoryIntegrator:
    config = IntegratorConfig(dof=2, control_space=space, device="cpu")
    engine = TrajectoryIntegrator(config, StagedRunner(torch.device("cpu"), torch.float32, 4) if is_staged else None)
    start, actions = StartState(np.zeros((1, 2))), np.zeros((3, 5, 2))
    outputs = engine.integrate_array(start, actions)
    engine.vjp_arrays(start, UpstreamGradient(outputs[0]), actions=actions, want_dt=True)
    ones = CostTerm(weight=np.ones(2))
    engine.evaluate(start, actions, QuadraticCost(ones), wanted=Wanted(start=True, dt=True))
    return engine


@pytest.mark.parametrize("space", [ControlSpace.POSITION, ControlSpace.BSPLINE])
@pytest.mark.parametrize("is_staged", [False, True], ids=["direct", "staged"])
def test_a_dropped_engine_frees_its_memory_at_once(space: ControlSpace, is_staged: bool) -> None:
    engine = _used_engine(space, is_staged=is_staged)
    memory = engine._buffers._storage.values()
    gone = [weakref.ref(part) for part in (engine._runner, engine._buffers, *memory)]
    del memory
    changed = engine.with_changes(dt=0.5)
    gc.disable()
    try:
        del engine
        assert all(part() is not None for part in gone), "another one has taken them over"
        del changed
        assert not any(part() is not None for part in gone)
    finally:
        gc.enable()

"""The way of the public functions to the C++ loops: it computes what the operator does, and keeps no tensors.

Memory of results that is kept for later ones is reused, but never while anything holds it.
"""

from __future__ import annotations

import dataclasses
import gc
import threading
from functools import partial

import pytest
import torch
from operator_cases import MAP, Case, assert_all_close, cost
from torch.fx.experimental.proxy_tensor import make_fx

from traj_integrator_ros.kernels import MAPS, Trajectory, clique_step, control_map

pytest.importorskip("traj_integrator_ros.kernels.native", reason="there is no C++ extension", exc_type=ImportError)


def leaves(dtype=torch.float64):
    values = Case(MAPS["clique"], batch=3, horizon=6, dt="number").tensors.values()
    return [value.to(dtype).requires_grad_() for value in values]


@MAP
@pytest.mark.parametrize(("ends", "dt"), [("own", "number"), ("pool", "number"), ("one", "[B, 1]"), ("own", "[H]")])
def test_it_records_what_the_operator_does(kernel, ends, dt):
    """Outputs to the last bit, and first derivatives; test_operators_derivatives.py has all others of both."""
    options = {"truncate_terminal_gradient": True} if kernel.operator.truncates else {}
    dt = "scalar" if kernel.uniform_dt_only and dt == "[H]" else dt
    case = Case(kernel, batch=3, horizon=6, dt=dt, start=ends)
    if kernel.operator.goals and ends == "pool":
        case = dataclasses.replace(case, kernel=control_map(kernel, bspline_degree=5), goal="pool", absent=())
    inputs = case.leaves()
    plain, general = case.step(*inputs, **options), case.step(*inputs, **options, backend="native")
    assert type(plain).__name__ == "Trajectory"
    for a, b in zip(plain, general, strict=True):
        assert torch.equal(a, b)
    found, wanted = (torch.autograd.grad(cost(outputs), inputs) for outputs in (plain, general))
    assert_all_close(found, wanted, 1e-11)


@pytest.mark.parametrize(
    "trace", [lambda step, x: make_fx(step)(x), partial(torch.jit.trace, check_trace=False)], ids=["make_fx", "jit"]
)
def test_what_a_tracer_records_computes_for_other_numbers(trace):
    action, position, *_ = (x.detach() for x in leaves())

    def step(action: torch.Tensor) -> torch.Tensor:
        return clique_step(action, position, dt=0.1).jerk

    traced = trace(step, action)
    assert torch.equal(traced(2 * action), step(2 * action))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # from objects that isinstance examines
def test_a_loop_of_steps_leaves_no_tensors_behind():
    def living() -> int:
        gc.collect()
        return sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())

    action, position, *_ = leaves(dtype=torch.float32)
    counts = []
    for _ in range(2):
        for _ in range(30):
            clique_step(action, position, dt=0.1).jerk.sum().backward()
        counts.append(living())
    # fewer, because leftovers of earlier tests are freed meanwhile
    assert counts[1] - counts[0] < 30, "a tensor for each step"


def step_of(batch: int = 500, value: float = 1.0) -> Trajectory:
    """Four results of 448 kB for each 500 trajectories; positions are `value`."""
    return clique_step(torch.full((batch, 32, 7), value), torch.full((1, 7), value), dt=0.1)


def test_memory_is_reused_once_it_is_released() -> None:
    held = {output.data_ptr() for output in step_of()}
    again = {output.data_ptr() for output in step_of(value=2.0)}
    # Where a result begins in a page depends on the inputs.
    assert all(min(abs(pointer - other) for other in held) <= 4096 for pointer in again)


def test_memory_that_anything_holds_is_not_used_again() -> None:
    view = step_of().position[3]
    array = step_of().velocity.numpy()
    saved = torch.ones(500, 32, 7, requires_grad=True)
    squared = saved * step_of().position
    for value in range(2, 6):
        step_of(value=float(value))
    assert (view == 1).all() and (array == 0).all()
    squared.sum().backward()
    assert (saved.grad == 1).all()


def test_threads_may_take_and_drop_at_once() -> None:
    wrong: list[float] = []

    def work(value: float) -> None:
        for _ in range(40):
            trajectory = step_of(150, value)
            if not ((trajectory.position == value).all() and (trajectory.jerk == 0).all()):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(value),)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

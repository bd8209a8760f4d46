"""Memory of results that is kept for later ones is reused, but never while anything holds it."""

from __future__ import annotations

import threading

import pytest
import torch

from traj_integrator_ros.kernels import Trajectory, clique_step

pytest.importorskip("traj_integrator_ros.kernels.native", reason="there is no C++ extension", exc_type=ImportError)


def step(batch: int = 500, value: float = 1.0) -> Trajectory:
    """Four results of 448 kB for each 500 trajectories; positions are `value`."""
    return clique_step(torch.full((batch, 32, 7), value), torch.full((1, 7), value), dt=0.1)


def test_memory_is_reused_once_it_is_released() -> None:
    held = {output.data_ptr() for output in step()}
    again = {output.data_ptr() for output in step(value=2.0)}
    # Where a result begins in a page depends on the inputs.
    assert all(min(abs(pointer - other) for other in held) <= 4096 for pointer in again)


def test_memory_that_anything_holds_is_not_used_again() -> None:
    view = step().position[3]
    array = step().velocity.numpy()
    saved = torch.ones(500, 32, 7, requires_grad=True)
    squared = saved * step().position
    for value in range(2, 6):
        step(value=float(value))
    assert (view == 1).all() and (array == 0).all()
    squared.sum().backward()
    assert (saved.grad == 1).all()


def test_threads_may_take_and_drop_at_once() -> None:
    wrong: list[float] = []

    def work(value: float) -> None:
        for _ in range(40):
            trajectory = step(150, value)
            if not ((trajectory.position == value).all() and (trajectory.jerk == 0).all()):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(value),)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

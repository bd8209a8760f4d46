"""Memory of results that is kept for later ones: when it is reused, when it is not, and how much there is."""

from __future__ import annotations

import gc
import os
import subprocess
import threading
from collections.abc import Iterator

import pytest
import torch
from preloaded_python import preloaded_python

from traj_integrator_ros.kernels import Trajectory, clique_step

try:
    from traj_integrator_ros.kernels import native
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)

LIMIT_BYTES = 64 * 2**20


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    gc.collect()  # leftovers of earlier tests may return memory at any time
    native.release_kept_memory()
    yield
    native.release_kept_memory()


def step(batch: int = 500, value: float = 1.0) -> Trajectory:
    """Four results of 448 kB for each 500 trajectories; positions are `value`."""
    return clique_step(torch.full((batch, 32, 7), value), torch.full((1, 7), value), dt=0.1)


def pointers(trajectory: Trajectory) -> set[int]:
    return {output.data_ptr() for output in trajectory}


def test_memory_is_reused_once_it_is_released() -> None:
    first = step()
    held = pointers(first)
    assert native.kept_bytes() == 0
    del first
    kept = native.kept_bytes()
    needed = 4 * 500 * 32 * 7 * 4
    assert needed <= kept < needed + 4 * 4600  # the head of each result, and room to begin anywhere in a page
    second = step(value=2.0)
    # Where a result begins in a page depends on the inputs.
    assert all(min(abs(pointer - other) for other in held) <= 4096 for pointer in pointers(second))
    assert native.kept_bytes() == 0
    assert (second.position == 2).all()
    del second
    assert native.kept_bytes() == kept
    native.release_kept_memory()
    assert native.kept_bytes() == 0


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


def test_no_more_is_kept_than_the_limit() -> None:
    results = [step(2000) for _ in range(12)]  # 86 MB
    del results
    assert LIMIT_BYTES - 2000 * 32 * 7 * 4 < native.kept_bytes() <= LIMIT_BYTES
    huge = clique_step(torch.zeros(80_000, 32, 7), torch.zeros(1, 7), dt=0.1)  # 72 MB each
    del huge
    assert native.kept_bytes() <= LIMIT_BYTES


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
    assert not wrong and native.kept_bytes() <= LIMIT_BYTES


def test_the_environment_says_how_much() -> None:
    program = (
        "import torch; from traj_integrator_ros.kernels import clique_step, native\n"
        "clique_step(torch.zeros(500, 32, 7), torch.zeros(1, 7), dt=0.1); print(native.kept_bytes())"
    )
    environment = {**os.environ, "TRAJ_INTEGRATOR_KEPT_MIB": "0"}
    printed = subprocess.check_output([preloaded_python(), "-c", program], env=environment, text=True)
    assert printed.strip() == "0"

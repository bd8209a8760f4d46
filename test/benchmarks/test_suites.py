"""Every case of the suites gives right results, also those timed on a CUDA device only."""

from __future__ import annotations

import pytest
import torch

from benchmarks.suites import cpu, cuda, one, scaling
from traj_integrator_ros.kernels import default_backend


def check(case) -> int:
    """Run and check every contender once; returns how many there were."""
    for contender in case.contenders:
        contender.check(contender.run())
        result = contender.run()
        with pytest.raises(AssertionError):
            contender.check(spoiled(result))
    return len(case.contenders)


def spoiled(result):
    """The same result with a wrong number in it."""
    if isinstance(result, (list, tuple)):
        return [*result[:-1], spoiled(result[-1])]
    return 1.01 * result + 1


@pytest.mark.parametrize(
    ("suite", "counts"),
    [
        (cpu.cpu_entries, [4]),
        (cpu.cpu_kernels, [3, 3, 2]),
        (one.cpu_one_trajectory, [2, 1, 1] * 8),
    ],
)
def test_every_case_is_right(suite, counts):
    if default_backend(torch.device("cpu")).value != "native":
        pytest.skip("the C++ kernels are not built")
    assert [check(case) for case in suite(True, 16)] == counts


@pytest.mark.parametrize("name", ["clique", "clique_central", "acceleration_zoh"])
def test_scaling_cases_are_right(name):
    assert check(scaling.on_cpu((name, 60, 12, 3))) == 2


def test_cases_of_the_device_are_right_on_the_cpu_too(monkeypatch):
    monkeypatch.setattr(cuda, "DEVICE", "cpu")
    monkeypatch.setattr(cuda, "needs_device", lambda: None)
    monkeypatch.setattr(cuda, "most_elements", lambda: 1 << 20)
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    suites = cuda.cuda_sweep, cuda.cuda_kernels, cuda.cuda_engine, cuda.cuda_workloads
    assert [[check(case) for case in suite(True, 60)] for suite in suites] == [[3] * 4, [4], [1], [2, 2]]

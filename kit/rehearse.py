"""Rehearses `make gpu` without a GPU: `make gpu PYTHON="python -m kit.rehearse"`.

Each part runs from begin to end on the devices of `fake_cuda`, with small batches. Times mean nothing, and no results
are kept.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import torch

from .fake_cuda import FakeCuda, devices_of_loops

CHECKS = Path(__file__).resolve().parent.parent / "test" / "kernels"
ARCHITECTURE = 90
LEFT_OUT = "bspline and (differentiate_through or engine_drives)"
"""Tests that are left out: torch.func does not work with a mode that makes tensors, which the reference's gradient
needs.
"""
SMALL = {"BATCHES": (1, 10), "ENGINE_BATCHES": (1, 16), "WORKLOAD_BATCHES": (20,), "PEER_ELEMENTS": 1 << 12}


def main() -> None:
    """Do what Python would do with the same arguments: `-c PROGRAM`, `-m MODULE ...` or `FILE ...`."""
    first, *words = sys.argv[1:]
    if first == "-c":
        with devices_of_loops():
            exec(words[0], {"__name__": "__main__"})
    elif first == "-m":
        sys.argv = words
        with benchmarks() if words[0] == "benchmarks" else checks():
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *words]
        runpy.run_path(first, run_name="__main__")


@contextmanager
def benchmarks() -> Iterator[None]:
    """Run the suites at small sizes, with two samples of each; kernels are the loops of the CPU."""
    from benchmarks import report, timing
    from benchmarks.suites import cuda

    interleaved = timing.interleaved
    with ExitStack() as stack:
        kept = stack.enter_context(TemporaryDirectory())
        stack.enter_context(devices_of_loops())
        stack.enter_context(mock.patch.object(torch, "compile", lambda function, **options: function))
        sizes = {**SMALL, "DEVICE": "cuda:0", "most_elements": lambda: 1 << 12}
        stack.enter_context(mock.patch.multiple(cuda, **sizes))
        stack.enter_context(mock.patch.object(timing, "interleaved", lambda samplers, _: interleaved(samplers, 2)))
        stack.enter_context(mock.patch.object(report, "machine_name", lambda: kept))
        sys.argv.append("--quick")
        yield


@contextmanager
def checks() -> Iterator[None]:
    """Run one example of each check of the kernels, which are compiled; their PTX is executed."""
    sys.path.insert(0, str(CHECKS))
    os.environ["TRITON_CHECKS_DEVICE"] = "cuda:0"  # for which index there is, torch would ask the driver
    os.environ["TRITON_CHECKS_EXAMPLES"] = "1"
    os.environ["PYTEST_ADDOPTS"] = f'-k "not ({LEFT_OUT})"'
    from ptx_launch import DEVICE_SIZE, Execution

    from traj_integrator_ros.kernels.triton import launch

    size = mock.patch.object(launch, "program_size", lambda device: DEVICE_SIZE)
    with FakeCuda(run_kernel=Execution(ARCHITECTURE).launch).installed(), size:
        yield


if __name__ == "__main__":
    main()

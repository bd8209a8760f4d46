"""Rehearse `make gpu` where there is no GPU: `python -m kit.rehearse [--suite NAME ...]`, with small batches.

The suites for a device run from begin to end on the stand-in of `fake_cuda`; their times mean nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import torch

from benchmarks import __main__ as benchmarks
from benchmarks import timing
from benchmarks.suites import cuda

from .fake_cuda import devices_of_loops

SUITES = ("cuda_sweep", "cuda_engine", "cuda_kernels", "cuda_workloads")
SMALL = {"BATCHES": (1, 10), "ENGINE_BATCHES": (1, 16), "WORKLOAD_BATCHES": (20,), "PEER_ELEMENTS": 1 << 12}


def rehearse(suites: tuple[str, ...] = SUITES) -> int:
    """Run suites; return 0 if every result was right."""
    compiled = mock.patch.object(torch, "compile", lambda function, **options: function)
    sizes = mock.patch.multiple(cuda, DEVICE="cuda:0", most_elements=lambda: 1 << 12, **SMALL)
    once = mock.patch.object(benchmarks, "interleaved", lambda samplers, rounds: timing.interleaved(samplers, 2))
    with TemporaryDirectory() as folder, devices_of_loops(), compiled, sizes, once:
        named = [word for name in suites for word in ("--suite", name)]
        with mock.patch.object(sys, "argv", ["benchmarks", "--quick", "--out", str(Path(folder)), *named]):
            return benchmarks.main()


if __name__ == "__main__":
    sys.exit(rehearse(tuple(one for one in sys.argv[1:] if one != "--suite") or SUITES))

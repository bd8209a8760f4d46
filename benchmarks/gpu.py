"""All measurements that need a GPU, in one command: `make gpu`, or `python -m benchmarks.gpu [--parts ...]`.

Needs a torch with CUDA and its Triton, numpy, pytest and hypothesis; no network, no ROS, no set-up. Parts, each under
ten minutes: build (the C++ kernels, to compare with), tests (what every kernel must hold, on the device), sweep (all
maps by batch, eagerly and from CUDA graphs, beside a copy of the same bytes), engine (host to host, beside the CPU) and
peers (torch in other ways). Tables are printed; all goes to build/gpu/ as JSON too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import torch

from .report import machine_name

ROOT = Path(__file__).resolve().parent.parent
TESTS = "test/kernels/triton_checks.py"
PARTS = {
    "build": ("setup.py", "build_ext", "--inplace"),
    "tests": ("-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(ROOT), "--noconftest", TESTS),
    "sweep": ("-m", "benchmarks", "--suite", "cuda_sweep", "--out"),
    "engine": ("-m", "benchmarks", "--suite", "cuda_engine", "--out"),
    "peers": ("-m", "benchmarks", "--suite", "cuda_kernels", "--out"),
}


def main() -> int:
    """Run the parts that are asked for, each in a process of its own: a fault in one prevents no other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print(f"gpu: torch {torch.__version__} sees no CUDA device", file=sys.stderr)
        return 1
    print(f"{machine_name()}, torch {torch.__version__}")
    mode = {"TRITON_INTERPRET": "0", "TRITON_CHECKS_DEVICE": "cuda", "PYTHONPATH": str(ROOT)}
    failed = 0
    for name in arguments.parts:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, *PARTS[name], *([arguments.out.absolute()] if PARTS[name][-1] == "--out" else [])]
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, **mode}).returncode
        failed += code != 0
        print(f"== {name}: {f'FAILED: {code}' if code else 'done'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

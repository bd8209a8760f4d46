"""All measurements that need a GPU, in one command: `make gpu`, or `python -m benchmarks.gpu [--parts ...]`.

Needs a torch with CUDA and its Triton, numpy, pytest and hypothesis; no network, no ROS, no set-up. Parts, each under
ten minutes: build (the C++ kernels, to compare with), tests (what every kernel must hold, on the device), sweep (all
maps by batch, eagerly and from CUDA graphs, beside a copy of the same bytes), engine (host to host, beside the CPU) and
peers (torch in other ways, and cuRobo's kernels where it is installed). Tables are printed; all goes to build/gpu/ as
JSON too.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from . import __main__ as program
from . import report
from .machine import machine_name

TESTS = tuple(f"test/kernels/triton_{name}checks.py" for name in ("", "dt_", "spline_"))
COMMANDS = {
    "build": ("setup.py", "build_ext", "--inplace"),
    "tests": ("-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(program.ROOT), "--noconftest", *TESTS),
}
SUITES = {"sweep": "cuda_sweep", "engine": "cuda_engine", "peers": "cuda_kernels"}


def main() -> int:
    """Run the parts that are asked for."""
    parts = (*COMMANDS, *SUITES)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", choices=parts, default=parts)
    parser.add_argument("--out", type=Path, default=program.ROOT / "build" / "gpu")
    arguments = parser.parse_args()
    if obstacle := _obstacle():
        print(f"gpu: {obstacle}", file=sys.stderr)
        return 1
    print(f"{machine_name()}, torch {torch.__version__}")
    failed = []
    for name in arguments.parts:
        begin = time.perf_counter()
        print(f"\n== {name}", flush=True)
        try:
            done = _run(name) if name in COMMANDS else _measure(name, arguments.out)
        except Exception as error:  # a fault in one part must not prevent the others from being measured
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            done = False
        failed += [] if done else [name]
        print(f"== {name}: {'done' if done else 'FAILED'} after {time.perf_counter() - begin:.0f} s", flush=True)
    return 1 if failed else 0


def _measure(name: str, out: Path) -> bool:
    rows, wrong = program.run(SUITES[name], {}, quick=False)
    report.write(rows, out / f"{name}.json")
    return not wrong


def _run(name: str) -> bool:
    mode = {"TRITON_INTERPRET": "0", "TRITON_CHECKS_DEVICE": "cuda", "PYTHONPATH": str(program.ROOT)}
    command = [sys.executable, *COMMANDS[name]]
    return (
        subprocess.run(command, cwd=program.ROOT, env={**os.environ, **mode}, check=False, timeout=900).returncode == 0
    )


def _obstacle() -> str:
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no CUDA device"
    missing = [name for name in ("triton", "pytest", "hypothesis") if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} needed" if missing else ""


if __name__ == "__main__":
    sys.exit(main())

"""All measurements that need a GPU, in one command: `make gpu`, or `python -m benchmarks.gpu [--parts ...]`.

Needs a torch with CUDA and its Triton, numpy, pytest and hypothesis; no network, no ROS, no set-up. Parts, each under
ten minutes: build (the C++ kernels, to compare with), tests (what every kernel must hold, on the device), sweep (all
maps by batch, eagerly and from CUDA graphs, beside a copy of the same bytes), engine (host to host, beside the CPU) and
peers (torch in other ways). Tables are printed; all goes to build/gpu/ as JSON too.
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

from .report import machine_name

ROOT = Path(__file__).resolve().parent.parent
TESTS = "test/kernels/triton_checks.py"
PARTS = {
    "build": ("setup.py", "build_ext", "--inplace"),
    "tests": ("-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(ROOT), "--noconftest", TESTS),
    "sweep": ("-m", "benchmarks", "--suite", "cuda_sweep"),
    "engine": ("-m", "benchmarks", "--suite", "cuda_engine"),
    "peers": ("-m", "benchmarks", "--suite", "cuda_kernels"),
}
WITHIN_S = 900


def main() -> int:
    """Run the parts that are asked for, each in a process of its own: a fault in one prevents no other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu")
    arguments = parser.parse_args()
    if obstacle := _obstacle():
        print(f"gpu: {obstacle}", file=sys.stderr)
        return 1
    print(f"{machine_name()}, torch {torch.__version__}")
    failed = []
    mode = {"TRITON_INTERPRET": "0", "TRITON_CHECKS_DEVICE": "cuda", "PYTHONPATH": str(ROOT)}
    for name in arguments.parts:
        begin = time.perf_counter()
        print(f"\n== {name}", flush=True)
        command = [sys.executable, *PARTS[name]]
        command += ["--out", str(arguments.out.absolute())] if "benchmarks" in command else []
        try:
            code = subprocess.run(command, cwd=ROOT, env={**os.environ, **mode}, timeout=WITHIN_S).returncode
        except subprocess.TimeoutExpired as error:
            code = str(error)
        failed += [name] if code else []
        print(f"== {name}: {f'FAILED: {code}' if code else 'done'}, {time.perf_counter() - begin:.0f} s", flush=True)
    return 1 if failed else 0


def _obstacle() -> str:
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no CUDA device"
    missing = [name for name in ("triton", "pytest", "hypothesis") if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} needed" if missing else ""


if __name__ == "__main__":
    sys.exit(main())

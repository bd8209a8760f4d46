"""All measurements that need a GPU, in one command: `make gpu`, or `python -m benchmarks.gpu [--parts ...] [--dry]`.

Needs a torch with CUDA and its Triton, numpy, pytest and hypothesis; no network, no ROS, no set-up. Parts, each under
ten minutes: build (the C++ kernels, to compare with), tests (what every kernel must hold, on the device), sweep (all
maps by batch, eagerly and from CUDA graphs, beside a copy of the same bytes), engine (host to host, beside the CPU) and
peers (torch in other ways, and cuRobo's kernels where it is installed). Tables are printed; all goes to build/gpu/ as
JSON too. --dry runs sweep, engine and peers on the CPU in Triton's interpreter at toy sizes: it shows that they work.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import torch

from traj_integrator_ros.engine import auto
from traj_integrator_ros.engine.direct import DirectRunner
from traj_integrator_ros.engine.integrator import IntegratorConfig, StartState, TrajectoryIntegrator, UpstreamGradient
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import MAPS, default_backend

from . import report
from .machine import machine_name
from .registry import Unmeasured
from .suites import cuda_kernels
from .suites.scaling import copy_of
from .timing import time_interleaved

Row = dict[str, object]

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("build", "tests", "sweep", "engine", "peers")
BATCHES, DRY_BATCHES = (1, 10, 100, 1000, 10_000, 100_000), (2,)
ENGINE_BATCHES = (1, 4, 16, 32, 64, 128, 256, 1000, 10_000, 100_000)
"""Denser where the device may begin to win."""
DRY_MAPS = ("clique", "jerk")
ROUNDS, SAMPLE_S = 9, 0.02
TOY = {"DEVICE": "cpu", "BACKEND": "triton", "HORIZON": 8}
TESTS = tuple(f"test/kernels/triton_{name}checks.py" for name in ("", "dt_", "spline_"))


def main() -> int:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--dry", action="store_true", help="on the CPU in Triton's interpreter, at toy sizes")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu")
    arguments = parser.parse_args()
    obstacle = "" if arguments.dry else _obstacle()
    if obstacle:
        print(f"gpu: {obstacle}", file=sys.stderr)
        return 1
    if arguments.dry and os.environ.get("TRITON_INTERPRET") != "1":
        print("gpu: --dry needs TRITON_INTERPRET=1", file=sys.stderr)
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    device = "cpu" if arguments.dry else "cuda"
    with contextlib.ExitStack() as toys:
        if arguments.dry:
            toys.enter_context(mock.patch.multiple(cuda_kernels, **TOY))
            toys.enter_context(mock.patch.object(auto, "BATCHES", DRY_BATCHES))
        return _run_parts(arguments.parts, arguments.out, device, arguments.dry)


def _run_parts(parts: Sequence[str], out: Path, device: str, dry: bool) -> int:
    failed = []
    for name in parts:
        begin = time.perf_counter()
        print(f"\n== {name}", flush=True)
        if name in ("build", "tests"):
            done = dry or _run(name)
        else:
            rows = {"sweep": sweep, "engine": engine, "peers": peers}[name](device, dry)
            done = _keep(out / f"{name}.json", name, rows)
        failed += [] if done else [name]
        print(f"== {name}: {'done' if done else 'FAILED'} after {time.perf_counter() - begin:.0f} s", flush=True)
    return 1 if failed else 0


def sweep(device: str, dry: bool) -> Iterator[Row]:
    """Forward and vjp of every map at every batch: the launchers eagerly and from a graph, autograd, and a copy."""
    for name in DRY_MAPS if dry else MAPS:
        kernel = MAPS[name]
        for batch in DRY_BATCHES if dry else BATCHES:
            buffers = cuda_kernels.Buffers(kernel, batch)
            cuda_kernels.first_close_to(buffers.expected())(buffers.both())
            moved = (
                4
                * 2
                * batch
                * cuda_kernels.DOF
                * (cuda_kernels.HORIZON + 4 * kernel.output_horizon(cuda_kernels.HORIZON))
            )
            runs: dict[str, Callable[[], object]] = {
                "copy": copy_of(moved, device).run,
                "eager": buffers.both,
                "autograd": buffers.through_autograd,
            }
            if device == "cuda":
                runs["graph"] = cuda_kernels.captured(buffers.both).replay
            times = _times(runs, dry)
            row = {"map": name, "B": batch, "H": cuda_kernels.HORIZON, "D": cuda_kernels.DOF, "bytes": moved, **times}
            fastest = min(times[f"{way}_us"] for way in ("graph", "eager") if way in runs)
            yield row | {"of_copy": round(times["copy_us"] / fastest, 3)}
            del buffers, runs
            if device == "cuda":
                torch.cuda.empty_cache()


def engine(device: str, dry: bool) -> Iterator[Row]:
    """Host arrays to host arrays, both directions, on the device, the CPU and as `auto` chooses by its crossover."""
    horizon, dof = cuda_kernels.HORIZON, cuda_kernels.DOF
    for batch in DRY_BATCHES if dry else ENGINE_BATCHES:
        config = IntegratorConfig(dof=dof, device=device, max_batch=BATCHES[-1])
        engines = {
            "device": TrajectoryIntegrator(config),
            "cpu": TrajectoryIntegrator(dataclasses.replace(config, device="cpu")),
            "auto": TrajectoryIntegrator(dataclasses.replace(config, device="auto")),
        }
        if dry:
            staged = [StagedRunner(torch.device("cpu"), torch.float32, 4) for _ in range(2)]
            engines["device"] = TrajectoryIntegrator(config, staged[0])
            both_kinds = auto.AutoRunner(DirectRunner(torch.float32), staged[1], torch.empty)
            engines["auto"] = TrajectoryIntegrator(config, both_kinds)
        moved = 4 * batch * (horizon + 4 * MAPS["clique"].output_horizon(horizon)) * dof
        actions, start = torch.randn(batch, horizon, dof).numpy(), StartState(torch.randn(1, dof).numpy())
        upstream = UpstreamGradient(*torch.randn(4, batch, horizon, dof).numpy())

        def both(integrator: TrajectoryIntegrator) -> torch.Tensor:
            integrator.integrate(start, actions)  # noqa: B023
            return integrator.vjp(start, upstream, actions=actions).action  # noqa: B023

        results = {name: both(integrator).clone() for name, integrator in engines.items()}
        for name in engines:
            torch.testing.assert_close(results[name], results["cpu"], rtol=1e-3, atol=1.0)
        runs = {name: lambda integrator=integrator: both(integrator) for name, integrator in engines.items()}
        times = _times(runs, dry)
        row = {"B": batch, "H": horizon, "D": dof, "bytes": moved, **times}
        row["cpu/device"] = round(times["cpu_us"] / times["device_us"], 3)
        yield row | {"auto": engines["auto"].place}


def peers(device: str, dry: bool) -> Iterator[Row]:
    """The suite `cuda_kernels`: what there are targets for."""
    from .__main__ import measure

    for case in cuda_kernels.dry_cases() if dry else cuda_kernels.cuda_kernels(quick=False):
        if isinstance(case, Unmeasured):
            print(f"{case.cases}: unmeasured: {case.reason}")
            yield report.unmeasured_row("cuda_kernels", case)
            continue
        rows, wrong = measure("cuda_kernels", case, quick=dry)
        print(*([report.table(rows)] if rows else []), *wrong, sep="\n", flush=True)
        assert not wrong, "a wrong result has no speed"
        yield from rows


def _times(runs: dict[str, Callable[[], object]], dry: bool) -> Row:
    wait = None if dry else torch.cuda.synchronize
    found = time_interleaved(
        list(runs.values()), rounds=2 if dry else ROUNDS, sample_s=0.0 if dry else SAMPLE_S, synchronize=wait
    )
    return {f"{name}_us": round(timing.median_us, 2) for name, timing in zip(runs, found, strict=True)}


def _keep(path: Path, name: str, rows: Iterator[Row]) -> bool:
    """Print and write rows as they come, so that what was measured before a fault is not lost."""
    kept: list[Row] = []
    try:
        for row in rows:
            kept.append(row)
            if name != "peers":
                print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
    except Exception as error:  # a fault in one part must not prevent the others from being measured
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return False
    finally:
        path.write_text(json.dumps({"machine": _machine(), "rows": kept}, indent=1) + "\n", encoding="utf-8")
    return True


def _machine() -> Row:
    found: Row = {"host": machine_name(), "torch": torch.__version__}
    if torch.cuda.is_available():
        found |= {"gpu": torch.cuda.get_device_name(), "backend": default_backend(torch.device("cuda")).value}
    return found


def _run(name: str) -> bool:
    command = {
        "build": [sys.executable, "setup.py", "build_ext", "--inplace"],
        "tests": [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-c",
            os.devnull,
            "--rootdir",
            str(ROOT),
            "--noconftest",
            *TESTS,
        ],
    }[name]
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CHECKS_DEVICE": "cuda", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=900).returncode == 0


def _obstacle() -> str:
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no CUDA device; --dry with TRITON_INTERPRET=1 runs without"
    for package in ("triton", "pytest", "hypothesis"):
        try:
            importlib.import_module(package)
        except ImportError as error:
            return f"{package} is needed: {error}"
    return ""


if __name__ == "__main__":
    sys.exit(main())

"""Memory at the peak of one integration and its vjp, in a process of its own: `python -m benchmarks.memory`.

Takes cases as JSON on standard input, `[[map, batch, horizon, dof], ...]`, and prints for each the most that the
process grew by, inputs and outputs included, in bytes.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from traj_integrator_ros.engine.call import call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS

Shape = tuple[str, int, int, int]

DT = 0.02
ROOT = Path(__file__).resolve().parent.parent


def measure_peaks(shapes: Sequence[Shape]) -> dict[Shape, int]:
    """Bytes at the peak of each case, measured in another process; none if the system does not report it.

    Raises:
        CalledProcessError: that process failed.

    """
    if not Path("/proc/self/clear_refs").exists():
        return {}
    command = [sys.executable, "-m", "benchmarks.memory"]
    done = subprocess.run(command, cwd=ROOT, input=json.dumps(shapes), capture_output=True, text=True, check=True)
    return dict(zip(shapes, json.loads(done.stdout), strict=True))


def main() -> None:
    """Measure what standard input asks for."""
    shapes = json.load(sys.stdin)
    _grow("clique", 10, 10, 7)  # what the libraries load at first use
    print(json.dumps([_grow(*shape) for shape in shapes]))


def _grow(name: str, batch: int, horizon: int, dof: int) -> int:
    ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    _work(name, batch, horizon, dof)
    return _status("VmHWM") - before


def _work(name: str, batch: int, horizon: int, dof: int) -> None:
    engine, kernel = TrajectoryIntegrator("cpu"), MAPS[name]
    random = np.random.default_rng(0)
    actions = np.empty((batch, horizon, dof), np.float32)
    upstream = [np.empty((batch, kernel.output_horizon(horizon), dof), np.float32) for _ in range(4)]
    for array in (actions, *upstream):
        random.standard_normal(out=array, dtype=np.float32)
    call = call_of(kernel, actions, DT, ends_of((np.zeros((1, dof), np.float32), None, None)))
    engine.integrate(call)
    engine.vjp(call._replace(upstream=tuple(upstream)))


def _status(field: str) -> int:
    found = re.search(rf"^{field}:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024


if __name__ == "__main__":
    main()

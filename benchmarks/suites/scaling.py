"""Cost against batch, horizon and number of joints: time linear in bytes above the overhead, and hardly more memory.

One forward and one vjp call with all gradients, in memory that is reused, by the engine on the CPU. The limit is a copy
of the same bytes. The picture is build/bench/scaling.png.
"""

from __future__ import annotations

import ctypes
import importlib.util
import multiprocessing
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch

from traj_integrator_ros.engine.call import Call, call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS

from ..problems import DT, Problem
from ..registry import Case, MemoryUse, suite

MEMORY_MOST = 1.2
# Below this, pages and the libraries' own memory hide the result.
LEAST_FLOOR_BYTES = 32 << 20
CHECKED = 50
PICTURE = Path(__file__).resolve().parents[2] / "build" / "bench" / "scaling.png"
Shape = tuple[str, int, int, int]
"""Map, batch, horizon and dof."""

AXES = {
    "B": ("trajectories (32 steps, 7 joints)", {"H": 32, "D": 7}, (1, 10, 100, 1000, 10_000, 100_000)),
    "H": ("steps (100 trajectories, 7 joints)", {"B": 100, "D": 7}, (4, 16, 64, 256, 1024, 4096)),
    "D": ("joints (1,000 trajectories, 32 steps)", {"B": 1000, "H": 32}, (1, 2, 4, 8, 16, 32, 64)),
}
"""The varied quantity: its label, the constant ones, and its values."""
QUICK = {"B": (1, 100, 10_000, 100_000), "H": (4, 256, 4096), "D": (1, 8, 64)}


@suite("scaling")
def scaling(quick: bool) -> Iterator[Case]:
    names = ("clique",) if quick else ("clique", "acceleration_zoh")
    shapes = [(name, *shape) for name in names for shape in sizes(quick)]
    peaks = measure_peaks([shape for shape in shapes if floor_bytes(*shape) >= LEAST_FLOOR_BYTES])
    for shape in shapes:
        yield on_cpu(shape, peaks.get(shape))


def sizes(quick: bool) -> list[tuple[int, int, int]]:
    """Batch, horizon and dof along the three axes."""
    axes = ((axis, kept, QUICK[axis] if quick else values) for axis, (_, kept, values) in AXES.items())
    points = [{**kept, axis: value} for axis, kept, values in axes for value in values]
    return list(dict.fromkeys((at["B"], at["H"], at["D"]) for at in points))


def floor_bytes(name: str, batch: int, horizon: int, dof: int) -> int:
    """Inputs and outputs of both calls, float32: the action and its gradient, four outputs and theirs."""
    rows = MAPS[name].output_horizon(horizon)
    return 4 * (batch * dof * (2 * horizon + 8 * rows) + 6 * dof)


def on_cpu(shape: Shape, peak: int | None) -> Case:
    name, batch, horizon, dof = shape
    step, fixed, rows = partial(MAPS[name].step, dt=DT), [torch.zeros(1, dof)], MAPS[name].output_horizon(horizon)
    problem = Problem(step, (batch, horizon, dof), fixed=fixed, rows=rows, first=CHECKED)
    run = both_ways(name, problem.leaves[0].detach().numpy(), [gradient.numpy() for gradient in problem.upstream])
    memory = None if peak is None else MemoryUse(peak, floor_bytes(*shape), MEMORY_MOST)
    return problem.case(name, problem.by_calling("ours", run), limit=problem.copies(count=1), memory=memory)


def both_ways(name: str, actions: np.ndarray, upstream: Sequence[np.ndarray]) -> Callable[[], tuple[np.ndarray, ...]]:
    """Integration and its vjp by an engine of their own, from rest at zero."""
    engine, (forward, backward) = TrajectoryIntegrator("cpu"), from_rest(name, actions, upstream)
    return lambda: (*engine.integrate(forward), engine.vjp(backward).action)


def from_rest(name: str, actions: np.ndarray, upstream: Sequence[np.ndarray]) -> tuple[Call, Call]:
    """The calls of a map for trajectories from rest at zero, and for its vjp."""
    start = np.zeros((1, actions.shape[2]), np.float32)
    forward = call_of(MAPS[name], actions, DT, ends_of((start, None, None)))
    return forward, forward._replace(upstream=tuple(upstream))


# Memory


def measure_peaks(shapes: Sequence[Shape]) -> dict[Shape, int]:
    """Largest growth of a process, bytes, with inputs and outputs; none if the system does not report it."""
    if not shapes or not Path("/proc/self/clear_refs").exists():
        return {}
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as another:
        _, *peaks = another.map(_growth, [("clique", 10, 10, 7), *shapes])  # the first loads the libraries
    return dict(zip(shapes, peaks, strict=True))


def _growth(shape: Shape) -> int:
    ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    name, batch, horizon, dof = shape
    rows = MAPS[name].output_horizon(horizon)
    # Written, or no pages would be allocated.
    actions, *upstream = (np.ones((batch, n, dof), np.float32) for n in (horizon, rows, rows, rows, rows))
    both_ways(name, actions, upstream)()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    found = re.search(rf"^{field}:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024


# Picture


def draw(rows: list[dict[str, object]]) -> None:
    """Draw time against each axis, with the copy of the same bytes dashed, if matplotlib is installed."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no picture: matplotlib is not installed")
        return
    from traj_integrator_ros.motions.figures import figure

    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    with figure(PICTURE, 13, 4.2) as drawn:
        panels = drawn.subplots(1, 3, sharey=True)
        for panel, (axis, (label, kept, _)) in zip(panels, AXES.items(), strict=True):
            for number, name in enumerate(dict.fromkeys(row["case"] for row in rows)):
                chosen = [row for row in rows if row["case"] == name and kept.items() <= row.items()]
                chosen.sort(key=lambda row: row[axis])
                ours, copies, places = ([row[key] for row in chosen] for key in ("ours_us", "limit_us", axis))
                panel.loglog(places, ours, "o-", color=f"C{number}", label=name)
                panel.loglog(places, copies, "--", color=f"C{number}", alpha=0.6, label="copy of the same bytes")
            panel.set_xlabel(label)
        panels[0].set_ylabel("forward and vjp call, us")
        panels[0].legend()
    print(f"picture: {PICTURE}")

"""Cost against batch, horizon and number of joints: time linear in bytes above the overhead, and hardly more memory.

One forward and one vjp call with all gradients, in memory that is reused, by the engine on the CPU. The limit is a copy
of the same bytes. The picture is build/bench/scaling.png.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from traj_integrator_ros.engine.call import call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS
from traj_integrator_ros.motions.figures import figure

from ..checks import copies_of, exactly, is_close_to
from ..memory import DT, Shape, measure_peaks
from ..registry import Case, Contender, MemoryUse, suite

MEMORY_MOST = 1.2
# Below this, pages and the libraries' own memory are a part that says nothing.
LEAST_FLOOR_BYTES = 32 << 20
CHECKED = 50
PICTURE = Path(__file__).resolve().parent.parent.parent / "build" / "bench" / "scaling.png"

BATCHES = (1, 10, 100, 1000, 10_000, 100_000)
HORIZONS = (4, 16, 64, 256, 1024, 4096)
DOFS = (1, 2, 4, 8, 16, 32, 64)
QUICK = {1, 100, 10_000, 100_000}, {4, 256, 4096}, {1, 8, 64}


AXES = {
    "B": ("trajectories (32 steps, 7 joints)", {"H": 32, "D": 7}),
    "H": ("steps (100 trajectories, 7 joints)", {"B": 100, "D": 7}),
    "D": ("joints (1,000 trajectories, 32 steps)", {"B": 1000, "H": 32}),
}


def finish(rows: list[dict[str, object]]) -> None:
    """Draw time against each axis, with the copy of the same bytes dashed, where matplotlib is at hand."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no picture: matplotlib is not installed")
        return
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    with figure(PICTURE, 13, 4.2) as drawn:
        panels = drawn.subplots(1, 3, sharey=True)
        for panel, (axis, (label, fixed)) in zip(panels, AXES.items(), strict=True):
            for number, name in enumerate(dict.fromkeys(row["case"] for row in rows)):
                chosen = [row for row in rows if row["case"] == name and fixed.items() <= row.items()]
                chosen.sort(key=lambda row: row[axis])
                ours, copies, places = ([row[key] for row in chosen] for key in ("ours_us", "limit_us", axis))
                panel.loglog(places, ours, "o-", color=f"C{number}", label=name)
                panel.loglog(places, copies, "--", color=f"C{number}", alpha=0.6, label="copy of the same bytes")
            panel.set_xlabel(label)
        panels[0].set_ylabel("forward and vjp call, us")
        panels[0].legend()
    print(f"picture: {PICTURE}")


@suite("scaling", finish)
def scaling(quick: bool) -> Iterator[Case]:
    names = ("clique",) if quick else ("clique", "acceleration_zoh")
    shapes = [(name, *shape) for name in names for shape in sizes(quick)]
    peaks = measure_peaks([shape for shape in shapes if floor_bytes(*shape) >= LEAST_FLOOR_BYTES])
    for shape in shapes:
        yield on_cpu(shape, peaks.get(shape))


def sizes(quick: bool) -> list[tuple[int, int, int]]:
    """Batch, horizon and dof along the three axes."""
    batches, horizons, dofs = QUICK if quick else (BATCHES, HORIZONS, DOFS)
    shapes = [(batch, 32, 7) for batch in BATCHES if batch in batches]
    shapes += [(100, horizon, 7) for horizon in HORIZONS if horizon in horizons]
    shapes += [(1000, 32, dof) for dof in DOFS if dof in dofs]
    return list(dict.fromkeys(shapes))


def floor_bytes(name: str, batch: int, horizon: int, dof: int) -> int:
    """Inputs and outputs of both calls, float32: the action and its gradient, four outputs and theirs."""
    rows = MAPS[name].output_horizon(horizon)
    return 4 * (batch * dof * (2 * horizon + 8 * rows) + 6 * dof)


def on_cpu(shape: Shape, peak: int | None) -> Case:
    name, batch, horizon, dof = shape
    engine, kernel = TrajectoryIntegrator("cpu"), MAPS[name]
    generator = np.random.default_rng(0)
    actions = generator.standard_normal((batch, horizon, dof), dtype=np.float32)
    rows = kernel.output_horizon(horizon)
    # One array four times would be read from the cache.
    upstream = [generator.standard_normal((batch, rows, dof), dtype=np.float32) for _ in range(4)]
    call = call_of(kernel, actions, DT, ends_of((np.zeros((1, dof), np.float32), None, None)))

    def run() -> tuple[np.ndarray, ...]:
        outputs = engine.integrate(call)
        return (*outputs, engine.vjp(call._replace(upstream=tuple(upstream))).action)

    first = [torch.from_numpy(values[:CHECKED]) for values in (actions, *upstream)]
    origin = torch.zeros(1, dof, dtype=torch.float64)
    step = MAPS[name].step
    close = is_close_to(*exactly(lambda u: step(u, origin, dt=DT, backend="reference"), first[:1], first[1:]))
    return Case(
        name,
        batch,
        horizon,
        dof,
        Contender("ours", run, lambda results: close([result[:CHECKED] for result in results])),
        limit=copies_of(floor_bytes(*shape) // 8),
        memory=None if peak is None else MemoryUse(peak, floor_bytes(*shape), MEMORY_MOST),
    )

"""Cost against batch, horizon and number of joints: time linear in bytes above the overhead.

One forward and one vjp call with all gradients, in memory that is reused, by the engine on the CPU. The limit is a copy
of the same bytes. The picture is build/bench/scaling.png.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from traj_integrator_ros.engine.call import call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS

from ..problems import DT, Problem
from ..registry import Case, Contender

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


def scaling(quick: bool) -> Iterator[Case]:
    names = ("clique",) if quick else ("clique", "acceleration_zoh")
    shapes = [(name, *shape) for name in names for shape in sizes(quick)]
    yield from map(on_cpu, shapes)


def sizes(quick: bool) -> list[tuple[int, int, int]]:
    """Batch, horizon and dof along the three axes."""
    axes = ((axis, kept, QUICK[axis] if quick else values) for axis, (_, kept, values) in AXES.items())
    points = [{**kept, axis: value} for axis, kept, values in axes for value in values]
    return list(dict.fromkeys((at["B"], at["H"], at["D"]) for at in points))


def on_cpu(shape: Shape) -> Case:
    problem = Problem(*shape)
    return problem.case(shape[0], by_engine(problem, TrajectoryIntegrator("cpu")), problem.copies())


def by_engine(problem: Problem, engine: TrajectoryIntegrator, name: str = "ours", *, copies: bool = False) -> Contender:
    """Integration and its vjp by an engine from arrays of the host; it `copies` results from memory that is reused."""
    start = np.zeros((1, problem.shape[2]), np.float32)
    forward = call_of(MAPS[problem.name], problem.action.detach().numpy(), DT, ends_of((start, None, None)))
    backward = forward._replace(upstream=tuple(gradient.numpy() for gradient in problem.upstream))

    def run() -> list[np.ndarray]:
        found = engine.integrate(forward)
        return [*(np.array(found) if copies else found), engine.vjp(backward).action]

    return problem.by_calling(name, run)


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
                ours, copies, places = ([row[key] for row in chosen] for key in ("ours_us", "peer_us", axis))
                panel.loglog(places, ours, "o-", color=f"C{number}", label=name)
                panel.loglog(places, copies, "--", color=f"C{number}", alpha=0.6, label="copy of the same bytes")
            panel.set_xlabel(label)
        panels[0].set_ylabel("forward and vjp call, us")
        panels[0].legend()
    print(f"picture: {PICTURE}")

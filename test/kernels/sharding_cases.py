"""Processes that hold DTensors: run every case, compare with the whole, and count what is sent.

`python sharding_cases.py RANKS FOLDER`; each writes RANK.json into the folder: of each case how many collectives
forward, backward and for the sums of gradients, or what went wrong.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from traj_integrator_ros.kernels import MAPS, ControlMap, CostTerm, QuadraticCost, quadratic_cost

BATCH, HORIZON, DOF, POOL = 5, 6, 3, 4
"""A batch and joints that two do not divide."""
LAYOUTS = ("batch", "joints")
STARTS = ("shared", "own", "pool")
DT = ("number", "one", "of steps", "of trajectories", "of all")


CHECKS = (
    "operators_of_torch",
    "what_is_none_is_part_of_the_question",
    "a_split_horizon_is_refused_by_name",
    "plain_tensors_beside_are_refused_by_name",
    "gradients_without_a_step",
    "a_plain_start_that_requires_grad_gets_all_of_it",
    "a_cost",
)
"""Functions of sharding_checks, which imports DTensor."""


class Case(NamedTuple):
    """One map on one layout."""

    kernel: str
    layout: str
    start: str
    dt: str = "number"
    goal: str = ""
    batch: int = BATCH

    @property
    def name(self) -> str:
        goal = f", {self.goal} goal" if self.goal else ""
        size = f", batch of {self.batch}" if self.batch != BATCH else ""
        return f"{self.kernel}: {self.layout} split, {self.start} start{goal}, dt {self.dt}{size}"


def table() -> list[Case]:
    cases = [Case(name, layout, start) for name in MAPS for layout in LAYOUTS for start in STARTS]
    for i, (name, kernel) in enumerate(MAPS.items()):
        known = [dt for dt in DT[1:] if not kernel.uniform_dt_only or dt in ("one", "of trajectories")]
        cases += [Case(name, LAYOUTS[(i + j) % 2], "own", dt) for j, dt in enumerate(known)]
        if kernel.goal:
            cases += [Case(name, LAYOUTS[(i + j) % 2], STARTS[-j], goal=goal) for j, goal in enumerate(STARTS)]
            cases.append(Case(name, "batch", "shared", "one", "shared"))
        cases.append(Case(name, "both", "pool"))
    return [*cases, Case("clique", "batch", "own", batch=1), Case("jerk", "batch", "shared", "one", batch=2)]


class Inputs(NamedTuple):
    """Of a step; float64, and the same on each device."""

    action: Tensor
    rows: list[Tensor]
    index: Tensor | None
    dt: float | Tensor
    goal: list[Tensor]
    goal_index: Tensor | None


def inputs_of(case: Case, kernel: ControlMap) -> Inputs:
    generator = torch.Generator().manual_seed(7)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def rows(kind: str, count: int) -> list[Tensor]:
        return [normal({"shared": 1, "own": case.batch, "pool": POOL}[kind], DOF) for _ in range(count)]

    def index(kind: str) -> Tensor | None:
        return torch.randint(POOL, (case.batch,), generator=generator) if kind == "pool" else None

    shapes = {"one": (), "of steps": (HORIZON,), "of trajectories": (case.batch, 1), "of all": (case.batch, HORIZON)}
    dt = 0.1 if case.dt == "number" else 0.5 + normal(*shapes[case.dt]).abs()
    goal = rows(case.goal, len(kernel.goal)) if case.goal else []
    return Inputs(normal(case.batch, HORIZON, DOF), rows(case.start, 3), index(case.start), dt, goal, index(case.goal))


def step(kernel: ControlMap, given: Inputs) -> tuple[Tensor, ...]:
    goal = {f"goal_{kind}": rows for kind, rows in zip(kernel.goal, given.goal, strict=False)}
    if given.goal_index is not None:
        goal["goal_index"] = given.goal_index
    return tuple(kernel.step(given.action, *given.rows, dt=given.dt, start_index=given.index, **goal))


def variables(given: Inputs) -> list[Tensor]:
    """What is differentiated by: the inputs that are numbers on a line."""
    found = [given.action, *given.rows, *given.goal]
    return [*found, given.dt] if isinstance(given.dt, Tensor) else found


def upstream_of(outputs: Sequence[Tensor]) -> list[Tensor]:
    return [
        (torch.arange(one.numel(), dtype=one.dtype) * 0.7 + i).sin().view(one.shape) for i, one in enumerate(outputs)
    ]


def differentiable(given: Inputs) -> Inputs:
    def leaf(tensor: Tensor | float) -> Tensor | float:
        return tensor.detach().requires_grad_() if isinstance(tensor, Tensor) else tensor

    return given._replace(
        action=leaf(given.action), rows=list(map(leaf, given.rows)), goal=list(map(leaf, given.goal)), dt=leaf(given.dt)
    )


def main(ranks: int, folder: Path) -> int:
    """Import what takes seconds once, fork a process for each rank, and return how many have failed."""
    torch.set_num_threads(1)
    assert_nothing_is_loaded_before_it_is_needed()
    importlib.import_module("torch.distributed.tensor.debug")

    processes = []
    for rank in range(ranks):
        processes.append(os.fork())
        if processes[-1] == 0:
            code = 1
            try:
                run_rank(rank, ranks, folder)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
    return sum(os.waitpid(process, 0)[1] != 0 for process in processes)


def run_rank(rank: int, ranks: int, folder: Path) -> None:
    import torch.distributed as dist

    store = dist.FileStore(str(folder / "store"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=30))
    import sharding_checks  # only now, for it makes meshes

    results: dict[str, object] = {}
    everything: dict[str, Callable[[], object]] = {name: getattr(sharding_checks, name) for name in CHECKS}
    everything |= {case.name: lambda case=case: sharding_checks.compare(case) for case in table()}
    for name, run in everything.items():
        try:
            results[name] = run()
        except Exception:
            results[name] = traceback.format_exc()
    (folder / f"{rank}.json").write_text(json.dumps(results), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def assert_nothing_is_loaded_before_it_is_needed() -> None:
    action = torch.zeros(2, 3, 1, requires_grad=True)
    for kernel in MAPS.values():
        kernel.step(action, torch.zeros(1, 1), dt=0.1, backend="reference")[0].sum().backward()
    quadratic_cost(action, torch.zeros(1, 1), cost=QuadraticCost(CostTerm(1.0)), control_map="jerk", dt=0.1)
    assert "torch.distributed.tensor" not in sys.modules


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))

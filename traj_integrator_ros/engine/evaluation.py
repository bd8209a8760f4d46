"""Costs of trajectories, with gradients: on the CPU by the fused C++ loops, elsewhere composed of torch operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ..kernels import CostTerm, QuadraticCost, quadratic_cost
from .buffers import Buffers
from .evaluation_work import Evaluation, EvaluationWork, Wanted
from .fused_evaluation import fused_evaluation
from .packing import Pack
from .split import PartSizes
from .types import Array, OutOfDeviceMemory, is_out_of_memory
from .work import part_of_dt, part_of_rows

_STATE = ("position", "velocity", "acceleration")
_BESIDE_LIMITS = 3
"""Number of fields of a term before those of its limits."""

Named = dict[str, Array | None]


def evaluate(
    work: EvaluationWork,
    pack: Pack,
    device: torch.device,
    dtype: torch.dtype,
    buffers: Buffers,
    sizes: PartSizes,
    *,
    fused: bool,
) -> Evaluation:
    """Compute costs and gradients; arrays are views of `buffers`, or new.

    The C++ loops do it (`fused`) if there are any, except for the gradient of dt.

    Raises:
        OutOfDeviceMemory: one trajectory does not fit on the device, or the results do not fit on the host.

    """
    try:
        if fused and not work.wanted.dt:
            return fused_evaluation(work, dtype, buffers)
        return _composed(work, pack, device, sizes)
    except OutOfDeviceMemory:
        raise
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        buffers.clear()
        raise OutOfDeviceMemory(f"out of memory on cpu: {str(error).splitlines()[0]}") from error


def full_cost(cost: QuadraticCost, dof: int) -> QuadraticCost:
    """Return the same cost with zeros for absent fields, and with limits for all outputs if any output has them.

    A kernel that is compiled at its first use then has two variants instead of one for every choice of fields.
    """
    nothing = np.zeros(dof)
    kept = len(CostTerm._fields) if any(term.limit_weight is not None for term in cost.outputs) else _BESIDE_LIMITS
    return QuadraticCost(
        *(CostTerm(*(nothing if field is None else field for field in term[:kept])) for term in cost.outputs),
        duration_weight=cost.duration_weight,
    )


def _composed(work: EvaluationWork, pack: Pack, device: torch.device, sizes: PartSizes) -> Evaluation:
    kernel, goal, wanted = work.kernel, work.goal, work.wanted
    batch = work.actions.shape[0]
    kinds = _STATE[: len(kernel.goal)] if goal.count is not None else ()
    compiles = device.type == "cuda" and not kernel.uniform_dt_only  # the maps that the cost's kernel supports
    cost = np.empty(batch, np.float64)
    action = np.empty(work.actions.shape, np.float64) if wanted.action else None
    count, dof = work.start_rows, work.actions.shape[2]
    start = tuple(np.zeros((count, dof)) for _ in _STATE) if wanted.start else None
    of_goal = tuple(np.zeros((goal.count, dof)) for _ in kinds) if wanted.goal and kinds else None
    dt = np.zeros(work.dt.shape) if wanted.dt else None
    terms = full_cost(work.cost, dof) if compiles else work.cost

    def rows_of(rows: Sequence[Array | None], index: np.ndarray | None, of: str, begin: int, end: int) -> Named:
        taken = part_of_rows(tuple(rows), index, begin, end)
        like = next((row for row in taken if row is not None), None)
        named = {f"{of}_{kind}": row for kind, row in zip(_STATE, taken, strict=False)}
        wants = wanted.start if of == "start" else wanted.goal
        if wants and like is not None:  # absent rows are zero, and have a gradient, too
            named = {name: np.zeros(like.shape) if row is None else row for name, row in named.items()}
        return named

    def part(begin: int, end: int) -> None:
        variables = {
            "action": work.actions[begin:end],
            **rows_of(work.start, work.start_index, "start", begin, end),
            **rows_of(goal.rows[: len(kinds)], goal.index, "goal", begin, end),
            "dt": part_of_dt(work.dt, begin, end),
        }
        indices = {
            f"{of}_index": index[begin:end]
            for of, index in (("start", work.start_index), ("goal", goal.index))
            if index is not None
        }
        of_terms = {
            f"{name} of {i}": _rows_of_term(value, name, begin, end)
            for i, term in enumerate(terms.outputs)
            for name, value in term._asdict().items()
        }
        given = pack({**variables, **indices, **of_terms})
        variables = {name: None if given[name] is None else given[name].detach() for name in variables}
        asked = [name for name, value in variables.items() if value is not None and wanted[_place(name)]]
        for name in asked:
            variables[name].requires_grad_()
        cost_given = QuadraticCost(
            *(CostTerm(*(given[f"{name} of {i}"] for name in CostTerm._fields)) for i in range(len(terms.outputs))),
            duration_weight=terms.duration_weight,
        )
        with torch.enable_grad():
            values = quadratic_cost(
                cost=cost_given, control_map=kernel, **variables, **{name: given[name] for name in indices}
            )
            total = values.double().sum()
        found = {"cost": values.detach()}
        if asked and total.requires_grad:
            gradients = torch.autograd.grad(total, [variables[name] for name in asked], allow_unused=True)
            found |= {name: value for name, value in zip(asked, gradients, strict=True) if value is not None}
        found = _on_host(found)
        cost[begin:end] = found["cost"]
        if action is not None:
            action[begin:end] = found.get("action", 0.0)
        for of, totals, index in (("start", start, work.start_index), ("goal", of_goal, goal.index)):
            for kind, total_of in zip(_STATE, totals or (), strict=False):
                if f"{of}_{kind}" in found:
                    shared = index is not None or total_of.shape[0] == 1
                    into = total_of if shared else total_of[begin:end]
                    into += found[f"{of}_{kind}"]
        if dt is not None and "dt" in found:
            into = dt if dt.shape[0] == 1 else dt[begin:end]
            into += found["dt"]

    sizes.run(("evaluate", kernel.name, work.actions.shape[1]), batch, part)
    return Evaluation(cost, action, start, of_goal, dt)


def _place(name: str) -> int:
    return Wanted._fields.index(name.split("_")[0])


def _rows_of_term(value: Array | None, name: str, begin: int, end: int) -> Array | None:
    """The rows of a term's field for some of the trajectories: weights and targets may differ by trajectory."""
    differs = value is not None and value.ndim == (2 if name == "terminal_weight" else 3)
    return value[begin:end] if differs else value


def _on_host(results: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Results as arrays, by one copy from the device for each dtype."""
    arrays = {}
    for dtype in {result.dtype for result in results.values()}:
        some = {name: result for name, result in results.items() if result.dtype == dtype}
        together = torch.cat([result.flatten() for result in some.values()]).cpu()
        pieces = together.split([result.numel() for result in some.values()])
        arrays |= {name: piece.view(some[name].shape).numpy() for name, piece in zip(some, pieces, strict=True)}
    return arrays

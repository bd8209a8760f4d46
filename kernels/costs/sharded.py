"""The quadratic cost of DTensors: each device computes that of its trajectories, or its joints."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..sharding import shards
from .composition import CostProblem
from .fused import cost_of_problem
from .terms import CostTerm


def sharded_cost(problem: CostProblem) -> Tensor:
    """Return the cost, `[B]`, split as the batch is; if the joints are split, it is a partial sum."""
    inputs = problem.inputs
    batch = inputs.action.shape[0]
    table = shards()
    split = table.Shards(inputs.action, problem.kernel.action_name)

    def rows_of(rows: Sequence[Tensor | None], index: Tensor | None) -> tuple[Tensor | None, ...]:
        count = next((row.shape[0] for row in rows if row is not None), -1)
        return tuple(split.local(row, table.rows_layout(count, index, batch)) for row in rows)

    def term_of(term: CostTerm) -> CostTerm:
        return CostTerm(
            *(
                None if part is None else split.local(part, table.weights_layout(part.dim(), with_rows=with_rows))
                for part, with_rows in zip(term, _HAS_ROWS, strict=True)
            )
        )

    local = inputs._replace(
        action=split.local(inputs.action, table.TRAJECTORIES),
        start=rows_of(inputs.start, inputs.start_index),
        start_index=split.local(inputs.start_index, table.INDEX),
        goal=rows_of(inputs.goal, inputs.goal_index),
        goal_index=split.local(inputs.goal_index, table.INDEX),
        dt=split.local(inputs.dt, table.dt_layout(inputs.dt.shape[0], batch)),
    )
    terms = tuple(term_of(term) for term in problem.terms)
    return split.whole(cost_of_problem(problem._replace(inputs=local, terms=terms)), table.COSTS, (batch,))


_HAS_ROWS = CostTerm(weight=True, target=True, terminal_weight=False, limit_weight=False, lower=False, upper=False)
"""Which parts of a term may differ from row to row of a trajectory; a terminal weight has a batch instead."""

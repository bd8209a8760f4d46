"""The sharding rules of the operators: DTensors pass through them without communication.

For one dimension of the mesh there are three ways: everything replicated, the batch split, or the joints split. The
maps are linear and act on each trajectory and each joint separately, so no device needs data of another; only gradients
of shared inputs (a start for all, a pool) are sums over devices, and remain partial sums.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor
from torch._ops import OpOverload
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding
from torch.distributed.tensor.placement_types import Placement

from ..signature import Signature
from ..types import End, Trajectory
from .shards import (
    INDEX,
    TRAJECTORIES,
    Layout,
    Split,
    check_distributed,
    check_horizon,
    dt_layout,
    replicated,
    rows_layout,
)

_KINDS = Trajectory._fields
Ways = list[tuple[list[Placement | None], list[Placement | None]]]
"""Placements of outputs and of inputs for each of the three ways."""


@functools.cache
def ensure_rules(operator: Signature) -> None:
    """Register the rules of both operators of a map, once."""
    _register(operator.forward, functools.partial(_forward_rule, operator))
    _register(operator.vjp, functools.partial(_vjp_rule, operator))


def check_step(action: DTensor, action_name: str, ends: Mapping[str, End], dt: object) -> None:
    """Check that all tensors passed with a DTensor of actions are DTensors, too; only dt may be a number."""
    check_horizon(action_name, action)
    for end, (rows, index) in ends.items():
        named = {f"{end}_{kind}": one for kind, one in zip(_KINDS, rows, strict=False)}
        check_distributed({**named, f"{end}_index": index}, action)
    check_distributed({"dt": dt}, action)


def check_vjp(upstream: dict[str, Tensor], like: DTensor, indices: dict[str, object], dt: object) -> None:
    """Check the tensors passed with a DTensor of upstream gradients in the same way."""
    check_distributed({**upstream, **indices, "dt": dt}, like)
    for name, gradient in upstream.items():
        check_horizon(name, gradient)


def step_lengths(dt: Tensor, like: DTensor) -> DTensor:
    """Return `dt` as a DTensor `[1 or B, 1 or Ha]` on the mesh of `like`."""
    if not isinstance(dt, DTensor):
        return replicated(dt, like.device_mesh)
    check_horizon("dt", dt)
    return dt


def _register(overload: OpOverload, rule: Callable[..., Ways]) -> None:
    register_sharding(overload)(rule)
    # By default torch caches decisions by the arguments after the first int: which tensors are None would be ignored.
    schemas = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    schemas[overload] = RuntimeSchemaInfo(static_argnum=0, needs_pytree=True)


def _forward_rule(operator: Signature, *arguments: object) -> Ways:
    action, ends, dt, options = operator.split(arguments)
    batch = action.shape[0]
    check_horizon(operator.action_name, action)
    check_horizon("dt", dt)
    inputs: list[Layout | None] = [TRAJECTORIES]
    for end in ends:
        layout = rows_layout(end.count, end.index, batch)
        inputs += [None if rows is None else layout for rows in end.rows]
        inputs.append(None if end.index is None else INDEX)
    inputs += [dt_layout(dt.shape[0], batch), *(None for _ in options)]
    return [([TRAJECTORIES.at(split)] * 4, _placed(inputs, split)) for split in Split]


def _vjp_rule(operator: Signature, *arguments: object) -> Ways:
    upstream, indices, dt, counts, _, needs, _ = operator.split_vjp(arguments)
    for name, gradient in zip(_KINDS, upstream, strict=True):
        if gradient is not None:
            check_horizon(f"grad_{name}", gradient)
    check_horizon("dt", dt)
    batch = next(gradient.shape[0] for gradient in upstream if gradient is not None)
    inputs: list[Layout | None] = [None if gradient is None else TRAJECTORIES for gradient in upstream]
    inputs += [None if index is None else INDEX for index in indices]
    inputs.append(dt_layout(dt.shape[0], batch))
    inputs += [None] * (len(arguments) - len(inputs))
    outputs = [TRAJECTORIES]
    ways = [Split.NOTHING, Split.BATCH, Split.JOINTS]
    for rows, index, count in zip(operator.ends, indices, counts, strict=True):
        own = index is None and count == 0
        outputs += [rows_layout(batch if own else count, index, batch)] * rows
        if index is None and count == batch > 1:  # B is wrong on a shard; 0 means one per trajectory
            ways = [way for way in ways if way is not Split.BATCH]
    return [
        ([layout.gradient_at(way) if need else None for layout, need in zip(outputs, needs, strict=True)],
         _placed(inputs, way))
        for way in ways
    ]  # fmt: skip


def _placed(layouts: Sequence[Layout | None], split: Split) -> list[Placement | None]:
    return [None if layout is None else layout.at(split) for layout in layouts]

"""DTensors pass through the operators without communication: each device computes its own shards.

For one dimension of the mesh there are three ways: everything replicated, the batch split, or the joints split. The
maps are linear and act on each trajectory and each joint separately, so no device needs data of another; only gradients
of shared inputs (a start for all, a pool) are sums over devices, and remain partial sums. Computing on shards is for
what torch's operators would communicate for.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor
from torch._ops import OpOverload
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding
from torch.distributed.tensor.placement_types import Placement

from ..signature import KINDS, Signature
from ..types import End, Inputs, VjpInputs, first_given

Ways = list[tuple[list[Placement | None], list[Placement | None]]]
"""Placements of outputs and of inputs for each of the three ways."""


class Split(enum.Enum):
    """Axis that one dimension of the mesh divides among its devices; the horizon is never divided."""

    NOTHING = enum.auto()
    BATCH = enum.auto()
    JOINTS = enum.auto()


class Layout(NamedTuple):
    """Placements of a tensor if the batch is split, and if the joints are split."""

    batch: Placement
    joints: Placement

    def at(self, split: Split) -> Placement:
        """Placement of the tensor."""
        return {Split.BATCH: self.batch, Split.JOINTS: self.joints}.get(split, Replicate())

    def gradient_at(self, split: Split) -> Placement:
        """Placement of its gradient: for a replicated tensor, each device holds a partial sum."""
        place = self.at(split)
        return Partial() if split is not Split.NOTHING and place.is_replicate() else place


TRAJECTORIES = Layout(Shard(0), Shard(2))  # [B, H, D]
INDEX = Layout(Shard(0), Replicate())  # [B]
COSTS = Layout(Shard(0), Partial())  # [B], a sum over joints
_OWN_ROWS = Layout(Shard(0), Shard(1))  # [B, D]
_SHARED_ROWS = Layout(Replicate(), Shard(1))  # [1, D], or a pool
_OWN_DT = Layout(Shard(0), Replicate())  # [B, 1 or H]
_SHARED_DT = Layout(Replicate(), Replicate())  # [1, 1 or H]


def rows_layout(count: int, index: object | None, batch: int) -> Layout:
    """Layout of start or goal rows: one per trajectory splits with the batch; one for all, or a pool, is replicated."""
    return _OWN_ROWS if index is None and count == batch > 1 else _SHARED_ROWS


def dt_layout(count: int, batch: int) -> Layout:
    """Layout of the step lengths, by their number of rows."""
    return _OWN_DT if count == batch > 1 else _SHARED_DT


def inputs_layouts(inputs: Inputs) -> list[Layout | None]:
    """Layouts of the tensors in `Inputs.arguments`; None for missing ones."""
    batch = inputs.action.shape[0]
    layouts: list[Layout | None] = [TRAJECTORIES]
    for end in inputs.ends:
        layouts += [None if row is None else rows_layout(end.count, end.index, batch) for row in end.rows]
    return [*layouts, *_index_layouts(inputs.indices), dt_layout(inputs.dt.shape[0], batch)]


def _index_layouts(indices: Sequence[Tensor | None]) -> list[Layout | None]:
    return [None if index is None else INDEX for index in indices]


def weights_layout(dims: int, *, with_rows: bool) -> Layout:
    """Layout of weights and targets of a cost: `[D]`, and `[H, D]`, `[B, H, D]` or (without rows) `[B, D]`."""
    has_batch = dims == (3 if with_rows else 2)
    return Layout(Shard(0) if has_batch else Replicate(), Shard(dims - 1))


def check_horizon(name: str, tensor: DTensor | DTensorSpec) -> None:
    """Raise an error if a tensor, or its specification, is split along the horizon."""
    if any(place.is_shard(1) for place in tensor.placements):
        raise ValueError(
            f"{name}: expected a horizon that is whole on every device, for each row of a trajectory depends on those "
            f"before it; got Shard(1), and dimension 1 is the horizon. Shard the batch (0) or the joints (2)"
        )


def check_distributed(named: Mapping[str, object], like: DTensor) -> None:
    """Raise an error for plain tensors, and for tensors on another mesh, that are passed together with a DTensor."""
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor):
            continue
        if not isinstance(tensor, DTensor):
            raise TypeError(
                f"{name}: expected a DTensor like the other tensors, got a plain tensor; distribute what every device "
                "has with Replicate()"
            )
        if tensor.device_mesh != like.device_mesh:
            raise ValueError(f"{name}: expected the mesh {like.device_mesh}, got {tensor.device_mesh}")


class Shards:
    """Layout of the trajectories of one call over a mesh.

    Args:
        like: `[B, H, D]`, trajectories, or their actions or gradients.
        name: what to call it in errors.
    """

    def __init__(self, like: DTensor, name: str) -> None:
        check_horizon(name, like)
        self.mesh = like.device_mesh
        self.splits = tuple(_split_of(place) for place in like.placements)

    def local(self, tensor: Tensor | None, layout: Layout) -> Tensor | None:
        """Return this device's part of a tensor in its layout; a plain tensor is the same on all devices."""
        if tensor is None:
            return None
        whole = tensor if isinstance(tensor, DTensor) else replicated(tensor, self.mesh)
        placements = [layout.at(split) for split in self.splits]
        gradients = [layout.gradient_at(split) for split in self.splits]
        return placed(whole, placements).to_local(grad_placements=gradients)

    def end(self, end: End, batch: int) -> End:
        """Return this device's part of start or goal rows, and of their index."""
        layout = rows_layout(end.count, end.index, batch)
        return End([self.local(row, layout) for row in end.rows], self.local(end.index, INDEX))

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return this device's part of the inputs of a map."""
        pairs = zip(inputs.arguments, inputs_layouts(inputs), strict=True)
        return Inputs.split([self.local(tensor, layout) for tensor, layout in pairs])[0]

    def whole(self, local: Tensor | None, layout: Layout, shape: Sequence[int], *, gradient: bool = False) -> Tensor:
        """Return the DTensor of this shape from the part on this device; with `gradient`, placed as a gradient."""
        if local is None:
            return None
        place = layout.gradient_at if gradient else layout.at
        strides = tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
        placements = [place(split) for split in self.splits]
        return DTensor.from_local(local, self.mesh, placements, run_check=False, shape=tuple(shape), stride=strides)


def placed(tensor: DTensor | None, placements: Sequence[Placement]) -> DTensor | None:
    """Return a DTensor in these placements; splitting a replicated one sends nothing."""
    if tensor is None or tuple(tensor.placements) == tuple(placements):
        return tensor  # even a redistribution to the same placements would sum the gradient
    return tensor.redistribute(tensor.device_mesh, placements)


def replicated(tensor: Tensor, mesh: object) -> DTensor:
    """Return a tensor that is the same on every device of a mesh as a DTensor."""
    return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)


def dt_gradient(compute: Callable[..., Tensor], inputs: Inputs, upstream: Sequence[DTensor | None]) -> DTensor:
    """Gradient of dt by `compute(inputs, upstream)`, which sums over joints and over all users of a step."""
    split, dt = Shards(first_given(upstream), "upstream"), inputs.dt
    gradient = compute(split.inputs(inputs), upstream=[split.local(one, TRAJECTORIES) for one in upstream])
    return split.whole(gradient, dt_layout(dt.shape[0], inputs.action.shape[0]), dt.shape, gradient=True)


def _split_of(place: Placement) -> Split:
    if place.is_shard(0):
        return Split.BATCH
    return Split.JOINTS if place.is_shard(2) else Split.NOTHING


@functools.cache
def ensure_rules(operator: Signature) -> None:
    """Register the rules of both operators of a map, once."""
    _register(operator.forward, functools.partial(_forward_rule, operator))
    _register(operator.vjp, _vjp_rule)


def check_together(trajectories: Mapping[str, DTensor], others: Mapping[str, object]) -> None:
    """Check that no trajectory is split along the horizon, and that DTensors are passed with DTensors only.

    `trajectories` are the actions, or upstream gradients. Among the others, only dt may be a number.
    """
    like = next(iter(trajectories.values()))
    check_distributed({**trajectories, **others}, like)
    for name, trajectory in trajectories.items():
        check_horizon(name, trajectory)


def step_lengths(dt: Tensor, like: DTensor) -> DTensor:
    """Return `dt` as a DTensor `[1 or B, 1 or Ha]` on the mesh of `like`."""
    if not isinstance(dt, DTensor):
        return replicated(dt, like.device_mesh)
    check_horizon("dt", dt)
    return dt


def _register(overload: OpOverload, rule: Callable[..., Ways]) -> None:
    register_sharding(overload)(rule)
    # Torch would cache decisions by the arguments after the first int only, whichever tensors are None.
    schemas = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    schemas[overload] = RuntimeSchemaInfo(static_argnum=0, needs_pytree=True)


def _forward_rule(operator: Signature, *arguments: object) -> Ways:
    inputs, options = Inputs.split(arguments)
    check_horizon(operator.action_name, inputs.action)
    check_horizon("dt", inputs.dt)
    layouts = [*inputs_layouts(inputs), *[None] * len(options)]
    return [([TRAJECTORIES.at(split)] * 4, _at(layouts, split)) for split in Split]


def _vjp_rule(*arguments: object) -> Ways:
    inputs, _ = VjpInputs.split(arguments)
    for name, gradient in zip((*(f"grad_{kind}" for kind in KINDS), "dt"), (*inputs.upstream, inputs.dt), strict=True):
        if gradient is not None:
            check_horizon(name, gradient)
    batch = inputs.like.shape[0]
    layouts: list[Layout | None] = [None if gradient is None else TRAJECTORIES for gradient in inputs.upstream]
    layouts += [*_index_layouts(inputs.indices), dt_layout(inputs.dt.shape[0], batch)]
    layouts += [None] * (len(arguments) - len(layouts))
    outputs, ways = [TRAJECTORIES], list(Split)
    for index, count, rows in zip(inputs.indices, inputs.counts, inputs.rows, strict=True):
        outputs += [rows_layout(rows, index, batch)] * 4
        if index is None and count == batch > 1 and Split.BATCH in ways:
            ways.remove(Split.BATCH)  # B is wrong on a shard; 0 means one per trajectory
    return [
        ([layout.gradient_at(way) if need else None for layout, need in zip(outputs, inputs.needs, strict=True)],
         _at(layouts, way))
        for way in ways
    ]  # fmt: skip


def _at(layouts: Sequence[Layout | None], split: Split) -> list[Placement | None]:
    return [None if layout is None else layout.at(split) for layout in layouts]

"""Maps columns of messages, which may have more, fewer or other joints, to the node's joints. Knows no ROS."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .rejection import Rejected, RejectionReason, require_finite, shown, shown_names


@dataclass(frozen=True)
class ColumnOrder:
    """The map from the columns of a message to the node's joints, and back."""

    names: tuple[str, ...]
    """Joints in the order of the message's columns."""
    to_node: np.ndarray | None
    """Message columns in the node's order; None if both orders are the same."""
    from_node: np.ndarray | None
    """Node columns in the message's order; None if both orders are the same."""

    def into_node(self, values: np.ndarray) -> np.ndarray:
        """Reorder the last axis from the message's order to the node's; a reordered copy is contiguous."""
        return values if self.to_node is None else np.take(values, self.to_node, axis=-1)

    def out_of_node(self, values: np.ndarray) -> np.ndarray:
        """Reorder the last axis from the node's order to the message's; a reordered copy is contiguous."""
        return values if self.from_node is None else np.take(values, self.from_node, axis=-1)

    def array(
        self,
        name: str,
        flat: np.ndarray,
        sizes: Mapping[str, int],
        reason: RejectionReason = RejectionReason.SIZE_MISMATCH,
    ) -> np.ndarray | None:
        """Return a flat array of a message in the shape of `sizes`, with the node's columns; None if it is empty.

        Raises:
            Rejected: with `reason` and the names of the sizes for a wrong length; not_finite.

        """
        if not flat.size:
            return None
        if flat.size != math.prod(sizes.values()):
            raise wrong_length(name, flat.size, sizes, reason, optional=True)
        shaped = flat.reshape(tuple(sizes.values()))
        require_finite(name, shaped)
        return self.into_node(shaped)


def resolve_columns(names: Sequence[str], joint_names: tuple[str, ...], field: str = "joint_names") -> ColumnOrder:
    """Resolve the column order of a message that must name every joint of the node once.

    Args:
        names: the message's names; empty means the node's own order.
        joint_names: the node's joints.
        field: what error messages call the names.

    Raises:
        Rejected: duplicate_joint, unknown_joint, or joint_count if joints are missing.

    """
    return _resolved(tuple(names), joint_names, field)


@lru_cache(maxsize=32)
def _resolved(names: tuple[str, ...], joint_names: tuple[str, ...], field: str) -> ColumnOrder:
    """Resolve and cache a column order; only complete orders are kept, since others raise an error."""
    if not names or names == joint_names:
        return ColumnOrder(joint_names, None, None)
    columns = resolve_subset(names, joint_names, field)
    if len(names) != len(joint_names):
        missing = [name for name in joint_names if name not in set(names)]
        raise RejectionReason.JOINT_COUNT.of(
            field, f"all {len(joint_names)} joints of the node or none", f"{len(names)}; missing {shown_names(missing)}"
        )
    from_node = np.asarray(columns)
    return ColumnOrder(names, np.argsort(from_node), from_node)


@lru_cache(maxsize=16)
def named_joints(names: tuple[str, ...], joint_names: tuple[str, ...], field: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of the node's joints in a message, and their indices; the arrays must not be changed.

    The result is cached, since a publisher names the same joints every time.

    Raises:
        Rejected: duplicate_joint.

    """
    column_of = _columns([(column, name) for column, name in enumerate(names) if name in joint_names], field)
    joints = [joint for joint, name in enumerate(joint_names) if name in column_of]
    return np.array([column_of[joint_names[joint]] for joint in joints], np.intp), np.array(joints, np.intp)


def resolve_subset(names: Sequence[str], joint_names: tuple[str, ...], field: str) -> list[int]:
    """Return the node's column of each of some joints. Raises Rejected: duplicate_joint or unknown_joint."""
    _columns(enumerate(names), field)
    column_of = {name: column for column, name in enumerate(joint_names)}
    unknown = [name for name in names if name not in column_of]
    if unknown:
        raise RejectionReason.UNKNOWN_JOINT.of(
            field, f"joints of the node ({shown_names(joint_names)})", shown_names(unknown)
        )
    return [column_of[name] for name in names]


def values_of_joints(
    field: str, values: np.ndarray, columns: np.ndarray, count: int, *, optional: bool, nan: bool = False
) -> np.ndarray:
    """Return the values of the node's joints from an array with a value for each of the message's `count` names.

    With `optional`, an empty array stands for zeros; with `nan`, NaN is allowed.

    Raises:
        Rejected: joint_count or not_finite.

    """
    if optional and not len(values):
        return np.zeros(len(columns))
    if len(values) != count:
        raise RejectionReason.JOINT_COUNT.of(
            field, f"{'0 or ' * optional}{count} values, one for each name", len(values)
        )
    values = values[columns]
    if np.count_nonzero(np.isfinite(values)) < len(values):  # For a few values, this is three times as fast as .all().
        require_finite(field, np.where(np.isnan(values), 0.0, values) if nan else values)
    return values


def wrong_length(
    name: str,
    length: int,
    sizes: Mapping[str, int],
    reason: RejectionReason = RejectionReason.SIZE_MISMATCH,
    *,
    optional: bool = False,
) -> Rejected:
    """Return the rejection of an array whose length does not match the sizes of its axes."""
    product = " x ".join(f"{axis} {size}" for axis, size in sizes.items())
    expected = f"{'0 or ' * optional}{math.prod(sizes.values())}"
    return Rejected(reason, f"{name}: expected {expected} values ({product}), got {length}")


def _columns(named: Iterable[tuple[int, str]], field: str) -> dict[str, int]:
    column_of: dict[str, int] = {}
    for column, name in named:
        if name in column_of:
            raise RejectionReason.DUPLICATE_JOINT.of(field, "every joint once", f"{shown(name)} twice")
        column_of[name] = column
    return column_of

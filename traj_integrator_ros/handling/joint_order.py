"""The order of a message's joints relative to the node's own. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .rejection import Rejected, RejectionReason, shown, shown_names


@dataclass(frozen=True)
class ColumnOrder:
    """How the columns of a message map to the node's joints, and back."""

    names: tuple[str, ...]
    """Column order of the message."""
    to_node: np.ndarray | None
    """Columns of the message in the node's order; None if both orders are the same."""
    from_node: np.ndarray | None
    """Columns of the node in the message's order; None if both orders are the same."""

    def into_node(self, values: np.ndarray) -> np.ndarray:
        """Reorder the last axis from the message's order into the node's; a reordered copy is contiguous."""
        return values if self.to_node is None else np.take(values, self.to_node, axis=-1)

    def out_of_node(self, values: np.ndarray) -> np.ndarray:
        """Reorder the last axis from the node's order into the message's; a reordered copy is contiguous."""
        return values if self.from_node is None else np.take(values, self.from_node, axis=-1)


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
    """Cached; only complete orders are stored, which are short, because all others raise."""
    if not names or names == joint_names:
        return ColumnOrder(joint_names, None, None)
    columns = resolve_subset(names, joint_names, field)
    if len(names) != len(joint_names):
        missing = [name for name in joint_names if name not in set(names)]
        raise Rejected(
            RejectionReason.JOINT_COUNT,
            f"{field}: expected all {len(joint_names)} joints of the node or none, got {len(names)}; "
            f"missing {shown_names(missing)}",
        )
    from_node = np.asarray(columns)
    return ColumnOrder(names, np.argsort(from_node), from_node)


def find_columns(names: Sequence[str], joint_names: tuple[str, ...], field: str) -> np.ndarray | None:
    """Return where a message that may name other joints, too, has those of the node; None if it has none of them.

    Raises:
        Rejected: duplicate_joint or joint_missing.

    """
    column_of: dict[str, int] = {}
    wanted = set(joint_names)
    for column, name in enumerate(names):
        if name in wanted and name in column_of:
            raise Rejected(
                RejectionReason.DUPLICATE_JOINT, f"{field}: expected every joint once, got {shown(name)} twice"
            )
        column_of[name] = column
    missing = [name for name in joint_names if name not in column_of]
    if len(missing) == len(joint_names):
        return None
    if missing:
        raise Rejected(
            RejectionReason.JOINT_MISSING,
            f"{field}: expected all {len(joint_names)} joints of the node, missing {shown_names(missing)}",
        )
    return np.asarray([column_of[name] for name in joint_names])


def resolve_subset(names: Sequence[str], joint_names: tuple[str, ...], field: str) -> list[int]:
    """Return the node's column for each of some joints.

    Raises:
        Rejected: duplicate_joint or unknown_joint.

    """
    if len(set(names)) != len(names):
        duplicate = next(name for i, name in enumerate(names) if name in names[:i])
        raise Rejected(
            RejectionReason.DUPLICATE_JOINT, f"{field}: expected every joint once, got {shown(duplicate)} twice"
        )
    column_of = {name: column for column, name in enumerate(joint_names)}
    unknown = [name for name in names if name not in column_of]
    if unknown:
        raise Rejected(
            RejectionReason.UNKNOWN_JOINT,
            f"{field}: expected joints of the node ({shown_names(joint_names)}), got {shown_names(unknown)}",
        )
    return [column_of[name] for name in names]

"""The order of a message's joints relative to the node's own, and the start and goal states in it. Knows no ROS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..engine.integrator import StartState
from .rejection import Rejected, RejectionReason, require_finite, shown, shown_names


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


# Start and goal states


def check_rows(
    name: str,
    position: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    index: np.ndarray,
    *,
    batch: int,
    most_rows: int,
    columns: ColumnOrder,
) -> tuple[StartState | None, np.ndarray | None]:
    """Check the rows of the field `name`, "start" or "goal", and arrange them in the node's joint order.

    Args:
        name: of the field.
        position: flat, rows x dof; empty if the sequence has no state.
        velocity: as many values, or none for 0.
        acceleration: as many values, or none for 0.
        index: `[batch]`, the row of each trajectory, or empty.
        batch: number of trajectories.
        most_rows: most rows accepted (parameter max_batch).
        columns: the sequence's order of joints.

    Returns:
        Rows `[S, dof]` or None, and the index `[batch]`, int64, or None.

    Raises:
        Rejected: size_mismatch, size_out_of_range, not_finite or the index out of range, naming the field.

    """
    rows = _check_state(name, position, velocity, acceleration, index.size > 0, batch, most_rows, columns)
    if index.size == 0:
        return rows, None
    return rows, _check_index(f"{name}_index", index, batch, 1 if rows is None else rows.position.shape[0])


def wrong_length(name: str, length: int, shape: dict[str, int]) -> Rejected:
    """Return the rejection of an array whose length does not match its shape."""
    product = " x ".join(f"{axis} {size}" for axis, size in shape.items())
    expected = math.prod(shape.values())
    return Rejected(RejectionReason.SIZE_MISMATCH, f"{name}: expected {expected} values ({product}), got {length}")


def _check_state(
    name: str,
    position: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    has_index: bool,
    batch: int,
    most_rows: int,
    columns: ColumnOrder,
) -> StartState | None:
    dof = len(columns.names)
    if position.size == 0:
        for part, values in (("velocity", velocity), ("acceleration", acceleration)):
            if values.size:
                raise Rejected(
                    RejectionReason.SIZE_MISMATCH,
                    f"{name}.{part}: expected none without {name}.position, got {values.size}",
                )
        return None
    if position.size % dof:
        raise Rejected(
            RejectionReason.SIZE_MISMATCH,
            f"{name}.position: expected rows of {dof} values (dof), got {position.size} values",
        )
    rows = position.size // dof
    if rows > max(most_rows, 1):
        raise Rejected(
            RejectionReason.SIZE_OUT_OF_RANGE,
            f"{name}.position: expected at most {most_rows} rows (parameter max_batch), got {rows}",
        )
    if not has_index and rows not in (1, batch):
        raise Rejected(
            RejectionReason.SIZE_MISMATCH,
            f"{name}.position: expected 1 row or {batch} (batch) without {name}_index, got {rows}",
        )
    arranged: list[np.ndarray | None] = []
    for part, values in (("position", position), ("velocity", velocity), ("acceleration", acceleration)):
        if values.size == 0:
            arranged.append(None)
            continue
        if values.size != rows * dof:
            raise wrong_length(f"{name}.{part}", values.size, {"rows": rows, "dof": dof})
        shaped = values.reshape(rows, dof)
        require_finite(f"{name}.{part}", shaped)
        arranged.append(columns.into_node(shaped))
    return StartState(*arranged)


def _check_index(name: str, values: np.ndarray, batch: int, rows: int) -> np.ndarray:
    if values.size != batch:
        raise Rejected(
            RejectionReason.SIZE_MISMATCH, f"{name}: expected 0 or {batch} (batch) values, got {values.size}"
        )
    largest = int(values.max())
    if largest >= rows:
        reason = RejectionReason.START_INDEX if name == "start_index" else RejectionReason.GOAL_INDEX
        of = name.removesuffix("_index")
        raise Rejected(
            reason, f"{name}: expected 0 to {rows - 1} ({rows} {of} rows), got {largest} at [{int(values.argmax())}]"
        )
    return values.astype(np.int64)

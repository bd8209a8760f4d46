"""The start and goal states of a sequence: their rows, and which trajectory takes which row."""

from __future__ import annotations

import math

import numpy as np

from ..engine.integrator import StartState
from .joint_order import ColumnOrder
from .rejection import Rejected, RejectionReason, require_finite


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

"""Where messages that may name other joints, or only some, have the node's joints. Knows no ROS."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from .rejection import Rejected, RejectionReason, require_finite, shown, shown_names


@lru_cache(maxsize=16)
def named_joints(names: tuple[str, ...], joint_names: tuple[str, ...], field: str) -> tuple[np.ndarray, np.ndarray]:
    """Return where a message has some of the node's joints, and which these are; the arrays must not be changed.

    Raises:
        Rejected: duplicate_joint.

    """
    column_of = _columns([(column, name) for column, name in enumerate(names) if name in joint_names], field)
    joints = [joint for joint, name in enumerate(joint_names) if name in column_of]
    return np.array([column_of[joint_names[joint]] for joint in joints], np.intp), np.array(joints, np.intp)


@lru_cache(maxsize=16)
def find_columns(names: tuple[str, ...], joint_names: tuple[str, ...], field: str) -> np.ndarray | None:
    """Return where a message that may name other joints, too, has the node's; None if it has none of them.

    Messages of a publisher name the same joints every time; the columns must not be changed.

    Raises:
        Rejected: duplicate_joint or joint_missing.

    """
    column_of = _columns([(column, name) for column, name in enumerate(names) if name in joint_names], field)
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
    _columns(enumerate(names), field)
    column_of = {name: column for column, name in enumerate(joint_names)}
    unknown = [name for name in names if name not in column_of]
    if unknown:
        raise Rejected(
            RejectionReason.UNKNOWN_JOINT,
            f"{field}: expected joints of the node ({shown_names(joint_names)}), got {shown_names(unknown)}",
        )
    return [column_of[name] for name in names]


def values_of_joints(
    field: str, values: np.ndarray, columns: np.ndarray, count: int, *, optional: bool, nan: bool = False
) -> np.ndarray:
    """Values of the node's joints, of an array that has one for each of the `count` names of its message.

    With `optional`, an array without values stands for zeros; with `nan`, NaN is a value, too.

    Raises:
        Rejected: joint_count or not_finite.

    """
    if optional and not len(values):
        return np.zeros(len(columns))
    if len(values) != count:
        raise Rejected(
            RejectionReason.JOINT_COUNT,
            f"{field}: expected {'0 or ' * optional}{count} values, one for each name, got {len(values)}",
        )
    values = values[columns]
    require_finite(field, np.where(np.isnan(values), 0.0, values) if nan else values)
    return values


def _columns(named: Iterable[tuple[int, str]], field: str) -> dict[str, int]:
    column_of: dict[str, int] = {}
    for column, name in named:
        if name in column_of:
            raise Rejected(
                RejectionReason.DUPLICATE_JOINT, f"{field}: expected every joint once, got {shown(name)} twice"
            )
        column_of[name] = column
    return column_of

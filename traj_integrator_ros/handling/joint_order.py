"""Where messages that may name other joints, or only some, have those of the node. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from .rejection import Rejected, RejectionReason, shown, shown_names


@lru_cache(maxsize=16)
def find_columns(names: tuple[str, ...], joint_names: tuple[str, ...], field: str) -> np.ndarray | None:
    """Return where a message that may name other joints, too, has those of the node; None if it has none of them.

    Messages of a publisher name the same joints every time; the columns must not be changed.

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

"""The size of the largest message, from the command line, before there is a node with parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import yaml

from ..limits.parameter_files import sections
from ..parameters.table import SPECS

USUAL_DOF = 7
"""Number of joints that is assumed if none are named: a client may name them before it configures the node."""


_POINTS = "position_trajectory.max_points"
_ROWS_OF_POINT = 2
"""Number of rows of a batch with as many bytes as a point of a plan, for two joints: a row has 20 bytes for each joint,
a point 24 and another 32.
"""


class MessageSize(NamedTuple):
    """The size of a batch of action sequences; that of a plan is given as one trajectory."""

    batch: int
    horizon: int
    dof: int


def largest_message(args: Sequence[str]) -> MessageSize:
    """Return the size of the largest batch or plan by parameter files and -p, or else by the defaults.

    Later values override earlier ones, as in ROS. If a file has sections for several nodes, the largest value counts.
    Anything unreadable is ignored here, since ROS or the node will report it.
    """
    sizes = {name: SPECS[name].default for name in ("max_batch", "max_horizon", _POINTS)} | {"joint_names": USUAL_DOF}
    for option, value in pairwise(args):
        parts: Iterable[Mapping] = ()
        if option == "--params-file":
            parts = _sections(_parsed(_text(value)))
        elif option in ("-p", "--param"):
            name, _, text = value.partition(":=")
            parts = [{name.rpartition(":")[2]: _parsed(text)}]
        given = [(name, _size(section[name])) for section in parts for name in sizes if name in section]
        sizes |= dict(sorted((name, size) for name, size in given if size))  # The largest size comes last.
    batch, rows_of_plan = (sizes["max_batch"], sizes["max_horizon"]), _ROWS_OF_POINT * sizes[_POINTS]
    return MessageSize(*(batch if batch[0] * batch[1] >= rows_of_plan else (1, rows_of_plan)), sizes["joint_names"])


def _sections(content: object) -> list[dict[str, object]]:
    try:
        return sections(content)
    except ValueError:
        return []


def _size(value: object) -> int:
    """Return a number, or the length of a list of names; 0 for anything else."""
    size = len(value) if isinstance(value, list) else value
    return size if isinstance(size, int) and size > 0 else 0


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _parsed(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None

"""The size of the largest message according to the command line, before a node exists that has parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import yaml

from ..limits.parameter_files import sections
from ..parameters.table import SPECS

USUAL_DOF = 7
"""Number of joints that is assumed if none are named yet: a client may still name them before it configures the node.
"""


_POINTS = "position_trajectory.max_points"
_ROWS_OF_POINT = 2
"""Rows of a batch that take as many bytes as a point of a plan of two joints: a row has 20 bytes a joint, a point 24,
and 32 more.
"""


class MessageSize(NamedTuple):
    """The size of a batch of action sequences; that of a plan is given as one trajectory."""

    batch: int
    horizon: int
    dof: int


def largest_message(args: Sequence[str]) -> MessageSize:
    """Size of the largest batch, or plan, by parameter files and -p; by the defaults where they do not say.

    Later values override earlier ones, as in ROS; of a file with sections for several nodes, the largest counts.
    Anything unreadable is ignored here: ROS or the node will report it.
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
        sizes |= dict(sorted((name, size) for name, size in given if size))  # the largest size comes last
    batch, rows_of_plan = (sizes["max_batch"], sizes["max_horizon"]), _ROWS_OF_POINT * sizes[_POINTS]
    return MessageSize(*(batch if batch[0] * batch[1] >= rows_of_plan else (1, rows_of_plan)), sizes["joint_names"])


def _sections(content: object) -> list[dict[str, object]]:
    try:
        return sections(content)
    except ValueError:
        return []


def _size(value: object) -> int:
    """A number, or the length of a list of names; 0 for anything else."""
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

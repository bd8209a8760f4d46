"""The size of the largest message according to the command line, before a node exists that has parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ..handling.parameter_table import SPECS

USUAL_DOF = 7
"""Number of joints if none are named yet: a client may still name them before it configures the node."""


class MessageSize(NamedTuple):
    """The size of a batch of action sequences."""

    batch: int
    horizon: int
    dof: int


def largest_message(args: Sequence[str]) -> MessageSize:
    """Size from max_batch, max_horizon and joint_names in parameter files and -p; the defaults where none are given.

    Later values override earlier ones, as in ROS; of a file with sections for several nodes, the largest counts.
    Anything unreadable is ignored here: ROS or the node will report it.
    """
    sizes = {name: SPECS[name].default for name in ("max_batch", "max_horizon")} | {"joint_names": USUAL_DOF}
    for option, value in pairwise(args):
        if option == "--params-file":
            sizes.update(_of_file(value, sizes))
        elif option in ("-p", "--param"):
            name, _, text = value.partition(":=")
            sizes.update(_of_values({name.rpartition(":")[2]: _parsed(text)}, sizes))
    return MessageSize(sizes["max_batch"], sizes["max_horizon"], sizes["joint_names"])


def _of_file(path: str, names: Mapping[str, int]) -> dict[str, int]:
    try:
        content = _parsed(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, int] = {}
    for section in _sections(content):
        for name, size in _of_values(section, names).items():
            found[name] = max(size, found.get(name, 0))
    return found


def _sections(content: object) -> Iterator[Mapping[str, object]]:
    """The parameters of every node of a file; names of namespaces may be nested."""
    if isinstance(content, Mapping):
        for name, inner in content.items():
            if name == "ros__parameters" and isinstance(inner, Mapping):
                yield inner
            else:
                yield from _sections(inner)


def _of_values(values: Mapping[str, object], names: Mapping[str, int]) -> dict[str, int]:
    sizes = {name: len(value) if isinstance(value, list) else value for name, value in values.items() if name in names}
    return {name: size for name, size in sizes.items() if isinstance(size, int) and size > 0}


def _parsed(text: str) -> object:
    try:
        import yaml  # part of ROS 2: ros2 launch and rclpy need it
    except ImportError:
        return None
    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError):
        return None

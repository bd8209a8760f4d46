"""Checks that launch arguments are declared, which `launch` itself does not. Knows no ROS."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from itertools import pairwise
from pathlib import Path

_PACKAGE = "traj_integrator_ros"
_OF_LAUNCH = {
    "launch-prefix", "launch-prefix-filter", "emulate_tty", "override_launch_process_output", "sigterm_timeout",
    "sigkill_timeout",
}  # fmt: skip
"""Arguments that `launch` itself reads, for every file."""


def require_declared(
    launch_file: str, declared: Collection[str], given: Iterable[str], command: list[str] | None = None
) -> None:
    """Check that a launch file declares the arguments with which it is started; `launch` ignores others.

    Args:
        launch_file: its path.
        declared: names of its arguments.
        given: arguments of the command, `name:=value`. If another file includes this one, they belong to that file.
        command: all words of the command; None: those of this process.

    Raises:
        ValueError: an argument is not declared.

    """
    words, file = sys.argv if command is None else command, Path(launch_file).resolve()
    by_path = any(word.endswith(file.name) and Path(word).resolve() == file for word in words)
    if not by_path and (_PACKAGE, file.name) not in pairwise(words):
        return
    unknown = [one for one in given if one.partition(":=")[0] not in {*declared, *_OF_LAUNCH}]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: expected arguments of {file.name}, which are {', '.join(declared)}")

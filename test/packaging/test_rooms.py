"""Imports run downwards only, from room to room, as CONTRIBUTING.md says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "traj_integrator_ros"
KERNELS = "kernels"


def tables_of_contributors() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The rooms, and the rooms within the kernels, each with the rooms that it may import besides itself."""
    page = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms, within_kernels = page.partition("what each may import:")[2].split("In `kernels/`")
    return tuple(
        {room: set(re.findall(r"\w+", imported)) - {"nothing"} for room, imported in rows}
        for rows in (re.findall(r"^ {4}(\w+)/ +-> +(.*)$", part, re.MULTILINE) for part in (rooms, within_kernels))
    )


ROOMS, WITHIN_KERNELS = tables_of_contributors()
"""Libraries outside of the standard library that rooms without ROS, and the room that users import, may use."""


def imports(file: Path, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and dotted parts of everything that a file of a package imports, anywhere in the file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module or "").split(".")) if node.module else base
            for alias in node.names:
                yield node.lineno, (*module, alias.name)


def files_of_rooms(root: Path) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    """Room, path and package of every file of a room."""
    for folder, prefix in {KERNELS: (PACKAGE, KERNELS), PACKAGE: (PACKAGE,)}.items():
        for file in sorted((root / folder).rglob("*.py")):
            package = (*prefix, *file.relative_to(root / folder).parts[:-1])
            if (root / PACKAGE / KERNELS) not in file.parents and len(package) > 1:  # the link
                yield package[1], file, package


def upward_imports(root: Path) -> list[str]:
    """Imports between rooms, and between rooms of the kernels, that the tables do not allow."""
    wrong = []
    for room, file, package in files_of_rooms(root):
        inner = package[2] if room == KERNELS and len(package) > 2 else ""
        for line, parts in imports(file, package):
            if parts[0] != PACKAGE or parts[1:] in ((), ("__version__",)):
                continue
            other = parts[2] if parts[1] == KERNELS and len(parts) > 3 and parts[2] in WITHIN_KERNELS else ""
            is_within = not inner or other in WITHIN_KERNELS[inner] | {inner, ""}  # "": modules beside the rooms
            if parts[1] not in ROOMS[room] | {room} or not is_within:
                wrong.append(f"{file.relative_to(root)}:{line}: {inner or room} imports {'.'.join(parts[1:])}")
    return wrong


def test_imports_run_downwards_only(project_root: Path) -> None:
    assert upward_imports(project_root) == []

"""Imports run downwards only, from room to room, as CONTRIBUTING.md has them; and every room says who lives there."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

PACKAGE = "traj_integrator_ros"
KERNELS = "kernels"


def tables_of_contributors() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The rooms, and the rooms within the kernels, each with those that it may import, itself apart."""
    page = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms, within_kernels = page.partition("what each may import:")[2].split("In `kernels/`")
    return tuple(
        {room: set(re.findall(r"\w+", imported)) - {"nothing"} for room, imported in rows}
        for rows in (re.findall(r"^ {4}(\w+)/ +-> +(.*)$", part, re.MULTILINE) for part in (rooms, within_kernels))
    )


ROOMS, WITHIN_KERNELS = tables_of_contributors()
LIBRARIES: dict[str, set[str]] = {
    KERNELS: {"torch", "numpy", "triton"},
    "engine": {"torch", "numpy"},
    "execution": {"numpy", "ruckig"},
    "limits": {"numpy", "yaml"},
    "parameters": {"torch", "numpy"},
    "requests": {"torch", "numpy"},
    "governor": {"torch", "numpy"},
    "client": {
        "numpy", "rclpy", "lifecycle_msgs", "rcl_interfaces", "trajectory_msgs", "traj_integrator_interfaces",
        "torch",  # for annotations; test/client has the client without it
    },
}  # fmt: skip
"""What the rooms without ROS, and the one that users import, take from outside of the standard library."""
START = "__main__.py"  # `python -m traj_integrator_ros` is the node


def imports(file: Path, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and dotted parts of all that a file of a package imports, wherever in the file it does."""
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


def files_of(root: Path) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    """Room, path and package of every file; the kernels are in a folder of their own, which the package links to."""
    for folder, prefix in ((root / PACKAGE, ()), (root / KERNELS, (KERNELS,))):
        for file in sorted(folder.rglob("*.py")):
            inside = (*prefix, *file.relative_to(folder).parts)
            is_linked = not prefix and inside[0] == KERNELS
            if len(inside) > 1 and not is_linked:
                yield inside[0], file, (PACKAGE, *inside[:-1])


def upward_imports(root: Path) -> list[str]:
    """Imports between rooms, and between rooms of the kernels, that the tables do not have."""
    wrong = []
    for room, file, package in files_of(root):
        inner = package[2] if room == KERNELS and len(package) > 2 else ""
        for line, parts in imports(file, package):
            if parts[0] != PACKAGE or parts[1:] in ((), ("__version__",)):
                continue
            other = parts[2] if parts[1] == KERNELS and len(parts) > 3 and parts[2] in WITHIN_KERNELS else ""
            is_within = not inner or other in WITHIN_KERNELS[inner] | {inner, ""}  # "": what lies beside the rooms
            if parts[1] not in ROOMS[room] | {room} or not is_within:
                wrong.append(f"{file.relative_to(root)}:{line}: {inner or room} imports {'.'.join(parts[1:])}")
    return wrong


def test_imports_run_downwards_only(project_root: Path) -> None:
    assert upward_imports(project_root) == []


def test_no_modules_import_each_other_in_a_circle(project_root: Path) -> None:
    modules = modules_of(project_root)
    assert circles_of({name: set(imported_modules(modules, *module)) for name, module in modules.items()}) == []


def modules_of(root: Path) -> dict[tuple[str, ...], tuple[Path, tuple[str, ...]]]:
    """Path and package of every module of the project by its dotted parts; the scripts import each other by name."""
    modules = {}
    for folder, prefix in (
        (KERNELS, (PACKAGE, KERNELS)), (PACKAGE, (PACKAGE,)), ("benchmarks", ("benchmarks",)), ("soak", ("soak",)),
        ("rig", ("rig",)), ("kit", ("kit",)),
        ("scripts", ()),
    ):  # fmt: skip
        for file in sorted((root / folder).rglob("*.py")):
            if (root / PACKAGE / KERNELS) in file.parents:  # the link
                continue
            package = (*prefix, *file.relative_to(root / folder).parts[:-1])
            modules[package if file.stem == "__init__" else (*package, file.stem)] = file, package
    return modules


def imported_modules(
    modules: dict[tuple[str, ...], tuple[Path, tuple[str, ...]]], file: Path, package: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    """Those that one of them imports, wherever in the file, for annotations, too; not the packages around its own."""
    for _, parts in imports(file, package):
        found = next((parts[:end] for end in (len(parts), len(parts) - 1) if parts[:end] in modules), ())
        if found and (found == package or found != package[: len(found)]):
            yield found


def circles_of(graph: dict[tuple[str, ...], set[tuple[str, ...]]]) -> list[list[tuple[str, ...]]]:
    """What is left of a graph once all without imports, and then all that import only those, are taken out."""
    left = {name: imported & graph.keys() - {name} for name, imported in graph.items()}
    while ends := [name for name, imported in left.items() if not imported & left.keys()]:
        for name in ends:
            del left[name]
    while roots := left.keys() - set().union(*left.values()):
        for name in roots:
            del left[name]
    return [[name, *sorted(imported & left.keys())] for name, imported in sorted(left.items())]


def test_rooms_import_no_other_libraries(project_root: Path) -> None:
    found: dict[str, set[str]] = {room: set() for room in LIBRARIES}
    for room, file, package in files_of(project_root):
        if room in LIBRARIES:
            found[room] |= {parts[0] for _, parts in imports(file, package) if parts[0] not in sys.stdlib_module_names}
    others = {room: names - LIBRARIES[room] - {PACKAGE} for room, names in found.items()}
    assert others == {room: set() for room in LIBRARIES}


def test_every_room_is_in_the_table_and_says_who_lives_there(project_root: Path) -> None:
    folders = [*(project_root / PACKAGE).iterdir(), *(project_root / KERNELS).iterdir()]
    rooms = {folder.name: folder for folder in folders if any(folder.glob("*.py"))}
    assert set(rooms) == set(ROOMS) | set(WITHIN_KERNELS)
    for name, folder in rooms.items():
        said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        assert len(re.findall(r"[.:](?=\s|$)", said)) >= 2, f"{name}: {said!r}"


@pytest.mark.parametrize("table", [ROOMS, WITHIN_KERNELS], ids=["rooms", "within kernels"])
def test_every_room_imports_those_above_it_in_the_table(table: dict[str, set[str]]) -> None:
    for room, above in zip(table, accumulate(({room} for room in table), set.union, initial=set()), strict=False):
        assert table[room] <= above, room


def test_a_circle_is_found() -> None:
    a, b, c, d = ((name,) for name in "abcd")
    assert circles_of({a: {b}, b: {c}, c: {d}, d: set()}) == []
    assert circles_of({a: {b}, b: {c}, c: {b, d}, d: set()}) == [[b, c], [c, b]]


@pytest.mark.parametrize(
    "line", ["from ..node import node", "import traj_integrator_ros.demo.main", "from .. import tools"]
)
def test_an_import_upwards_is_found(tmp_path: Path, line: str) -> None:
    for room in ROOMS:
        folder = tmp_path / (KERNELS if room == KERNELS else f"{PACKAGE}/{room}")
        folder.mkdir(parents=True)
        (folder / "module.py").write_text("from . import other\n")
    assert upward_imports(tmp_path) == []
    (tmp_path / PACKAGE / "governor" / "module.py").write_text(f"def late():\n    {line}\n")
    (found,) = upward_imports(tmp_path)
    assert found.startswith(f"{PACKAGE}/governor/module.py:2: governor imports ")

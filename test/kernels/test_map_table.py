"""The one-minute test: docs/kernels.md names, for every map, each function that implements it, and its tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from traj_integrator_ros.kernels import MAPS

COLUMNS = ("equation, public function", "reference", "CPU kernel", "CUDA kernels", "tests")
BESIDE_MAPS = ("gradient of dt", "quadratic cost")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"
LINK = re.compile(r"\[([\w.]+)\]\(([^)]+)\)")


def table() -> dict[str, dict[str, str]]:
    """The cells of the table by row and column."""
    lines = PAGE.read_text(encoding="utf-8").partition("| map | equation")[2].splitlines()
    names = ["equation" + lines[0].split("|")[0].rstrip(), *(cell.strip() for cell in lines[0].split("|")[1:-1])]
    rows = {}
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        row, *cells = (cell.strip() for cell in line.split("|")[1:-1])
        rows[row] = dict(zip(names, cells, strict=True))
    return rows


def functions_of(file: Path) -> set[str]:
    """Names of the functions that a Python file defines, and of the functions and structures of one in C++."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return set(re.findall(r"^(?:[\w:<>&*]+ (?:\w+ )*(?=\w+\()| *struct )(\w+)(?:\([^;]*?| )\{$", text, re.M))
    nodes = ast.walk(ast.parse(text))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_the_table_has_every_map_and_every_aspect():
    rows = table()
    assert set(rows) == {kernel.operator.name for kernel in MAPS.values()} | set(BESIDE_MAPS)
    assert all(tuple(cells) == COLUMNS and all(map(LINK.search, cells.values())) for cells in rows.values())


@pytest.mark.parametrize("row", [*dict.fromkeys(kernel.operator.name for kernel in MAPS.values()), *BESIDE_MAPS])
def test_what_a_row_names_is_there(row):
    cells = table()[row]
    (public, _), *_ = LINK.findall(cells[COLUMNS[0]])
    for column in COLUMNS:
        for name, link in LINK.findall(cells[column]):
            file = (PAGE.parent / link).resolve()
            if column == "tests":
                text = file.read_text(encoding="utf-8")
                assert name == file.name and public in text and "\ndef test_" in text, link
            else:
                assert name in functions_of(file), link
    if row not in BESIDE_MAPS:
        assert {public} <= {kernel.operator.name + "_step" for kernel in MAPS.values()}
        for column, directions in (
            ("CPU kernel", ("Forward|_forward", "Adjoint|_vjp")),
            ("CUDA kernels", ("_fwd_kernel", "_vjp_kernel")),
        ):
            assert [d for d in directions if not re.search(rf"\[\w*({d})\]", cells[column])] == []

"""The README's tables say what the code declares."""

from __future__ import annotations

import re
from pathlib import Path

from traj_integrator_ros.parameters import PARAMETERS, ParameterSpec

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Cells of the table below a heading, without its two header lines."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def shown(spec: ParameterSpec) -> str:
    if isinstance(spec.default, bool):
        return str(spec.default).lower()
    if isinstance(spec.default, list):
        return f"[{', '.join(spec.default)}]"
    return str(spec.default)


def test_the_parameter_table_lists_every_parameter_with_default_unit_and_when_it_can_be_set():
    expected = [[f"`{spec.name}`", f"`{shown(spec)}`", spec.unit, spec.changeable.value] for spec in PARAMETERS]
    assert [row[:4] for row in rows("Parameters")] == expected
    for row, spec in zip(rows("Parameters"), PARAMETERS, strict=True):
        assert all(choice in row[4] for choice in spec.choices), row


def test_every_file_that_the_readme_links_to_exists():
    root = Path(__file__).resolve().parents[2]
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 5
    assert [link for link in links if not (root / link).exists()] == []

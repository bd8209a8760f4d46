"""The pages of the documentation: their marked blocks, and how the tests run them.

A comment before a block says what the test does with it:

    <!-- executed -->                               bash or Python, without ROS
    <!-- executed with a node -->                   the integrator for a Panda runs and is active
    <!-- executed with a node and a robot -->       and examples/simulated_robot.py with it
    <!-- compiled -->                               C++ that compiles against the interface package
    <!-- not executed: reason -->                   what cannot be, and what tests it instead

", continued" at the end of a mark makes one program of a Python block and the one before it. A block ```text after the
mark <!-- printed --> is what the block before it must print, line by line; `...` stands for anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
OFFLINE, NODE, ROBOT = "", "with a node", "with a node and a robot"
_BLOCK = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
_MARK = re.compile(r"executed ?(|with a node|with a node and a robot)(, continued)?")


@dataclass
class Block:
    """One fenced block of a page."""

    page: str
    number: int
    mark: str
    """The comment before the block; empty if there is none."""
    language: str
    text: str
    printed: str = ""
    """Lines that it must print."""

    @property
    def needs(self) -> str | None:
        """OFFLINE, NODE or ROBOT; None if the block is not executed."""
        if not self.mark and self.language == "python":
            return OFFLINE
        found = _MARK.fullmatch(self.mark)
        return found[1] if found else None

    @property
    def is_continued(self) -> bool:
        return self.mark.endswith(", continued")

    def missing_from(self, output: str) -> list[str]:
        """Expected lines that the output lacks, in their order."""
        rest, missing = output.splitlines(), []
        for line in self.printed.splitlines():
            pattern = ".*".join(re.escape(part) for part in line.strip().split("..."))
            at = next((i for i, printed in enumerate(rest) if re.fullmatch(pattern, printed.strip())), None)
            if at is None:
                missing.append(line)
            else:
                rest = rest[at + 1 :]
        return missing


def name_of(page: Path) -> str:
    """A page's path in the repository: there are two READMEs."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page; expected output, and Python that continues a block, are joined to the block."""
    found: list[Block] = []
    for number, (mark, language, text) in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8")), 1):
        block = Block(name_of(page), number, mark, language, text)
        if mark == "printed":
            found[-1].printed += text
        elif block.is_continued:
            before = found[-1]
            found[-1] = Block(page.name, before.number, before.mark, language, before.text + text, before.printed)
        else:
            found.append(block)
    return found


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def section(page: Path, heading: str) -> str:
    """The text below a heading of the second level."""
    text = "\n" + page.read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def table(page: Path, heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, without its two header lines."""
    lines = section(page, heading).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows

"""Tests this checkout on every combination of ROS 2, Python and torch that this machine can have: `make matrix`.

The torches are the oldest that setup.py takes, the one pinned in requirements/ and the newest that pip finds. Each
combination is set up in build/matrix/, tested with a part of the tests, and removed. Results go into
docs/compatibility.json and .md; a combination that is done is not repeated until something changes that it depends on,
or its result is removed from the file.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import set_up_machine
from matrix_cell import PINS, ROOT, Cell, Result, inputs_of, run_cell

RESULTS = ROOT / "docs" / "compatibility.json"
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- matrix: written by make matrix -->\n", "<!-- end of matrix -->\n"
TORCHES = ("pinned", "oldest", "newest")
"""In the order of what they tell; so are the Pythons below."""
PYTHONS = ("3.12", "3.10", "3.11", "3.13", "3.14")


def main() -> int:
    """Runs the cells that are not done yet; the exit status says whether any failed."""
    options = parsed_arguments()
    every = all_cells()
    cells = list(dict.fromkeys(cell for name in options.only for cell in every if fnmatch.fnmatch(cell.name, name)))
    if not cells:
        sys.stderr.write(f"matrix: no combination on this machine is called {' or '.join(options.only)}\n")
        return 2
    outcomes = set()
    for cell in cells:
        result = known_result(cell)
        if result is None and not options.list:
            print(f"{cell.name} (torch {cell.torch_version}) ...", flush=True)
            result = run_cell(cell)
            record(result)
            shutil.rmtree(cell.folder)
        print(f"{cell.name}: {description(result)}", flush=True)
        outcomes.add(result and result.outcome)
    return int(not options.list and outcomes != {"passed"})


def parsed_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", default=["*"], help="names or patterns: jazzy-3.12-pinned, kilted-*")
    parser.add_argument("--list", action="store_true", help="say what there is and what is done, and do nothing")
    return parser.parse_args()


def all_cells() -> list[Cell]:
    """Every combination that this machine can have, the most telling first."""
    pythons = dict(suitable_pythons())
    pinned = re.search(r"^torch==(\S+)", (ROOT / PINS).read_text(encoding="utf-8"), re.MULTILINE)[1]
    oldest = re.search(r'"torch>=([\d.]+)"', (ROOT / "setup.py").read_text(encoding="utf-8"))[1]
    newest = {version: newest_torch(path) for version, path in pythons.items()}
    versions = {"pinned": lambda _: pinned, "oldest": lambda _: f"{oldest}.0", "newest": newest.get}
    return [
        Cell(distro, pythons[version], version, torch, versions[torch](version))
        for torch in TORCHES
        for version in PYTHONS
        if version in pythons
        for distro in reversed(set_up_machine.DISTROS)  # the default's own pins are tested all the time
    ]


def suitable_pythons() -> Iterator[tuple[str, str]]:
    """Version and path of one interpreter of each version that set-up takes: on the PATH, or pyenv's."""
    for version in PYTHONS:
        installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
        for path in filter(None, (*map(str, installed), shutil.which(f"python{version}"))):
            command = [path, str(ROOT / "scripts" / "set_up.py"), "--check"]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                yield version, path
                break


def newest_torch(python: str) -> str:
    """The newest torch that pip finds for a Python; the word newest where it finds none."""
    command = [python, "-m", "pip", "index", "versions", "torch", "--disable-pip-version-check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    match = re.search(r"torch \(([\d.]+)", found)
    return match[1] if match else "newest"


def load_results() -> dict[str, Result]:
    """Results of earlier runs, by the names of the cells."""
    if not RESULTS.is_file():
        return {}
    return {known["cell"]: Result(**known) for known in json.loads(RESULTS.read_text(encoding="utf-8"))}


def known_result(cell: Cell) -> Result | None:
    """Result of a cell, if nothing that it depends on has changed."""
    known = load_results().get(cell.name)
    return known if known is not None and known.inputs == inputs_of(cell) else None


def record(new: Result) -> None:
    """Adds to the results and writes the table into the page."""
    results = load_results() | {new.cell: new}
    ordered = sorted(results.values(), key=lambda result: result.cell)
    RESULTS.write_text(json.dumps([asdict(result) for result in ordered], indent=1) + "\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{after}", encoding="utf-8")


def table(results: dict[str, Result]) -> str:
    """The results as a table in Markdown: a row for each ROS 2 and Python, a column for each torch."""
    lines = ["| ROS 2 | Python | torch oldest | torch pinned | torch newest |", "|---|---|---|---|---|"]
    for distro in set_up_machine.DISTROS:
        for version in sorted(PYTHONS):
            cells = [results.get(f"{distro}-{version}-{torch}") for torch in ("oldest", "pinned", "newest")]
            lines.append(f"| {distro.capitalize()} | {version} | {' | '.join(map(shown, cells))} |")
    return "\n".join(lines) + "\n"


def shown(result: Result | None) -> str:
    """A cell of the table: torch and day where all passed; RESULTS has the rest."""
    if result is None or result.outcome != "passed":
        return description(result)
    return f"{result.versions['torch']} ({result.date})"


def description(result: Result | None) -> str:
    """A result in a few words."""
    if result is None:
        return "untested"
    about = f"{result.date}, {result.commit}"
    if result.outcome == "no set-up":
        return f"no set-up: {result.message} ({about})"
    torch = f"{result.versions['torch']}: " if "torch" in result.versions else ""
    if result.outcome == "passed":
        again = f", {len(result.passed_again)} of them at the second try" if result.passed_again else ""
        return f"{torch}{result.passed} passed{again} ({about})"
    names = ", ".join(name.rpartition("::")[2] for name in result.failed[:3])
    return f"{torch}**{len(result.failed)} failed** of {result.passed + len(result.failed)}: {names} ({about})"


if __name__ == "__main__":
    sys.exit(main())

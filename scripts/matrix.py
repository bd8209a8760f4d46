"""Tests this commit on every combination of ROS 2, Python and torch that this machine can have: `make matrix`.

The torches are the oldest that setup.py takes, the one pinned in requirements/ and the newest that pip finds. Each
combination is set up in a clone in build/matrix/, tested with a part of the tests, and removed. Results go into
docs/compatibility.json and .md; a combination that was tested at this commit is not repeated.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import set_up_machine

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "matrix"
RESULTS, PAGE = ROOT / "docs" / "compatibility.json", ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- matrix: written by make matrix -->\n", "<!-- end of matrix -->\n"
PINS, CONSTRAINTS = Path("requirements/python.txt"), Path("requirements/transitive.txt")
COMPILED = ("kernels/*/*.abi3.so", "traj_integrator_ros/execution/*.abi3.so", "build/native/built")
TORCHES = ("pinned", "oldest", "newest")
"""In the order of what they tell; so are the Pythons below."""
PYTHONS = ("3.12", "3.10", "3.11", "3.13", "3.14")
TESTS = (
    "test/maps/test_exact_motions.py",
    "test/kernels/test_native.py",
    "test/kernels/test_reference.py",
    "test/kernels/test_operators_autograd.py",
    "test/kernels/test_operators_tracing.py::test_opcheck_passes_for_every_operator",
    "test/kernels/test_operators_tracing.py::test_compiles_as_one_graph_with_one_node_and_the_same_gradients",
    "test/kernels/test_operators_tracing.py::test_exports_with_a_dynamic_batch",
    "test/engine/test_integrator.py",
    "test/engine/test_direct.py",
    "test/packaging/test_install_modes.py::test_one_wheel_computes_every_map_without_a_compiler",
    "test/wire",
    "test/node/test_lifecycle.py",
    "test/node/test_services.py",
    "test/node/test_parameters.py",
    "test/node/test_node_variants.py",
)
"""Tests that depend on release, Python or torch: operators, their gradients, tracing and export, C++ kernels,
the wheel where there is no compiler, messages, a node's whole life."""
WITHIN_S, TEST_WITHIN_S = 7200, 900
"""Generous: the machine may have more to do, and may stop a run for minutes."""


@dataclass(frozen=True)
class Cell:
    """A combination: a release of ROS 2, a Python (its path) and a torch, as a word and as a version."""

    distro: str
    python: str
    python_version: str
    torch: str
    torch_version: str

    @property
    def name(self) -> str:
        """For commands and files."""
        return f"{self.distro}-{self.python_version}-{self.torch}"

    @property
    def folder(self) -> Path:
        """Where the clone is while the cell is at work."""
        return FOLDER / self.name


@dataclass
class Result:
    """Result of a cell, as it is kept."""

    cell: str
    date: str
    commit: str
    versions: dict[str, str] = field(default_factory=dict)
    outcome: str = ""
    """passed, failed, or no set-up."""
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    """At both tries."""
    message: str = ""
    """Why there was no set-up."""


def main() -> int:
    """Runs the cells that are not done yet; the exit status says whether any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", default=["*"], help="names or patterns: jazzy-3.12-pinned, kilted-*")
    parser.add_argument("--list", action="store_true", help="say what there is and what is done, and do nothing")
    options = parser.parse_args()
    every, known = all_cells(), load_results()
    cells = list(dict.fromkeys(cell for name in options.only for cell in every if fnmatch.fnmatch(cell.name, name)))
    if not cells:
        sys.stderr.write(f"matrix: no combination on this machine is called {' or '.join(options.only)}\n")
        return 2
    outcomes = set()
    for cell in cells:
        result = known.get(cell.name)
        if not options.list and (result is None or result.commit != commit()):
            print(f"{cell.name} (torch {cell.torch_version}) ...", flush=True)
            result = run_cell(cell)
            record(result)
        print(f"{cell.name}: {description(result)}", flush=True)
        outcomes.add(result and result.outcome)
    return int(not options.list and outcomes != {"passed"})


# Combinations


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


# One cell


def run_cell(cell: Cell) -> Result:
    """Sets a cell up in its folder, tests it there, once more what fails, and removes it."""
    result = Result(cell.name, datetime.date.today().isoformat(), commit())
    clone(cell)
    # Without the C++ kernels half of the tests would be skipped, and the cell would pass.
    set_up = [cell.python, "scripts/set_up.py", "--wheels", cell.distro, "--python-is-given"]
    failed, output = run([*("env", "TRAJ_INTEGRATOR_NATIVE=1"), *set_up], cell)
    if failed:
        result.outcome, result.message = "no set-up", reason_in(output)
    else:
        environment = cell.folder / Path(set_up_machine.environment_of(cell.distro)).name
        pytest = [str(environment / "bin" / "python"), "-m", "pytest", "-q", f"--timeout={TEST_WITHIN_S}"]
        passed, result.failed = run_tests([*pytest, "--workers", "2", "--cache-clear", *TESTS], cell)
        if passed and result.failed:
            again, result.failed = run_tests([*pytest, "--last-failed", *TESTS], cell)
            passed |= again
        result.passed, result.outcome = len(passed), "failed" if result.failed or not passed else "passed"
        metadata = environment.glob("lib/python*/site-packages/*.dist-info")
        known = dict(path.stem.split("-", 1) for path in metadata)
        result.versions = {name: known[name] for name in ("torch", "triton", "numpy", "ros_rclpy") if name in known}
    shutil.rmtree(cell.folder)
    return result


def reason_in(output: str) -> str:
    """Why a set-up failed: what it says last, behind the step that it was at."""
    lines = output.splitlines()
    errors = [line.rpartition("set-up: ")[2] for line in lines if "set-up: " in line]
    return (errors or lines or ["no output"])[-1]


def clone(cell: Cell) -> None:
    """Clones this commit, with the modules compiled for it, and the pin of torch replaced by the cell's."""
    shutil.rmtree(cell.folder, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", ROOT, cell.folder], check=True)
    for module in (path for pattern in COMPILED for path in ROOT.glob(pattern)):
        target = cell.folder / module.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(module, target)
    if cell.torch == "pinned":
        return
    # Another torch wants other versions of what it requires, and brings the Triton that it was built with.
    pins, constraints = cell.folder / PINS, cell.folder / CONSTRAINTS
    text = re.sub(r"^triton==.*\n", "", pins.read_text(encoding="utf-8"), flags=re.MULTILINE)
    pins.write_text(re.sub(r"^torch==\S+", f"torch=={cell.torch_version}", text, flags=re.MULTILINE), encoding="utf-8")
    lines = constraints.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.startswith("#") or not re.search(r"# by .*\btorch\b", line)]
    constraints.write_text("".join(kept), encoding="utf-8")


def run_tests(command: list[str], cell: Cell) -> tuple[set[str], list[str]]:
    """Names of the tests that passed, and of those that failed."""
    report = cell.folder / "build" / "matrix-tests.xml"
    report.unlink(missing_ok=True)
    failed, output = run([*command, f"--junit-xml={report}"], cell)
    cases = ElementTree.parse(report).iter("testcase") if report.is_file() else ()
    named = [(f"{case.get('classname')}::{case.get('name')}", {child.tag for child in case}) for case in cases]
    failures = {name for name, tags in named if tags & {"failure", "error"}}
    if failed and not failures:
        failures.add((output.strip().splitlines() or ["no output"])[-1])
    return {name for name, tags in named if "skipped" not in tags} - failures, sorted(failures)


def run(command: list[str], cell: Cell) -> tuple[bool, str]:
    """Runs a command in a cell as in a new shell; whether it failed, and its output, which goes into a log, too."""
    activated = ("VIRTUAL_ENV", "PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE")
    clean = ["env", "OMP_NUM_THREADS=1", *(part for name in activated for part in ("-u", name))]
    log = FOLDER / "logs" / f"{cell.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        start = file.tell()
        limited = [*clean, "timeout", str(WITHIN_S), *command]
        code = subprocess.run(limited, cwd=cell.folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file).returncode
    return code != 0, log.read_bytes()[start:].decode("utf-8", errors="replace")


def commit() -> str:
    """The commit that is tested, in short."""
    head = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


# Results


def load_results() -> dict[str, Result]:
    """Results of earlier runs, by the names of the cells."""
    if not RESULTS.is_file():
        return {}
    return {known["cell"]: Result(**known) for known in json.loads(RESULTS.read_text(encoding="utf-8"))}


def record(new: Result) -> None:
    """Adds to the results and writes the table into the page."""
    results = load_results() | {new.cell: new}
    ordered = sorted(results.values(), key=lambda result: result.cell)
    RESULTS.write_text(json.dumps([asdict(result) for result in ordered], indent=1) + "\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


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
    about = f"({result.date}, {result.commit})"
    if result.outcome == "no set-up":
        return f"no set-up: {result.message} {about}"
    torch = f"{result.versions['torch']}: " if "torch" in result.versions else ""
    if result.outcome == "passed":
        return f"{torch}{result.passed} passed {about}"
    names = ", ".join(name.rpartition("::")[2] for name in result.failed[:3])
    return f"{torch}**{len(result.failed)} failed** of {result.passed + len(result.failed)}: {names} {about}"


if __name__ == "__main__":
    sys.exit(main())

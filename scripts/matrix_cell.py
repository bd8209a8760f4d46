"""One cell of the matrix: a copy of the checkout, set up with one ROS 2, one Python and one torch, and tested.

All of them have the C++ kernels of this checkout, where it has compiled its present sources.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import set_up_machine
from set_up_environment import hashed

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "matrix"
PINS = Path("requirements/python.txt")
CONSTRAINTS = Path("requirements/transitive.txt")
COMPILED = ("kernels/*/*.abi3.so", "traj_integrator_ros/execution/*.abi3.so", "build/native/built")
NOT_INPUTS = ("docs/", "benchmarks/", "rig/", "soak/", "examples/", ".ci/")
"""Folders on which no result of a cell depends; nor does it on pages."""
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
    "test/packaging/test_install_modes.py::"
    "test_one_wheel_computes_every_map_without_a_compiler",
    "test/wire",
    "test/node/test_lifecycle.py",
    "test/node/test_services.py",
    "test/node/test_parameters.py",
    "test/node/test_node_variants.py",
)
"""Tests that depend on release, Python or torch: operators, their gradients, tracing and export, C++ kernels,
the wheel where there is no compiler, messages, a node's whole life."""
TESTS_WITHIN_S = SET_UP_WITHIN_S = 7200
"""Generous, as is a test's own time: the machine may have more to do, and may stop a run for minutes."""
TEST_WITHIN_S = 900


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
        """Where the copy of the checkout is while the cell is at work."""
        return FOLDER / self.name

    @property
    def environment(self) -> Path:
        """The environment that set-up makes there."""
        return self.folder / Path(set_up_machine.environment_of(self.distro)).name

    @property
    def site_packages(self) -> Path:
        """Where it has its modules."""
        return self.environment / "lib" / f"python{self.python_version}" / "site-packages"


@dataclass
class Result:
    """Result of a cell, as it is kept."""

    cell: str
    inputs: str
    """Hash of everything that the result depends on."""
    date: str
    commit: str
    versions: dict[str, str] = field(default_factory=dict)
    outcome: str = ""
    """passed, failed, or no set-up."""
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    """At every try."""
    passed_again: list[str] = field(default_factory=list)
    """Tests that failed at first and passed then."""
    skipped: int = 0
    message: str = ""
    """Why there was no set-up."""


def inputs_of(cell: Cell) -> str:
    """A hash of all that decides the result of a cell."""
    files = [ROOT / name for name in checkout_files() if not name.startswith(NOT_INPUTS) and not name.endswith(".md")]
    contents = [part for file in files for part in (str(file.relative_to(ROOT)), hashed_content(file))]
    return hashed([cell.name, cell.torch_version, *contents])


def run_cell(cell: Cell) -> Result:
    """Sets a cell up in its folder and tests it there."""
    result = Result(cell.name, inputs_of(cell), datetime.date.today().isoformat(), commit())
    copy_checkout(cell)
    command = [cell.python, "scripts/set_up.py", "--wheels", cell.distro, "--python-is-given"]
    log = cell.folder / "build" / "matrix-set-up.log"
    # Without the C++ kernels half of the tests would be skipped, and the cell would pass.
    returncode, output = run(command, cell.folder, log, SET_UP_WITHIN_S, TRAJ_INTEGRATOR_NATIVE="1")
    if returncode == 0:
        test(cell, result)
    else:
        result.outcome, result.message = "no set-up", reason_in(output)
    logs = FOLDER / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for log in (*(cell.folder / "build").glob("*.log"), *(cell.folder / "build" / "set-up").glob("*.log")):
        shutil.copy(log, logs / f"{cell.name}-{log.name}")
    return result


def reason_in(output: str) -> str:
    """Why a set-up failed: what it says last, behind the step that it was at."""
    lines = output.splitlines()
    errors = [line.rpartition("set-up: ")[2] for line in lines if "set-up: " in line]
    return (errors or lines or ["no output"])[-1]


def copy_checkout(cell: Cell) -> None:
    """Copies what git knows or would know of, and compiled modules, with the pin of torch replaced by the cell's."""
    compiled = [path.relative_to(ROOT) for pattern in COMPILED for path in ROOT.glob(pattern)]
    for name in (*checkout_files(), *compiled):
        source, target = ROOT / name, cell.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    (cell.folder / "build").mkdir(exist_ok=True)
    pins, constraints = cell.folder / PINS, cell.folder / CONSTRAINTS
    if cell.torch == "pinned":
        return
    # Another torch wants other versions of what it requires, and brings the Triton that it was built with.
    text = re.sub(r"^triton==.*\n", "", (ROOT / PINS).read_text(encoding="utf-8"), flags=re.MULTILINE)
    pins.write_text(re.sub(r"^torch==\S+", f"torch=={cell.torch_version}", text, flags=re.MULTILINE), encoding="utf-8")
    lines = (ROOT / CONSTRAINTS).read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.startswith("#") or not re.search(r"# by .*\btorch\b", line)]
    constraints.write_text("".join(kept), encoding="utf-8")


def test(cell: Cell, result: Result) -> None:
    """Runs the tests of a cell in its environment, once more those that fail, and takes down what came of them."""
    passed, result.failed, result.skipped = run_tests(cell, "--workers", "2", "--cache-clear", *TESTS)
    if passed and result.failed:
        again, failed, _ = run_tests(cell, "--last-failed", "--last-failed-no-failures", "none", *TESTS)
        result.passed_again = sorted(set(result.failed) & again)
        result.failed = sorted({*result.failed, *failed} - again)
        passed |= again
    result.passed = len(passed)
    result.outcome = "passed" if passed and not result.failed else "failed"
    known = dict(path.stem.split("-", 1) for path in cell.site_packages.glob("*.dist-info"))
    result.versions = {name: known[name] for name in ("torch", "triton", "numpy", "ros_rclpy") if name in known}


def run_tests(cell: Cell, *arguments: str) -> tuple[set[str], list[str], int]:
    """Names of the tests that passed, of those that failed, and the number of those that were skipped."""
    report, log = (cell.folder / "build" / f"matrix-tests{suffix}" for suffix in (".xml", ".log"))
    report.unlink(missing_ok=True)
    own = {"timeout": TEST_WITHIN_S, "faulthandler_timeout": TEST_WITHIN_S - 10}
    options = [part for name, value in own.items() for part in ("-o", f"{name}={value}")]
    command = [str(cell.environment / "bin" / "python"), "-m", "pytest", "-q", "--durations=40", *options, *arguments]
    returncode, output = run([*command, f"--junit-xml={report}"], cell.folder, log, TESTS_WITHIN_S)
    cases: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
    for case in ElementTree.parse(report).iter("testcase") if report.is_file() else ():
        kinds = {child.tag for child in case}
        kind = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        cases[kind].add(f"{case.get('classname')}::{case.get('name')}")
    if returncode != 0 and not cases["failed"]:
        cases["failed"].add((output.strip().splitlines() or ["no output"])[-1])
    return cases["passed"] - cases["failed"], sorted(cases["failed"]), len(cases["skipped"])


def run(command: list[str], folder: Path, log: Path, within_s: float, **variables: str) -> tuple[int, str]:
    """Runs a command as in a new shell of this user; its exit status and output, which goes into a log, too."""
    activated = ("VIRTUAL_ENV", "PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE")
    environment = {name: value for name, value in os.environ.items() if name not in activated}
    with log.open("a", encoding="utf-8") as file:
        start = file.tell()
        try:
            options = {"cwd": folder, "env": {**environment, "OMP_NUM_THREADS": "1", **variables}, "timeout": within_s}
            pipes = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": subprocess.STDOUT}
            returncode = subprocess.run(command, **options, **pipes).returncode
        except subprocess.TimeoutExpired:
            file.write(f"\nset-up: not done within {within_s:g} s\n")
            returncode = 124
    return returncode, log.read_bytes()[start:].decode("utf-8", errors="replace")


def checkout_files() -> list[str]:
    """Names of the files of this checkout that are not ignored, links among them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted(name for name in names if name and os.path.lexists(ROOT / name))


def hashed_content(file: Path) -> str:
    """A hash of a file, or where a link leads."""
    return os.readlink(file) if file.is_symlink() else hashed([file.read_bytes().hex()])


def commit() -> str:
    """The commit of this checkout, in short; with a plus where there are changes that count and it does not have."""
    head = ["git", "rev-parse", "--short", "HEAD"]
    name = subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    changes = ["git", "diff", "--quiet", "HEAD", "--", ".", ":!docs"]
    return name + ("+" if subprocess.run(changes, cwd=ROOT, check=False).returncode else "")

"""One cell of the matrix: a copy of the checkout, set up with one ROS 2, one Python and one torch, and tested."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import set_up
from files import hashed

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "matrix"
PINS = Path("requirements/python.txt")
CONSTRAINTS = Path("requirements/transitive.txt")
NOT_INPUTS = ("docs/", "benchmarks/", "soak/", "examples/", ".ci/")
"""Folders on which no result of a cell depends; nor does it on pages."""
TESTS = (
    "test/maps",
    "test/kernels/test_native.py",
    "test/kernels/test_operators_autograd.py",
    "test/engine/test_integrator.py",
    "test/wire",
    "test/node/test_lifecycle.py",
    "test/node/test_services.py",
    "test/node/test_parameters.py",
    "test/node/test_faults.py",
    "test/node/test_clock.py",
    "test/node/test_rclpy_features.py",
)
"""What shows a release's, a Python's or a torch's own: operators and their gradients, messages, a node's whole life."""
TESTS_WITHIN_S = 900
SET_UP_WITHIN_S = 3600


@dataclass(frozen=True)
class Cell:
    """What is combined: a release of ROS 2, a Python (its path) and a torch, as a word and as a version."""

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


@dataclass
class Result:
    """What came of a cell, as it is kept."""

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
    skipped: int = 0
    message: str = ""
    """Why there was no set-up."""
    set_up_s: int = 0
    tests_s: int = 0


def inputs_of(cell: Cell) -> str:
    """A hash of all that decides the result of a cell."""
    files = [ROOT / name for name in checkout_files() if not name.startswith(NOT_INPUTS) and not name.endswith(".md")]
    contents = [part for file in files for part in (str(file.relative_to(ROOT)), hashed_content(file))]
    return hashed([cell.name, cell.torch_version, *contents])


def run_cell(cell: Cell) -> Result:
    """Sets a cell up in its folder and tests it there."""
    result = Result(cell.name, inputs_of(cell), datetime.date.today().isoformat(), commit())
    copy_checkout(cell)
    begun = time.monotonic()
    command = [cell.python, "scripts/set_up.py", "--wheels", cell.distro, "--python-is-given"]
    returncode, output = run(command, cell.folder, cell.folder / "build" / "matrix-set-up.log", SET_UP_WITHIN_S)
    result.set_up_s = round(time.monotonic() - begun)
    if returncode == 0:
        test(cell, result)
    else:
        errors = [line for line in output.splitlines() if line.startswith("set-up: ")]
        result.outcome, result.message = "no set-up", (errors or output.splitlines() or ["no output"])[-1]
    logs = FOLDER / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for log in (*(cell.folder / "build").glob("*.log"), *(cell.folder / "build" / "set-up").glob("*.log")):
        shutil.copy(log, logs / f"{cell.name}-{log.name}")
    return result


def copy_checkout(cell: Cell) -> None:
    """Copies what git knows or would know of, with the pin of torch replaced by the cell's."""
    for name in checkout_files():
        source, target = ROOT / name, cell.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (target.is_symlink() or target.is_file()) or hashed_content(source) != hashed_content(target):
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
    """Runs the tests of a cell in its environment and takes down what came of them."""
    venv = cell.folder / (".venv" if cell.distro == set_up.DISTROS[0] else f".venv-{cell.distro}")
    report = cell.folder / "build" / "matrix-tests.xml"
    report.unlink(missing_ok=True)
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", f"--junit-xml={report}")
    begun = time.monotonic()
    command = [str(venv / "bin" / "python"), "-m", "pytest", *options, *TESTS]
    returncode, output = run(command, cell.folder, cell.folder / "build" / "matrix-tests.log", TESTS_WITHIN_S)
    result.tests_s = round(time.monotonic() - begun)
    if report.is_file():
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            if kinds & {"failure", "error"}:
                result.failed.append(f"{case.get('classname')}::{case.get('name')}")
            elif "skipped" in kinds:
                result.skipped += 1
            else:
                result.passed += 1
    else:
        result.failed.append((output.strip().splitlines() or ["no output"])[-1])
    result.outcome = "passed" if returncode == 0 and result.passed else "failed"
    listed = (venv / "lib" / f"python{cell.python_version}" / "site-packages").glob("*.dist-info")
    known = dict(path.name.removesuffix(".dist-info").split("-", 1) for path in listed)
    result.versions = {name: known[name] for name in ("torch", "triton", "numpy", "ros_rclpy") if name in known}


def run(command: list[str], folder: Path, log: Path, within_s: float) -> tuple[int, str]:
    """Runs a command as in a new shell of this user; its exit status and output, which goes into a log, too."""
    activated = ("VIRTUAL_ENV", "PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE")
    environment = {name: value for name, value in os.environ.items() if name not in activated}
    with log.open("w", encoding="utf-8") as file:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**environment, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=within_s,
                check=False,
            )
            returncode = done.returncode
        except subprocess.TimeoutExpired:
            file.write(f"\nset-up: not done within {within_s:g} s\n")
            returncode = 124
    return returncode, log.read_text(encoding="utf-8", errors="replace")


def checkout_files() -> list[str]:
    """Names of the files of this checkout that are not ignored, links among them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted(name for name in names if name and os.path.lexists(ROOT / name))


def hashed_content(file: Path) -> str:
    """A hash of a file, or where a link leads."""
    return os.readlink(file) if file.is_symlink() else hashed([file.read_bytes().hex()])


def commit() -> str:
    """The commit of this checkout, in short; with a plus where there are changes that it does not have."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

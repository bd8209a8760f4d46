"""Tests this commit on every combination of ROS 2, Python and torch that this machine can have: `make matrix`.

The torches are the oldest that setup.py takes, the one pinned in requirements/ and the newest that pip finds; cells
called lerobot have LeRobot, the torch that it wants, and the package of examples/lerobot. Each combination is set up
in a clone in build/matrix/, tested with a part of the tests, and removed. It prints a line for each, for the table in
docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import set_up_machine

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "matrix"
PINS, CONSTRAINTS = Path("requirements/python.txt"), Path("requirements/transitive.txt")
COMPILED = ("kernels/*/*.abi3.so", "traj_integrator_ros/execution/*.abi3.so", "build/native/built")
LEROBOT = "lerobot"
LEROBOT_PINS, LEROBOT_PYTHONS = Path("requirements/lerobot.txt"), ("3.12", "3.13")
TORCHES = ("pinned", "oldest", "newest", LEROBOT)
"""Torches in the order of their importance."""
PYTHONS = ("3.12", "3.10", "3.11", "3.13", "3.14")
TESTS = (
    "test/maps/test_exact_motions.py",
    "test/kernels/test_native.py",
    "test/kernels/test_reference.py",
    "test/kernels/test_operators_autograd.py",
    "test/kernels/test_public_functions.py::test_opcheck_passes_for_every_operator",
    "test/kernels/test_public_functions.py::test_compiles_as_one_graph_with_its_gradients_and_once_for_two_batches",
    "test/kernels/test_public_functions.py::test_exports_and_survives_saving",
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
LEROBOT_TESTS = ("test/examples",)
"""Tests of a cell with LeRobot: its command lines on the arm of the rig, among others."""
WITHIN_S, TEST_WITHIN_S = 7200, 900
"""Longest times, s, of a cell and of one test: generous, since other work may stop a run for minutes."""
_ACTIVATED = "VIRTUAL_ENV", "PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
NEW_SHELL = "env", *(f"--unset={name}" for name in _ACTIVATED)
"""Runs a command as in a new shell: with the ROS 2 of an activated environment, other Pythons would not do."""


class Cell(NamedTuple):
    """A combination: a release of ROS 2, a Python (its path) and a torch, as a word and as a version."""

    distro: str
    python: str
    torch: str
    torch_version: str
    name: str

    @property
    def folder(self) -> Path:
        """Where the clone is while the cell is at work."""
        return FOLDER / self.name

    def run(self, *command: object) -> tuple[bool, str]:
        """Runs a command here as in a new shell, output in a log; returns whether it failed, and its last line."""
        clean = [*NEW_SHELL, "OMP_NUM_THREADS=1", "TRAJ_INTEGRATOR_NATIVE=1"]
        log = FOLDER / "logs" / f"{self.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a+b") as file:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
            limited = [*clean, "timeout", str(WITHIN_S), *map(str, command)]
            code = subprocess.run(limited, cwd=self.folder, **pipes).returncode
        return code != 0, (log.read_text(errors="replace").split("\n")[-2:] or [""])[0]


def main() -> int:
    """Runs the cells; the exit status says whether any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", default=["*"], help="names or patterns: jazzy-3.12-pinned, kilted-*")
    parser.add_argument("--list", action="store_true", help="say what there is, and do nothing")
    options = parser.parse_args()
    every = all_cells()
    cells = list(dict.fromkeys(cell for name in options.only for cell in every if fnmatch.fnmatch(cell.name, name)))
    if not cells:
        sys.stderr.write(f"matrix: no combination on this machine is called {' or '.join(options.only)}\n")
        return 2
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    failed = False
    for cell in cells:
        print(f"{cell.name} (torch {cell.torch_version})", end="\n" if options.list else ": ", flush=True)
        if not options.list:
            fails, told = run_cell(cell)
            failed |= fails
            print(f"{'FAILED' if fails else 'passed'}, {told} ({datetime.date.today()}, {commit})", flush=True)
    return int(failed)


def all_cells() -> list[Cell]:
    """Every combination possible on this machine, the most important first."""
    pythons = {version: path for version in PYTHONS if (path := suitable_python(version))}
    pins = {"pinned": (PINS, r"^torch==(\S+)"), LEROBOT: (LEROBOT_PINS, r"^torch==(\S+)"),
            "oldest": (Path("setup.py"), r'"torch>=([\d.]+)"')}  # fmt: skip
    torches = {
        word: re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)[1]
        for word, (file, pattern) in pins.items()
    }
    return [
        Cell(distro, python, torch, torches.get(torch) or newest_torch(python), f"{distro}-{version}-{torch}")
        for torch in TORCHES
        for version, python in pythons.items()
        if torch != LEROBOT or version in LEROBOT_PYTHONS
        for distro in reversed(set_up_machine.DISTROS)  # the default's own pins are tested in every run
    ]


def suitable_python(version: str) -> str:
    """Path of an interpreter of a version that set-up takes: pyenv's, or on the PATH; empty if there is none."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for path in filter(None, (*map(str, installed), shutil.which(f"python{version}"))):
        command = [*NEW_SHELL, path, str(ROOT / "scripts" / "set_up.py"), "--check"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return path
    return ""


@cache
def newest_torch(python: str) -> str:
    """The newest torch that pip finds for a Python; the word newest if it finds none."""
    command = [python, "-m", "pip", "index", "versions", "torch", "--disable-pip-version-check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    match = re.search(r"torch \(([\d.]+)", found)
    return match[1] if match else "newest"


def run_cell(cell: Cell) -> tuple[bool, str]:
    """Sets a cell up in its folder, tests it, and removes it; says whether it failed."""
    clone(cell)
    # Without the C++ kernels half of the tests would be skipped, and the cell would pass.
    failed, told = cell.run(cell.python, "scripts/set_up.py", "--wheels", cell.distro, "--python-is-given")
    python, tests = cell.folder / Path(set_up_machine.environment_of(cell.distro)).name / "bin" / "python", TESTS
    if not failed and cell.torch == LEROBOT:
        tests, wanted = LEROBOT_TESTS, ("-r", LEROBOT_PINS, "./examples/lerobot[scripts,async]")
        failed, told = cell.run(python, "-m", "pip", "install", "--quiet", *wanted)
    if not failed:
        pytest = (python, "-m", "pytest", "-q", "--thorough", f"--timeout={TEST_WITHIN_S}")
        failed, told = cell.run(*pytest, "-n", 2, "--dist", "loadfile", *tests)
    shutil.rmtree(cell.folder)
    return failed, told


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
    text = re.sub(r"^setuptools==\S+", "setuptools", text, flags=re.MULTILINE)
    pins.write_text(re.sub(r"^torch==\S+", f"torch=={cell.torch_version}", text, flags=re.MULTILINE), encoding="utf-8")
    lines = constraints.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.startswith("#") or not re.search(r"# by .*\btorch\b", line)]
    constraints.write_text("".join(kept), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

"""Measure the power of the tests: seed one fault after the other, and see whether the tests of its room notice it.

    python test/seeded_faults.py [--only WORD] [--tests FILE ...] [--green]

The faults are data, test/seeded_faults.txt: a file, and for each fault its name, a line's text and what replaces it.
They are seeded in a copy of the sources. The exit code is 1 if a fault is not noticed, or cannot be seeded any more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MODULES = {
    "kernels/native": ["_loops"],
    "kernels/retime": ["_native", "kernels/native/src/instruction_set.cpp", "kernels/native/src/parallel.cpp"],
    "traj_integrator_ros/execution": ["_native", "kernels/retime/src/polynomials.cpp"],
}
"""Modules in C++ by the folder that has their `src/`: name, and what else they need (NATIVE_PARTS in setup.py)."""


class Fault(NamedTuple):
    """One fault, and the tests that must notice it."""

    tests: list[str]
    file: str
    name: str
    old: str
    new: str


def faults(text: str) -> Iterator[Fault]:
    """Read the table: `tests: ...`, `[file]`, and `# name`, `- old`, `+ new` for each fault."""
    tests, file, name, old = [], "", "", ""
    for line in text.splitlines():
        mark, rest = line[:2], line[2:]
        if line.startswith("tests: "):
            tests = line.split()[1:]
        elif line.startswith("["):
            file = line.strip("[]")
        elif mark == "# ":
            name = rest
        elif mark == "- ":
            old = rest
        elif mark == "+ " or line == "+":
            yield Fault(tests, file, name, *(one.replace("\\n", "\n") for one in (old, rest)))


def copied(folder: Path) -> Path:
    """Copy the sources, and modules compiled in place."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rooms = (ROOT / "kernels", ROOT / "traj_integrator_ros")
    compiled = [str(path.relative_to(ROOT)) for room in rooms for path in room.glob("**/*.so")]
    for name in [*tracked.splitlines(), *compiled]:
        source, target = ROOT / name, folder / name
        if source.exists() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    (folder.parent / "shared").symlink_to(ROOT.parent / "shared")  # without its models, tests of an arm are skipped
    return folder


def module_of(file: str) -> str | None:
    """The folder of the module in C++ of which a file is a source."""
    return next((room for room in MODULES if file.startswith(f"{room}/src/")), None)


def forget(objects: Path, file: str) -> None:
    """Remove the objects of a changed source: all of the module, where others include it."""
    for old in objects.glob(f"{Path(file).stem}.o" if file.endswith(".cpp") else "*.o"):
        old.unlink()


def compile_native(root: Path, room: str, objects: Path) -> None:
    """Compile the missing objects of a module, as fast as can be."""
    name, *others = MODULES[room]
    kernels = root / "kernels" / "native"
    include = [f"-I{folder}" for folder in (kernels / "include", kernels / "src", sysconfig.get_path("include"))]
    options = ["-O0", "-std=c++20", "-ffp-contract=off", "-fPIC", "-DPy_LIMITED_API=0x030A0000", *include]
    sources = [*sorted((root / room / "src").glob("*.cpp")), *(root / other for other in others)]
    targets = {source: objects / f"{source.stem}.o" for source in sources}
    missing = [source for source, target in targets.items() if not target.exists()]
    with ThreadPoolExecutor(2) as threads:
        commands = [["c++", *options, "-c", str(source), "-o", str(targets[source])] for source in missing]
        list(threads.map(lambda command: subprocess.run(command, check=True), commands))
    if missing:
        module = root / room / f"{name}.abi3.so"
        module.unlink(missing_ok=True)  # a module that a process has open must not change
        subprocess.run(["c++", "-shared", "-pthread", *map(str, targets.values()), "-o", str(module)], check=True)


def run(root: Path, tests: list[str], log: Path) -> int:
    """Run tests in a fork of this process, which has imported torch and pytest, and nothing of this project."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1), os.dup2(output, 2)
        os.chdir(root)
        sys.path.insert(0, str(root))
        sys.dont_write_bytecode = True
        os.environ.update(PYTHONPATH=str(root), PYTHONDONTWRITEBYTECODE="1")
        os.environ["HYPOTHESIS_PROFILE"] = "first failure"  # shrinking it takes longer than all the rest
        if any("triton" in test for test in tests):
            os.environ.update(TRITON_INTERPRET="1", TRITON_CHECKS_DEVICE="cpu")
        import pytest

        options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout=900", "-W", "ignore"]
        # One file after the other: pytest would put them into an order of its own.
        code = next((code for test in tests if (code := int(pytest.main([*options, test])))), 0)
    except BaseException:
        code = 3
    finally:
        os._exit(code)


def main() -> int:
    """Seed the faults; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="faults with this word in file or name")
    parser.add_argument("--tests", nargs="+", help="run these instead of the tests in the table")
    parser.add_argument("--green", action="store_true", help="the tests are known to pass without a fault")
    arguments = parser.parse_args()
    import hypothesis  # noqa: F401
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import torch  # noqa: F401

    table = list(faults((ROOT / "test" / "seeded_faults.txt").read_text(encoding="utf-8")))
    chosen = [fault for fault in table if arguments.only in f"{fault.file} {fault.name}"]
    noticed, passing, built = 0, set(), set()
    with tempfile.TemporaryDirectory() as folder:
        root = copied(Path(folder) / "sources")
        log, objects = Path(folder) / "log", {room: Path(folder) / "objects" / room for room in MODULES}
        for place in objects.values():
            place.mkdir(parents=True)
        for fault in chosen:
            tests = arguments.tests or fault.tests
            file = root / fault.file
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            if text.count(fault.old) != 1:
                print(f"STALE   {fault.file}: {fault.name}: its text is not there once", flush=True)
                continue
            native, is_green = module_of(fault.file), arguments.green or tuple(tests) in passing
            for room, place in objects.items():
                if room in built and not (native == room and is_green):
                    compile_native(root, room, place)
            if not is_green:
                if run(root, tests, log):
                    print(log.read_text()[-3000:], "they fail without a fault:", *tests, sep="\n", file=sys.stderr)
                    return 2
                passing.add(tuple(tests))
            file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
            if native:
                built.add(native)
                forget(objects[native], fault.file)
                compile_native(root, native, objects[native])
            begin = time.monotonic()
            code = run(root, tests, log)
            file.write_text(text, encoding="utf-8")
            if native:
                forget(objects[native], fault.file)
            noticed += code != 0
            by = [line.split()[1] for line in log.read_text().splitlines() if line.startswith(("FAILED", "ERROR "))][:1]
            word = "noticed " if code else "MISSED  "
            print(f"{word} {fault.file}: {fault.name} ({time.monotonic() - begin:.0f} s) {' '.join(by)}", flush=True)
    print(f"{noticed} of {len(chosen)} faults noticed")
    return 0 if noticed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Measure the power of the tests: change the code at random places, and see whether the tests of its room notice it.

    python test/mutants.py [--only WORD] [--count 100] [--seed 0] [--tests FILE ...]

Changes one operator, comparison, number or word of the code at a time, in a copy of the sources. The same seed and
count choose the same places in the same code. Prints what no test noticed; a person decides whether a user would feel
it.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tokenize
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {
    "kernels/native/src/*": ["test/kernels/test_native.py", "test/maps", "test/kernels/test_operators_autograd.py",
                             "test/kernels/test_quadratic_cost.py"],
    "kernels/triton/*": ["test/kernels/triton_checks.py"],
    "kernels/dropin/*": ["test/kernels/test_integration_utils_buffers.py", "test/kernels/test_integration_utils.py"],
    "kernels/retime/*": ["test/retime"],
    "kernels/*": ["test/kernels/test_operators_derivatives.py", "test/kernels/test_operators_autograd.py",
                  "test/kernels/test_reference.py", "test/kernels/test_errors.py",
                  "test/kernels/test_quadratic_cost.py", "test/kernels/test_public_functions.py",
                  "test/kernels/test_divided_differences.py", "test/maps"],
    "traj_integrator_ros/engine/*": ["test/engine"],
    "traj_integrator_ros/wire/*": ["test/wire"],
    "traj_integrator_ros/execution/*": ["test/execution", "test/governor"],
    "traj_integrator_ros/limits/*": ["test/limits"],
    "traj_integrator_ros/parameters/*": ["test/node/test_parameters.py", "test/limits"],
    "traj_integrator_ros/requests/*": ["test/requests", "test/robustness/test_hostile_messages.py"],
    "traj_integrator_ros/governor/*": ["test/governor", "test/execution/test_splice.py",
                                       "test/requests/test_turning.py", "test/requests/test_position_trajectory.py"],
    "traj_integrator_ros/node/*": ["test/node/test_what_an_arm_is_commanded.py", "test/node/test_topics.py",
                                   "test/node/test_services.py", "test/node/test_lifecycle.py",
                                   "test/node/test_two_outputs.py"],
    "traj_integrator_ros/motions/*": ["test/motions"],
    "traj_integrator_ros/tools/*": ["test/tools/test_checker.py", "test/tools/test_monitor.py",
                                    "test/tools/test_drawing.py", "test/tools/test_integrate.py",
                                    "test/tools/test_inputs.py"],
    "traj_integrator_ros/demo/*": ["test/demo"],
    "traj_integrator_ros/client/*": ["test/client", "test/node/test_services.py"],
}  # fmt: skip
"""Tests that must notice errors in files; the first matching pattern counts."""
SOURCES = (".py", ".cpp", ".h", ".inc")
CHANGES = {
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "**": "*", "+=": "-=", "-=": "+=", "*=": "/=",
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "and": "or", "or": "and", "is": "is not", "not": "", "!": "", "True": "False", "False": "True", "true": "false",
    "false": "true", "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any",
    "sin": "cos", "floor": "ceil", "ceil": "floor", "break": "continue", "continue": "break",
}  # fmt: skip
"""Replacements of tokens; a whole number becomes the next one, any other number is doubled, and 0.0 becomes 1.0."""
NUMBER = r"\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+"
MODULES = {
    "kernels/native": ["_loops"],
    "kernels/retime": [
        "_native",
        "kernels/native/src/instruction_set.cpp",
        "kernels/native/src/parallel.cpp",
        "kernels/native/src/shared/polynomials.cpp",
    ],
    "traj_integrator_ros/execution": ["_native", "kernels/native/src/shared/polynomials.cpp"],
}
"""Modules in C++ by the folder of their `src/`: name, and the other sources they need (NATIVE_PARTS in setup.py)."""


class Mutant(NamedTuple):
    """A token of a file, and its replacement."""

    file: str
    line: int
    begin: int
    old: str
    new: str

    def applied(self, text: str) -> str:
        """The text of the file with the change."""
        lines = text.splitlines(keepends=True)
        line = lines[self.line - 1]
        assert line[self.begin :].startswith(self.old), f"{self}: expected it there, got {line!r}"
        lines[self.line - 1] = line[: self.begin] + self.new + line[self.begin + len(self.old) :]
        return "".join(lines)


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """All possible changes of a file."""
    for line, begin, token in tokens_of_python(text) if file.endswith(".py") else tokens_of_cpp(text):
        code = text.splitlines()[line - 1]
        around = text_around(code, begin, token)
        if code.startswith("is not ", begin):
            continue  # its "not" is one of the changes
        if token in CHANGES:
            # Without spaces around it, the token is a sign, an argument, a pointer or a template.
            if token.isalpha() or around == "  " or token in ("**", "!"):
                yield Mutant(file, line, begin, token, CHANGES[token])
        elif re.fullmatch(r"\d+", token):
            yield Mutant(file, line, begin, token, str(int(token) + 1))
        elif re.fullmatch(NUMBER, token):
            yield Mutant(file, line, begin, token, f"(2 * {token})" if float(token) else "1.0")


def text_around(line: str, begin: int, token: str) -> str:
    """The characters before and after a token."""
    return line[begin - 1 : begin] + line[begin + len(token) : begin + len(token) + 1]


def tokens_of_python(text: str) -> Iterator[tuple[int, int, str]]:
    """Line, column and text of each token that computes, without comments, strings, imports and declarations."""
    declared = re.compile(r"\s*(from|import|@|def|class|\w+: [^=]*$)|.*\) -> ")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.OP, tokenize.NUMBER, tokenize.NAME) and not declared.match(token.line):
            yield *token.start, token.string


def tokens_of_cpp(text: str) -> Iterator[tuple[int, int, str]]:
    """The same tokens of C++."""
    words = re.compile(rf"[A-Za-z_]\w*|{NUMBER}|\d+|[-+*/%&|<>=!]+|\S")
    declared = re.compile(r"\s*(#|template|using|struct|class|namespace|static_assert)")
    for number, line in enumerate(text.splitlines(), 1):
        code = re.sub(r'"[^"]*"', lambda quoted: " " * len(quoted[0]), line.split("//")[0])
        if not declared.match(code):
            yield from ((number, word.start(), word[0]) for word in words.finditer(code))


def chosen(only: str, count: int, seed: int) -> list[Mutant]:
    """A sample of all possible changes, in the order of the files."""
    files = [name for name in tracked() if name.endswith(SOURCES) and only in name and tests_of(name)]
    every = [mutant for name in files for mutant in mutants(name, (ROOT / name).read_text(encoding="utf-8"))]
    return sorted(random.Random(seed).sample(every, min(count, len(every))))


def tests_of(file: str) -> list[str]:
    """The tests of a file's room."""
    return next((tests for pattern, tests in ROOMS.items() if fnmatch(file, pattern)), [])


def tracked() -> list[str]:
    """The files of the project."""
    return subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def copied(folder: Path) -> Path:
    """Copy the sources, and modules compiled in place."""
    rooms = (ROOT / "kernels", ROOT / "traj_integrator_ros")
    compiled = [str(path.relative_to(ROOT)) for room in rooms for path in room.glob("**/*.so")]
    for name in [*tracked(), *compiled]:
        source, target = ROOT / name, folder / name
        if source.exists() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    (folder.parent / "shared").symlink_to(ROOT.parent / "shared")  # tests of an arm are skipped without its models
    return folder


def module_of(file: str) -> str | None:
    """The folder of the C++ module that a source file belongs to."""
    return next((room for room in MODULES if file.startswith(f"{room}/src/")), None)


def forget(objects: Path, file: str) -> None:
    """Remove the objects of a changed source: all objects of the module if other files include it."""
    for old in objects.glob(f"{Path(file).stem}.o" if file.endswith(".cpp") else "*.o"):
        old.unlink()


def compile_native(root: Path, room: str, objects: Path) -> None:
    """Compile the missing objects of a module, as fast as possible."""
    name, *others = MODULES[room]
    kernels = root / "kernels" / "native"
    headers = kernels / "include", kernels / "src", kernels / "src" / "shared", sysconfig.get_path("include")
    include = [f"-I{folder}" for folder in headers]
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
    """Run tests in a fork of this process, which has imported torch and pytest, but nothing of this project."""
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
        os.environ["HYPOTHESIS_PROFILE"] = "first failure"  # shrinking an example takes longer than everything else
        if any("triton" in test for test in tests):
            os.environ.update(TRITON_CHECKS_DEVICE="cpu", TRITON_CACHE_DIR=str(root / "build" / "ptx"))
        import pytest

        options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout=900", "-W", "ignore"]
        # One file after the other: pytest would reorder them.
        code = next((code for test in tests if (code := int(pytest.main([*options, test])))), 0)
    except BaseException:
        code = 3
    finally:
        os._exit(code)


def main() -> int:
    """Print the changes that no test noticed; returns 1 if the tests fail without a change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="files with this word in their path")
    parser.add_argument("--count", type=int, default=100, help="of changes")
    parser.add_argument("--seed", type=int, default=0, help="of the choice")
    parser.add_argument("--tests", nargs="+", help="run these instead of the tests of the room")
    arguments = parser.parse_args()
    import hypothesis  # noqa: F401
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import torch  # noqa: F401

    sample = chosen(arguments.only, arguments.count, arguments.seed)
    noticed, passing = 0, set()
    with tempfile.TemporaryDirectory() as folder:
        root = copied(Path(folder) / "sources")
        log, objects = Path(folder) / "log", {room: Path(folder) / "objects" / room for room in MODULES}
        for place in objects.values():
            place.mkdir(parents=True)
        for mutant in sample:
            tests = arguments.tests or tests_of(mutant.file)
            native = module_of(mutant.file)
            if native:
                compile_native(root, native, objects[native])
            if (*tests, native) not in passing:
                if run(root, tests, log):
                    print(log.read_text()[-3000:], "they fail without a change:", *tests, sep="\n", file=sys.stderr)
                    return 1
                passing.add((*tests, native))
            file = root / mutant.file
            text = file.read_text(encoding="utf-8")
            begin = time.monotonic()
            file.write_text(mutant.applied(text), encoding="utf-8")
            try:
                if native:
                    forget(objects[native], mutant.file)
                    compile_native(root, native, objects[native])
                code = run(root, tests, log)
            except subprocess.CalledProcessError:
                code = 1  # the change does not compile
            file.write_text(text, encoding="utf-8")
            if native:
                forget(objects[native], mutant.file)
                compile_native(root, native, objects[native])
            noticed += code != 0
            by = [line.split()[1] for line in log.read_text().splitlines() if line.startswith(("FAILED", "ERROR "))][:1]
            line = text.splitlines()[mutant.line - 1].strip()
            word = "noticed" if code else "MISSED "
            change = f"{mutant.old} -> {mutant.new or 'nothing'} in {line}"
            print(f"{word} {mutant.file}:{mutant.line}: {change} ({time.monotonic() - begin:.0f} s)", *by, flush=True)
    print(f"{noticed} of {len(sample)} changes noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

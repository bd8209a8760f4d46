"""Takes packages over from another environment of this checkout instead of downloading and unpacking them again.

The files are hard links: they take no room, and whatever pip does to one environment leaves the other as it is.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path


def borrow_packages(lender: Path, borrower: Path, site_packages: Path, requirements: Iterable[Path]) -> None:
    """Links the packages that requirements name, and what these require, into another environment of the same Python.

    Args:
        lender: a virtual environment.
        borrower: another one, on the same file system.
        site_packages: where both have their modules, below them.
        requirements: requirements files of pip; pip checks the versions afterwards.

    """
    there = {normalized(path.name.partition("-")[0]): path for path in (lender / site_packages).glob("*.dist-info")}
    wanted = {name for file in requirements for name in required(file)} & there.keys()
    found = wanted
    while found:
        found = {name for known in found for name in required_by(there[known])} & there.keys() - wanted
        wanted = wanted | found
    for name in sorted(wanted):
        link_package(there[name], lender, borrower, borrower / site_packages)


def borrow_libraries(lender: Path, borrower: Path, site_packages: Path) -> None:
    """Links the packages that hold compiled libraries but nothing of a Python's, from an environment of any Python.

    Args:
        lender: a virtual environment.
        borrower: another one, on the same file system.
        site_packages: where the borrower has its modules, below it; pip checks the versions afterwards.

    """
    for metadata in lender.glob("lib/python3*/site-packages/*.dist-info"):
        tags = re.findall(r"^Tag: (\S+)", (metadata / "WHEEL").read_text(encoding="utf-8"), re.MULTILINE)
        libraries = tags and all(re.match(r"(py2\.)?py3-none-(?!any)", tag) for tag in tags)
        if libraries and not any(name.startswith("..") for name in recorded_files(metadata)):
            link_package(metadata, lender, borrower, borrower / site_packages)


def link_package(metadata: Path, lender: Path, borrower: Path, site_packages: Path) -> None:
    """Links all files of a package that the borrower does not have yet into its site-packages."""
    if (site_packages / metadata.name).exists():
        return
    for name in recorded_files(metadata):
        source = Path(os.path.normpath(metadata.parent / name))
        if source.is_file():
            target = Path(os.path.normpath(site_packages / name))
            target.parent.mkdir(parents=True, exist_ok=True)
            take_over(source, target, lender, borrower)


def is_complete(venv: Path, python: str) -> bool:
    """Whether an environment has all its packages and is of this Python."""
    made_with, packages = venv / ".set-up" / "python", venv / ".set-up" / "packages"
    return packages.is_file() and made_with.read_text(encoding="utf-8") == python


def take_over(source: Path, target: Path, lender: Path, borrower: Path) -> None:
    """Links a file; a script that names the interpreter of the one environment is rewritten for the other."""
    target.unlink(missing_ok=True)
    mark = f"#!{lender}/bin/".encode()
    if source.parent == lender / "bin" and source.read_bytes().startswith(mark):
        script = source.read_bytes()
        target.write_bytes(f"#!{borrower}/bin/".encode() + script[len(mark) :])
        shutil.copymode(source, target)
    else:
        os.link(source, target)


def required(file: Path) -> Iterator[str]:
    """The names of the packages in a requirements file."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"[A-Za-z0-9._-]+", line):
            yield normalized(match[0])


def required_by(metadata: Path) -> Iterator[str]:
    """The names of the packages that an installed package requires, whatever for."""
    text = (metadata / "METADATA").read_text(encoding="utf-8", errors="replace")
    return (normalized(name) for name in re.findall(r"^Requires-Dist: ([A-Za-z0-9._-]+)", text, re.MULTILINE))


def recorded_files(metadata: Path) -> Iterator[str]:
    """The files of an installed package, relative to where modules are; the package's own record comes last.

    So an interruption leaves no package that looks whole.
    """
    lines = (metadata / "RECORD").read_text(encoding="utf-8").splitlines()
    names = [line.rsplit(",", 2)[0].strip('"') for line in lines]
    return iter(sorted(names, key=lambda name: name.startswith(metadata.name)))


def normalized(name: str) -> str:
    """A package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()

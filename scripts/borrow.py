"""Takes packages over from another environment of this checkout instead of downloading and unpacking them again.

The files are hard links: they take no room, and whatever pip does to one environment leaves the other as it is.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path


def borrow(lender: Path, site_packages: Path, is_wanted: Callable[[Path], bool]) -> None:
    """Links packages, all files of each, into another environment; pip checks the versions afterwards.

    Args:
        lender: a virtual environment.
        site_packages: where another one, on the same file system, has its modules; what is there already stays.
        is_wanted: whether a package is, by its folder of metadata.

    """
    borrower = site_packages.parents[2]
    for metadata in lender.glob("lib/python3*/site-packages/*.dist-info"):
        if (site_packages / metadata.name).exists() or not is_wanted(metadata):
            continue
        for name in recorded_files(metadata):
            source, target = (Path(os.path.normpath(place / name)) for place in (metadata.parent, site_packages))
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                take_over(source, target, lender, borrower)


def is_not_pinned_in(files: Iterable[Path]) -> Callable[[Path], bool]:
    """Wants what is in none of these requirements files, nor installed from a checkout."""
    lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    left_out = {normalized(match[0]) for line in lines if (match := re.match(r"[A-Za-z0-9._-]+", line))}

    def is_wanted(metadata: Path) -> bool:
        is_editable = (metadata / "direct_url.json").is_file()
        return not is_editable and normalized(metadata.name.partition("-")[0]) not in left_out

    return is_wanted


def is_of_any_python(metadata: Path) -> bool:
    """Wants compiled libraries that have nothing of a Python's, and no command."""
    tags = re.findall(r"^Tag: (\S+)", (metadata / "WHEEL").read_text(encoding="utf-8"), re.MULTILINE)
    libraries = tags and all(re.match(r"(py2\.)?py3-none-(?!any)", tag) for tag in tags)
    return bool(libraries) and not any(name.startswith("..") for name in recorded_files(metadata))


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


def recorded_files(metadata: Path) -> list[str]:
    """The files of an installed package, relative to where modules are; the package's own record comes last.

    So an interruption leaves no package that looks whole. Empty if there is no record.
    """
    record = metadata / "RECORD"
    lines = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
    names = (line.rsplit(",", 2)[0].strip('"') for line in lines)
    return sorted(names, key=lambda name: name.startswith(metadata.name))


def normalized(name: str) -> str:
    """A package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()

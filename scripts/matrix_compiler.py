"""Compilers for the cells of the matrix: quick ones, for what a cell shows does not depend on optimization.

They leave optimization out, as the tests do where they compile the kernels: nothing contracts, so the numbers are the
same. Where there is ccache, it serves what does not depend on a Python or a release from cells before: the compilers
call a copy of the checkout and its Python's modules by the same names in every cell, and leave out what a Python says
about its own code.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

LEFT_OUT = ("-O[1-3]", "-g", "-fwrapv", "-fno-strict-overflow", "-fno-strict-aliasing")
SCRIPT = """#!/bin/sh
# {command} without optimization, and with names that are the same in every cell.
for word do
  shift
  case "$word" in
    {left_out}) continue ;;
    -I*/site-packages/*) word="-I{names}/site-packages/${{word#*/site-packages/}}" ;;
    -I{checkout}/*) word="-I{names}/checkout/${{word#-I{checkout}/}}" ;;
    {checkout}/*.cpp) word="{names}/checkout/${{word#{checkout}/}}" ;;
  esac
  set -- "$@" "$word"
done
exec {command} "$@"
"""


def compilers(checkout: Path, site_packages: Path) -> dict[str, str]:
    """Makes the compilers for a cell; returns the environment variables that name them.

    Args:
        checkout: the copy in which the cell is.
        site_packages: where its Python has torch; it need not be there yet.

    """
    names, folder = checkout.parent / "names", checkout / "build" / "compilers"
    for path in (names, folder):
        path.mkdir(parents=True, exist_ok=True)
    for name, target in (("checkout", checkout), ("site-packages", site_packages)):
        (names / name).unlink(missing_ok=True)
        (names / name).symlink_to(target)
    variables = {}
    for variable, default in (("CC", "cc"), ("CXX", "c++")):
        command = os.environ.get(variable, default)
        command = f"ccache {command}" if shutil.which("ccache") else command
        script = folder / variable.lower()
        text = SCRIPT.format(command=command, left_out="|".join(LEFT_OUT), names=names, checkout=checkout)
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
        variables[variable] = str(script)
    ccache = {"DIR": checkout.parent / "ccache", "BASEDIR": checkout, "NOHASHDIR": "1", "MAXSIZE": "2G"}
    return variables | {f"CCACHE_{name}": str(value) for name, value in ccache.items()}

"""Compilers for the cells of the matrix that do not optimize: quicker, and what a cell shows does not depend on it.

The numbers are the same, for nothing contracts. What a Python says about its own code is left out, too, so that a
compiler cache, where the compiler is one, serves what does not depend on the Python from the cells before.
"""

from __future__ import annotations

import os
from pathlib import Path

LEFT_OUT = ("-O[1-3]", "-g", "-fwrapv", "-fno-strict-overflow")
SCRIPT = """#!/bin/sh
for word do
  shift
  case "$word" in {left_out}) ;; *) set -- "$@" "$word" ;; esac
done
exec {command} "$@"
"""


def compilers(folder: Path) -> dict[str, str]:
    """Writes the compilers into a folder; returns the environment variables that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    variables = {}
    for variable, default in (("CC", "cc"), ("CXX", "c++")):
        script = folder / variable.lower()
        text = SCRIPT.format(command=os.environ.get(variable, default), left_out="|".join(LEFT_OUT))
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
        variables[variable] = str(script)
    return variables

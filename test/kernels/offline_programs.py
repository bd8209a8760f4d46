"""Benchmarks that compile Triton kernels for absent devices, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from preloaded_python import preloaded_python


def printed(module: str, *arguments: str, root: Path) -> list[dict[str, object]]:
    """The lines of JSON that a benchmark prints; compiling wants TRITON_INTERPRET unset."""
    finished = subprocess.run(
        [preloaded_python(), "-m", f"benchmarks.{module}", *arguments],
        cwd=root,
        env={name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]

"""Compiles Triton kernels for absent devices, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from preloaded_python import preloaded_python


def printed(*arguments: str, root: Path) -> list[dict[str, object]]:
    """The lines of JSON that `offline.py` prints; compiling wants TRITON_INTERPRET unset."""
    finished = subprocess.run(
        [preloaded_python(), Path(__file__).parent / "offline.py", "--json", *arguments],
        cwd=root,
        env={
            **{name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"},
            "PYTHONPATH": os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH")))),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]

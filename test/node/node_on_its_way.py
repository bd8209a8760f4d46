"""The node, which prints the files that messages have passed, as a program of its own."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import FrameType

from traj_integrator_ros.node import executor, node  # noqa: F401 (imported before calls are watched)
from traj_integrator_ros.node.main import main

ROOT = str(Path(__file__).resolve().parents[2]) + "/"
KINDS = {"action_sequence": "sequence", "evaluate": "evaluate"}
"""The functions of the node that answer messages."""


@functools.cache
def file_of(path: str) -> str:
    """The path in this project; empty for files of others."""
    return str(Path(path).resolve())[len(ROOT) :] if path.startswith(ROOT) and "/.venv" not in path else ""


class Way:
    """The files of this project whose functions ran since the executor took a message; a profile function."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.kind = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        file, name = file_of(frame.f_code.co_filename), frame.f_code.co_name
        if not file:
            return
        if file.endswith("node/executor.py") and name == "call":
            if event == "return" and self.kind:
                print(f"way of {self.kind}: {' '.join(sorted(self.passed))}", flush=True)
            self.passed, self.kind = set(), ""
        self.passed.add(file)
        if "/node/" in file:
            self.kind = KINDS.get(name, self.kind)


if __name__ == "__main__":
    sys.setprofile(Way())
    sys.exit(main())

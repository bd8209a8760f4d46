"""The virtual environment of set-up: how commands run there and how their failures are reported; files and hashes."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "set-up"
REQUIREMENTS = ROOT / "requirements"
PACKAGE = "traj_integrator_ros"


class SetUpError(Exception):
    """A problem that the user can fix; the message says what and how, in one line."""


@dataclass(frozen=True)
class Environment:
    """Place of set-up, and the source of rclpy: a sourced ROS 2 or wheels."""

    venv: Path
    distro: str  # distribution whose wheels are used if no ROS 2 is sourced
    use_ros: bool
    log: Path = LOGS  # log of the step at work

    @property
    def python(self) -> Path:
        """The interpreter of .venv."""
        return self.venv / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """Folder into which pip and the interface package install modules."""
        return self.venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def run(self, *command: object, **variables: str) -> None:
        """Runs a command with its output in the log; raises SetUpError with the last line that has an error."""
        path = os.environ.get("PATH", "")
        # A sourced ROS 2 is built with its own cmake, the wheels with the pinned one.
        path = f"{path}:{self.venv}/bin" if self.use_ros else f"{self.venv}/bin:{path}"
        environment = {**os.environ, "PATH": path, **variables}
        # Variables that the Python of another environment passes to its child processes.
        environment.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
        libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        ours = str(ROOT / ".venv")
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(path for path in libraries if not path.startswith(ours))
        arguments = list(map(str, command))
        with self.log.open("a+", encoding="utf-8", errors="replace") as log:
            log.write(f"$ {' '.join(arguments)}\n")
            log.flush()
            start = log.tell()
            pipes = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            code = subprocess.run(arguments, cwd=ROOT, env=environment, check=False, **pipes).returncode
            log.seek(start)
            said = log.read()
        if code != 0:
            lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no output"]
            errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
            raise SetUpError(f"{(errors or lines)[-1]} (all of it in {self.log.relative_to(ROOT)})")

    def pip_install(self, *arguments: object, **variables: str) -> None:
        """Installs with pip; modules are compiled to bytecode when they are imported rather than all of them now."""
        quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar=off", "--no-compile")
        self.run(self.python, "-m", "pip", "install", *quiet, *arguments, **variables)


def hashed(inputs: Iterable[str | Path]) -> str:
    """A hash over strings, and over names and contents of files; the same for the same files of another checkout."""
    result = hashlib.sha256()
    for entry in inputs:
        name, content = (os.path.relpath(entry, ROOT), entry.read_bytes()) if isinstance(entry, Path) else (entry, b"")
        for part in (name.encode(), content):
            result.update(len(part).to_bytes(8, "little") + part)
    return result.hexdigest()


def write_at_once(path: Path, text: str) -> None:
    """Writes a file so that it exists completely or not at all, whenever this process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)

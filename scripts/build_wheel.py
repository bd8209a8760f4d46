"""`make wheel`: one wheel for every Python from 3.10 on, every torch, and every Linux with glibc 2.28 or later.

Zig compiles it: its clang brings the headers and symbols of that glibc, for x86_64 and aarch64 alike.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "build" / "wheel-tools"
GLIBC = "2.28"
MACHINES = ("x86_64", "aarch64")
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_{}(sys.argv[1], {}))"


def main() -> None:
    """Build the wheel for a machine into dist/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("machine", nargs="?", default=platform.machine(), choices=MACHINES)
    machine = parser.parse_args().machine
    get_tools()
    with tempfile.TemporaryDirectory() as folder:
        print(build_wheel(machine, build_sdist(Path(folder))))


def get_tools(*requirements: str) -> None:
    """Install what builds wheels, and files of further requirements, beside the environments of this machine."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    files = [part for name in ("wheel", *requirements) for part in ("-r", ROOT / "requirements" / f"{name}.txt")]
    subprocess.run([*pip, "--target", TOOLS, *files], check=True)


def build_sdist(into: Path) -> Path:
    """Build the source distribution into a folder; returns the archive."""
    return build("sdist", "None", into, ROOT, {**os.environ, "PYTHONPATH": str(TOOLS)})


def build_wheel(machine: str, sdist: Path) -> Path:
    """Build the wheel of a source distribution for a machine into dist/; returns the wheel."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(TOOLS),
        "CXX": f"{sys.executable} -m ziglang c++ -target {machine}-linux-gnu.{GLIBC}",
        "LDFLAGS": "-s",  # strip names of functions in the modules, which nobody needs
        "TRAJ_INTEGRATOR_NATIVE": "1",
    }
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as tar:
            tar.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(folder)
        (sources,) = Path(folder).iterdir()
        return build("wheel", f"{{'--build-option': ['--plat-name', {tag!r}]}}", ROOT / "dist", sources, environment)


def build(kind: str, options: str, into: Path, sources: Path, environment: dict[str, str]) -> Path:
    """Call setuptools' build backend; returns the file that it made."""
    command = [sys.executable, "-c", BUILD.format(kind, options), into]
    done = subprocess.run(command, cwd=sources, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}\nthe {kind} was not built")
    return into / done.stdout.splitlines()[-1]


if __name__ == "__main__":
    main()

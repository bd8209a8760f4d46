"""The build backend of pyproject.toml: setuptools, with a torch to compile the C++ kernels against.

The kernels must be compiled against the torch that they will run with, and pip hides that from a build. So if the
target Python already has a torch, the build uses it in place, whether it is a CUDA or a CPU build, without a download.
Otherwise torch becomes a build requirement, the same version that pip then installs with the package.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # all hooks of setuptools, but for the two below

OLDEST_TORCH = (2, 6)
_WHERE_IS_TORCH = """
import importlib.metadata, importlib.util
from pathlib import Path
print(Path(importlib.util.find_spec("torch").origin).parents[1])
print(importlib.metadata.version("torch"))
"""


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    """The requirements of a build that pip has to fetch."""
    return build_meta.get_requires_for_build_wheel(config_settings) + _requirements_of_the_kernels()


def get_requires_for_build_editable(config_settings: dict | None = None) -> list[str]:
    """The same for an editable installation."""
    return build_meta.get_requires_for_build_editable(config_settings) + _requirements_of_the_kernels()


def _requirements_of_the_kernels() -> list[str]:
    if os.environ.get("TRAJ_INTEGRATOR_NATIVE") == "0":
        return []
    torch = [] if importlib.util.find_spec("torch") else [f"torch>={'.'.join(map(str, OLDEST_TORCH))}", "numpy"]
    return [*torch, "ninja"]  # ninja: torch's builds run in parallel with it


def _show_torch_of_this_python() -> None:
    """Make the torch that this Python has outside of pip's isolation importable, after the build's own packages."""
    if importlib.util.find_spec("torch"):
        return
    hidden_by = ("PYTHONPATH", "PYTHONNOUSERSITE")
    environment = {name: value for name, value in os.environ.items() if name not in hidden_by}
    command = [sys.executable, "-c", _WHERE_IS_TORCH]
    found = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        return
    folder, version = found.stdout.splitlines()
    if tuple(int(part) for part in version.split(".")[:2]) >= OLDEST_TORCH:
        sys.path.append(folder)


_show_torch_of_this_python()

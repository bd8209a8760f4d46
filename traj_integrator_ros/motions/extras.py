"""Libraries that only some readers, figures and tools need: where one is missing, one line says what to install."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from .samples import RecordingError

_PACKAGES = {"yaml": "PyYAML"}
"""Where a library's package is not called like its module."""


class MissingLibrary(RecordingError):
    """A library is not installed; the message is one line that says for what it is needed and how to get it."""


def require(module: str, purpose: str, extra: str = "tools") -> None:
    """Raise MissingLibrary where `module` is not installed; `extra` of this package has it, too."""
    if not _is_installed(module):
        package = _PACKAGES.get(module, module)
        raise MissingLibrary(
            f"{purpose} needs the library {package}: python -m pip install {package} "
            f"(from the sources, pip install '.[{extra}]' brings all of them)"
        )


def _is_installed(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is not None:
        return spec is not None
    # A namespace package, as rosbags is: once it is uninstalled, an empty folder may be left.
    return any(any(Path(folder).iterdir()) for folder in spec.submodule_search_locations or ())

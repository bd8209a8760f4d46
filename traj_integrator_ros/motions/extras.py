"""Libraries that only some readers, figures and tools need: where one is missing, one line says what to install."""

from __future__ import annotations

import importlib.util

from .samples import RecordingError

_PACKAGES = {"yaml": "PyYAML"}
"""Where a library's package is not called like its module."""


class MissingLibrary(RecordingError):
    """A library is not installed; the message is one line that says for what it is needed and how to get it."""


def require(module: str, purpose: str, extra: str = "tools") -> None:
    """Raise MissingLibrary where `module` is not installed; `extra` of this package has it, too."""
    if importlib.util.find_spec(module) is None:
        package = _PACKAGES.get(module, module)
        raise MissingLibrary(
            f"{purpose} needs the library {package}: python -m pip install {package} "
            f"(from the sources, pip install '.[{extra}]' brings all of them)"
        )

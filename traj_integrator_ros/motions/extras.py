"""Libraries that only some readers, figures and tools need: one line says how to install a missing one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from .samples import RecordingError

_PACKAGES = {"yaml": "PyYAML"}
"""Packages whose names differ from those of their modules."""


class MissingLibrary(RecordingError):
    """A library is not installed; the message is one line that says why it is needed and how to install it."""


def require(module: str, purpose: str, extra: str = "tools") -> None:
    """Raise MissingLibrary if `module` is not installed; it also belongs to this package's `extra`."""
    if importlib.util.find_spec(module) is None:
        package = _PACKAGES.get(module, module)
        raise MissingLibrary(
            f"{purpose} needs the library {package}: python -m pip install {package} "
            f"(in the source folder, pip install '.[{extra}]' installs all of them)"
        )


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8. Raises RecordingError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path}: not a text file: {error}") from None
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from None

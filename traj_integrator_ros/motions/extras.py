"""Libraries that only some readers, figures and tools need: if one is missing, one line says what to install."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from .samples import RecordingError

_PACKAGES = {"yaml": "PyYAML"}
"""Packages whose names differ from their modules'."""


class MissingLibrary(RecordingError):
    """A library is not installed; the message is one line that says why it is needed and how to install it."""


def require(module: str, purpose: str, extra: str = "tools") -> None:
    """Raise MissingLibrary if `module` is not installed; it is also in this package's `extra`."""
    if not _is_installed(module):
        package = _PACKAGES.get(module, module)
        raise MissingLibrary(
            f"{purpose} needs the library {package}: python -m pip install {package} "
            f"(in the source folder, pip install '.[{extra}]' installs all of them)"
        )


def load_yaml(path: Path) -> list[object]:
    """All documents of a YAML file that hold anything. Raises RecordingError."""
    require("yaml", f"reading {path}")
    import yaml

    try:
        return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: not a YAML file: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from None


def _is_installed(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is not None:
        return spec is not None
    # For a namespace package such as rosbags, an empty folder may remain after it was uninstalled.
    return any(any(Path(folder).iterdir()) for folder in spec.submodule_search_locations or ())

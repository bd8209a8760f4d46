"""The compiled part, or an error that says how to get it."""

from __future__ import annotations

import importlib
from types import ModuleType

from ..backends import BackendUnavailable


def native() -> ModuleType:
    """Return the C++ extension.

    Raises:
        BackendUnavailable: it is not built; there is no slower way.

    """
    try:
        return importlib.import_module(".._native", __name__)
    except ImportError as error:
        raise BackendUnavailable(
            f"retiming needs its C++ extension, which is not built for this Python ({error}); to build it, install "
            "the package again from its sources: pip install -v --no-deps --force-reinstall --no-cache-dir SOURCES "
            "(it takes g++ and Python.h)"
        ) from None

"""Checks for the C++ parts, without which the node could neither slow plans nor interpolate rows."""

from __future__ import annotations

import importlib

_MODULES = ("kernels.native._loops", "kernels.retime._native", "execution._native")


def require_compiled_parts() -> None:
    """Check that the C++ parts of the package can be imported.

    Raises:
        RuntimeError: they are not built for this Python; the message says how to build them.

    """
    for name in _MODULES:
        try:
            importlib.import_module(f"...{name}", __name__)
        except ImportError as error:
            raise RuntimeError(
                f"the node needs the C++ parts of this package, which are not built for this Python ({error}): with "
                "g++ and Python.h, build it again (colcon build, make setup or pip install -v "
                "--no-deps --force-reinstall --no-cache-dir SOURCES; the output says what is missing)"
            ) from None

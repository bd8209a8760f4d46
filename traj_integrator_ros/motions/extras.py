"""Libraries that only some readers, figures and tools need: one line says how to install a missing one."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import TypeVar

from .samples import RecordingError

_PACKAGES = {"yaml": "PyYAML"}
"""Packages whose names differ from those of their modules."""

_DEEPEST = 500
"""Largest depth of brackets in YAML."""
_BRACKETS = re.compile(r"[][{}]")
_LISTS = re.compile(rf"(?:[-?:][ \t]+){{{_DEEPEST}}}")
"""Lists in lists in one line."""
_ALIAS = re.compile(r"(?:^|[\s[{,])\*\w")
_MOST_VALUES = 10_000_000
"""Largest number of values in a document with aliases."""


class WrittenInt(int):
    """A whole number of a YAML file that was `written` in another way: 010, which is 8 there, may be a name."""

    written: str


class WrittenFloat(float):
    """A number of a YAML file that was `written` in another way, such as 1.10."""

    written: str


Written = TypeVar("Written", WrittenInt, WrittenFloat)


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


def load_documents(path: Path, text: str) -> list[object]:
    """Return all documents with content in the text of a YAML file. Raises RecordingError."""
    require("yaml", f"reading {path}")
    import yaml

    if _is_deep(text):
        raise RecordingError(f"{path}: not a YAML file: its parts are nested too deeply")
    try:
        found = yaml.load_all(text, _loader())
        documents = [one for one in found if one is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise RecordingError(f"{path}: not a YAML file: {error.problem or error.context}{place}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise RecordingError(f"{path}: not a YAML file: {' '.join(str(error).split())}") from None
    if _ALIAS.search(text) and (size := _size(documents, {})) > _MOST_VALUES:
        raise RecordingError(f"{path}: expected values, got aliases that stand for {size:.0e} of them")
    return documents


@cache
def _loader() -> type:
    """Return a loader of YAML whose numbers know how they were written."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # The one in C takes a tenth of the time.
        def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
            value = super().construct_yaml_int(node)
            return value if str(value) == node.value else _written(WrittenInt(value), node.value)

        def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
            value = super().construct_yaml_float(node)
            return value if repr(value) == node.value else _written(WrittenFloat(value), node.value)

    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
    Loader.add_constructor("tag:yaml.org,2002:float", Loader.construct_yaml_float)
    return Loader


def _written(number: Written, text: str) -> Written:
    number.written = text
    return number


def _is_deep(text: str) -> bool:
    """Return whether brackets, or lists that begin in one line, are nested so deeply that YAML takes hours for them."""
    depth = 0
    for one in _BRACKETS.finditer(text):
        depth = depth + 1 if one[0] in "[{" else max(depth - 1, 0)
        if depth > _DEEPEST:
            return True
    return _LISTS.search(text) is not None


def _size(value: object, known: dict[int, int]) -> int:
    """Return the number of values in a document, with those that aliases repeat."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = sum(_size(one, known) for one in (value.values() if isinstance(value, dict) else value))
    return 1 + known[id(value)]


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8. Raises RecordingError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path}: not a text file: {error}") from None
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from None

"""Hashes of files, and files that are written atomically."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


def hashed(inputs: Iterable[str | Path]) -> str:
    """A hash over strings, and over names and contents of files."""
    result = hashlib.sha256()
    for entry in inputs:
        content = entry.read_bytes() if isinstance(entry, Path) else b""
        for part in (str(entry).encode(), content):
            result.update(len(part).to_bytes(8, "little") + part)
    return result.hexdigest()


def write_at_once(path: Path, text: str) -> None:
    """Writes a file so that it exists completely or not at all, whenever this process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)

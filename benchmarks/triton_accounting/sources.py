"""Whether the sources of a kernel are those that were counted; needs no Triton."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path


def digest(path: Path) -> str:
    """Digest of the kernels of a file and of the device functions that it shares, whatever their form and comments."""
    texts = []
    shared = ["addressing.py", *(["pairs.py"] if "from .pairs import" in path.read_text(encoding="utf-8") else [])]
    for file in (path, *(path.parent / name for name in shared)):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and any("triton.jit" in ast.unparse(d) for d in node.decorator_list):
                if ast.get_docstring(node) is not None:
                    node.body = node.body[1:]
                texts.append(ast.unparse(node))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]

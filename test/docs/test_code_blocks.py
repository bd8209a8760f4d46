"""Every Python block in the documentation that needs no running node works as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


def blocks() -> list:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        pytest.param(block, id=f"{page.name}-{number}")
        for page in pages
        if page.exists()
        for number, block in enumerate(BLOCK.findall(page.read_text()), 1)
        if "rclpy" not in block  # programs of their own, in examples/, run by test_examples.py
    ]


@pytest.mark.parametrize("block", blocks())
def test_documented_python_runs_as_printed(block, tmp_path):
    result = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr

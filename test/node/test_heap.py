"""Memory of one message serves the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = 1000
PROGRAM = f"""
import resource
from traj_integrator_ros.node.heap import keep_freed_memory

def page_faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytes(b"x") * ({PAGES} * resource.getpagesize())
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(keep_freed_memory(), min(page_faults() for _ in range(5)))
"""


def outcome(**environment: str) -> tuple[bool, int]:
    """Whether freed memory is kept, and how many page faults another message of 1,000 pages costs."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**usual, "PYTHONPATH": str(PROJECT_ROOT), **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    kept, faults = ended.stdout.split()
    return kept == "True", int(faults)


def test_freed_memory_is_kept() -> None:
    kept, faults = outcome()
    if not kept:
        pytest.skip("this C library has no mallopt")
    assert faults < PAGES / 10


def test_what_the_user_has_set_stays() -> None:
    kept, faults = outcome(MALLOC_MMAP_THRESHOLD_="131072")
    assert not kept
    assert faults >= PAGES

"""Triton kernels are correct in Triton's interpreter and on a device, and need no float64 for float32.

All of it runs in processes of its own: TRITON_INTERPRET is read while triton is imported, and compiling wants it unset.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNELS = {"chain_fwd_kernel", "chain_vjp_kernel", "points_fwd_kernel", "points_vjp_kernel", "ends_kernel"}

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


def test_kernels_hold_every_check_in_the_interpreter():
    run_checks(TRITON_CHECKS_DEVICE="cpu", TRITON_INTERPRET="1")


@pytest.mark.gpu
def test_kernels_hold_every_check_on_the_device():
    run_checks(TRITON_CHECKS_DEVICE="cuda", TRITON_INTERPRET="0")


def test_every_kernel_compiles_without_spills_or_float64_for_narrower_data():
    """One architecture; `make offline` compiles for all, and with the oldest Triton as well."""
    command = [sys.executable, HERE / "offline.py", "--json", "--sm", "120"]
    done = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "0"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    compiled = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [row for row in compiled if row["spilled"] or row["float64"]]
    assert {row["kernel"] for row in compiled} == KERNELS


def run_checks(**environment: str) -> None:
    options = ["-q", "-p", "no:cacheprovider", "--timeout=900"]
    command = [sys.executable, "-m", "pytest", *options, HERE / "triton_checks.py"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    print(done.stdout[-20_000:])
    assert done.returncode == 0, done.stderr[-2000:] or "see the output above"

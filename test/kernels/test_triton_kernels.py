"""Triton kernels are correct, interpreted, executed for absent GPUs and on a device, and need no float64 for float32.

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
NAMES = ("chain", "points")
ALL_KERNELS = {f"{name}_{direction}_kernel" for name in NAMES for direction in ("fwd", "vjp")} | {"ends_kernel"}

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


def test_kernels_match_the_reference_in_the_interpreter(project_root):
    run_checks("triton_checks", project_root, "-k", "any_shape", TRITON_CHECKS_DEVICE="cpu", TRITON_INTERPRET="1")


@pytest.mark.thorough
def test_kernels_hold_every_check_in_the_interpreter(project_root):
    run_checks("triton_checks", project_root, TRITON_CHECKS_DEVICE="cpu", TRITON_INTERPRET="1")


@pytest.mark.thorough
def test_kernels_hold_every_check_where_their_ptx_is_executed(project_root):
    run_checks("triton_checks", project_root, TRITON_CHECKS_DEVICE="cpu")


@pytest.mark.thorough
def test_executing_ptx_finds_what_is_wrong(project_root):
    run_checks("ptx_checks", project_root)


@pytest.mark.gpu
def test_kernels_hold_every_check_on_the_device(project_root):
    run_checks("triton_checks", project_root, TRITON_CHECKS_DEVICE="cuda", TRITON_CACHE_DIR="")


@pytest.mark.thorough
def test_every_kernel_compiles_without_spills_or_float64_for_narrower_data(project_root):
    """One architecture; `make offline` compiles for all, and with the oldest Triton as well."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(project_root), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, HERE / "offline.py", "--sm", "120"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    compiled = [json.loads(line) for line in finished.stdout.splitlines()]
    assert not [row for row in compiled if row["spilled"] or row["float64"]]
    assert {row["kernel"] for row in compiled} == ALL_KERNELS


def run_checks(name: str, root: Path, *options: str, **environment: str) -> None:
    """Run a file of checks, with options of pytest; compiled kernels are kept from run to run."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=900"]
    usual = {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(root / "build" / "ptx")}
    examples = os.environ.get("TRITON_CHECKS_EXAMPLES", "1")  # of each map; `make offline` and the device take more
    kept = {**usual, "TRITON_CHECKS_EXAMPLES": examples, **environment}
    finished = subprocess.run(
        [*command, *options, HERE / f"{name}.py"],
        env={key: value for key, value in {**os.environ, **kept}.items() if value},
        capture_output=True,
        text=True,
        check=False,
    )
    print(finished.stdout[-20_000:])
    assert finished.returncode == 0, finished.stderr[-2000:] or "see the output above"

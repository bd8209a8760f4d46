"""Triton kernels are correct under the interpreter and on a device, and compile for absent GPUs.

All of it runs in processes of its own: TRITON_INTERPRET is read while triton is imported, and compiling wants it unset.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from offline_programs import printed

HERE = Path(__file__).parent
FOLDER = HERE.parent.parent / "kernels" / "triton"
NAMES = ("chain", "points")
ALL_KERNELS = {f"{name}_{direction}_kernel" for name in NAMES for direction in ("fwd", "vjp")} | {"ends_kernel"}

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


def test_kernels_hold_every_check_under_the_interpreter():
    run_checks(TRITON_INTERPRET="1", TRITON_CHECKS_DEVICE="cpu")


@pytest.mark.gpu
def test_kernels_hold_every_check_on_the_device():
    run_checks(TRITON_INTERPRET="0", TRITON_CHECKS_DEVICE="cuda")


def test_every_kernel_compiles_without_spills_or_float64_for_float32(project_root):
    """One architecture of NVIDIA; `make offline` compiles for all, AMD included, and with the oldest Triton as well."""
    compiled = printed("offline", "--no-amd", "--sm", "120", root=project_root)
    assert {row["kernel"] for row in compiled} == ALL_KERNELS
    assert not [row for row in compiled if row["spilled"] or row["float64"]]


@pytest.mark.parametrize(("architectures", "pattern"), [(["80", "90"], "^jerk vjp"), ([], "^velocity vjp")])
def test_other_architectures_compile(architectures, pattern, project_root):
    options = ["--no-amd", "--sm", *architectures] if architectures else ["--sm"]
    compiled = printed("offline", *options, "--", pattern, root=project_root)
    found = {row["architecture"] for row in compiled}
    assert found == ({int(sm) for sm in architectures} or {"gfx90a", "gfx942", "gfx1100"})
    assert not [row for row in compiled if row["spilled"]]


def test_no_kernel_chains_conditions():
    for path in FOLDER.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in function.decorator_list):
                chained = [n.lineno for n in ast.walk(function) if isinstance(n, ast.BoolOp) and len(n.values) > 2]
                assert not chained, f"{path.name}, lines {chained}: write (a or b) or c"


def run_checks(**environment: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=900"]
    finished = subprocess.run(
        [*command, HERE / "triton_checks.py"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    print(finished.stdout[-20_000:])
    assert finished.returncode == 0, finished.stderr[-2000:] or "see the output above"

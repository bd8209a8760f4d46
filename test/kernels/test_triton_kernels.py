"""Triton kernels: right under the interpreter and on a device, and compiled for GPUs that are not there.

All of it runs in processes of its own: TRITON_INTERPRET is read while triton is imported, and compiling wants it unset.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FOLDER = HERE.parent.parent / "kernels" / "triton"
# Files that share a process.
CHECKS = (
    ("triton_checks.py", "triton_accuracy_checks.py"),
    ("triton_replay_checks.py", "triton_dt_checks.py"),
    ("triton_spline_checks.py", "triton_cost_checks.py"),
)
KERNELS = {
    "clique_fwd": {"clique_fwd_kernel"},
    "clique_vjp": {"clique_vjp_kernel"},
    "clique_central_fwd": {"clique_central_fwd_kernel"},
    "clique_central_vjp": {"clique_central_vjp_kernel"},
    "velocity": {"velocity_fwd_kernel", "velocity_vjp_kernel"},
    "acceleration": {"acceleration_fwd_kernel", "acceleration_vjp_kernel"},
    "jerk": {"jerk_fwd_kernel", "jerk_vjp_kernel"},
    "bspline_fwd": {"bspline_fwd_kernel"},
    "bspline_vjp": {"bspline_vjp_kernel"},
    "dt_gradient": {"dt_gradient_kernel", "central_dt_gradient_kernel"},
    "start_gradients": {"start_rows_sum_kernel"},
}
ALL_KERNELS = set().union(*KERNELS.values())
ARCHITECTURES = {80, 87, 89, 90, 100, 120}

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


@pytest.mark.parametrize("checks", CHECKS, ids=["maps", "replay and dt", "splines and costs"])
def test_kernels_hold_every_check_under_the_interpreter(checks):
    run_checks(*checks, TRITON_INTERPRET="1", TRITON_CHECKS_DEVICE="cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("checks", CHECKS, ids=["maps", "replay and dt", "splines and costs"])
def test_kernels_hold_every_check_on_the_device(checks):
    run_checks(*checks, TRITON_INTERPRET="0", TRITON_CHECKS_DEVICE="cuda")


def test_every_kernel_compiles_without_spills_and_with_its_loads_in_flight_together(project_root):
    """One architecture of NVIDIA; `make offline` does all of them, for AMD, too, with the oldest Triton as well."""
    compiled = accounting("--quick", "--no-amd", "--sm", "90", root=project_root)
    assert {row["kernel"] for row in compiled} == ALL_KERNELS
    assert not [row for row in compiled if row["spilled"]]
    for row in compiled:
        if "H32" in row["launch"] and row["kernel"] != "start_rows_sum_kernel":
            assert row["barriers"] == 0
            # Two loops, and quotients of float64: for the gradient of dt bandwidth is not what counts.
            assert row["loads"] >= 3 * row["waits"] or row["kernel"] in KERNELS["dt_gradient"]


@pytest.mark.parametrize(("architectures", "pattern"), [(["80", "120"], "^jerk vjp.*H32"), ([], "^velocity vjp.*H32")])
def test_other_architectures_compile(architectures, pattern, project_root):
    options = ["--no-amd", "--sm", *architectures] if architectures else ["--sm"]
    compiled = accounting("--quick", *options, "--", pattern, root=project_root)
    found = {row.get("sm") or row["architecture"] for row in compiled}
    assert found == ({int(sm) for sm in architectures} or {"gfx90a", "gfx942", "gfx1100"})
    assert not [row for row in compiled if row["spilled"]]


def test_the_kernel_of_the_quadratic_cost_compiles_without_spills(project_root):
    compiled = accounting("--no-amd", "--sm", "90", "--", "^cost of (clique|jerk) float32", root=project_root)
    assert [row["kernel"] for row in compiled] == ["quadratic_cost_kernel"] * 2
    assert not [row for row in compiled if row["spilled"] or row["barriers"]]


def test_the_kept_table_counts_these_very_kernels_on_every_architecture_we_name(project_root, monkeypatch):
    """After a change of a kernel: `make offline`."""
    monkeypatch.syspath_prepend(str(project_root))
    from benchmarks.triton_accounting.sources import digest
    from benchmarks.triton_accounting.table import OLDEST_TRITON, load

    rows = load()
    wanted = {kernel: digest(FOLDER / f"{name}.py") for name, kernels in KERNELS.items() for kernel in kernels}
    assert {(row["kernel"], row["sources"]) for row in rows} == set(wanted.items())
    assert max(row["spilled"] for row in rows) <= 16  # bytes of stack on sm_80
    newest = [row for row in rows if row["triton"] != OLDEST_TRITON]
    for kernel in ALL_KERNELS:
        assert {row["sm"] for row in newest if row["kernel"] == kernel and "sm" in row} == ARCHITECTURES
        assert {row["sm"] for row in rows if row["kernel"] == kernel and row["triton"] == OLDEST_TRITON} == {
            sm for sm in ARCHITECTURES if sm <= 90
        }
        found = {row["architecture"] for row in newest if row["kernel"] == kernel and "sm" not in row}
        assert found == {"gfx90a", "gfx942", "gfx1100"}


def test_no_kernel_chains_conditions_which_the_oldest_triton_cannot_compile():
    for path in FOLDER.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in function.decorator_list):
                chained = [n.lineno for n in ast.walk(function) if isinstance(n, ast.BoolOp) and len(n.values) > 2]
                assert not chained, f"{path.name}, lines {chained}: write (a or b) or c"


def accounting(*arguments: str, root: Path) -> list[dict[str, object]]:
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.triton_accounting", *arguments],
        cwd=root,
        env={**os.environ, "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


def run_checks(*checks: str, **environment: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=900"]
    finished = subprocess.run(
        [*command, *(HERE / file for file in checks)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    print(finished.stdout[-20_000:])
    assert finished.returncode == 0, finished.stderr[-2000:] or "see the output above"

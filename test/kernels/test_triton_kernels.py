"""Triton kernels: right under the interpreter and on a device, and compiled for four GPUs without one.

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
ARCHITECTURES = (80, 87, 90, 100)
# Checks of one map each, so that they can run side by side; "the rest" is whatever no other expression selects.
CHECKS = ("clique", "clique_central", "acceleration", "velocity", "jerk")
COMPILATIONS = {
    "clique": {"clique_fwd_kernel", "clique_vjp_kernel", "start_rows_sum_kernel"},
    "clique_central": {"clique_central_fwd_kernel", "clique_central_vjp_kernel"},
    "acceleration zoh": {"acceleration_fwd_kernel", "acceleration_vjp_kernel"},
    "acceleration semi_implicit_euler": {"acceleration_fwd_kernel", "acceleration_vjp_kernel"},
    "velocity": {"velocity_fwd_kernel", "velocity_vjp_kernel"},
    "jerk": {"jerk_fwd_kernel", "jerk_vjp_kernel"},
}

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


@pytest.fixture(scope="module")
def compiled(project_root: Path) -> list[dict[str, object]]:
    """What each kernel needs on each architecture."""
    patterns = [f"^{name} (forward|vjp)" for name in COMPILATIONS]
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.triton_accounting", "--quick", *patterns],
        cwd=project_root,
        env={**os.environ, "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    rows = [json.loads(line) for line in finished.stdout.splitlines()]
    print(table(rows))
    return rows


@pytest.mark.parametrize("name", COMPILATIONS)
def test_kernels_compile_for_every_architecture_without_spills(name: str, compiled: list[dict[str, object]]) -> None:
    rows = [row for row in compiled if str(row["launch"]).startswith((f"{name} forward", f"{name} vjp"))]
    for architecture in ARCHITECTURES:
        assert {row["kernel"] for row in rows if row["sm"] == architecture} >= COMPILATIONS[name]
    assert not [row for row in rows if row["spilled"]]


def run_checks(**environment: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=900"]
    finished = subprocess.run(
        [*command, HERE / "triton_checks.py"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    print(finished.stdout[-20_000:])
    assert finished.returncode == 0, finished.stderr[-2000:] or "see the output above"


def table(compiled: list[dict[str, object]]) -> str:
    """Registers per thread on each architecture, spilled bytes and shared memory; one line for each kernel variant."""
    lines = [f"{'registers per thread on sm_':72}" + "".join(f"{sm:>5}" for sm in ARCHITECTURES) + "  spilled shared"]
    for launch, kernel in dict.fromkeys((row["launch"], row["kernel"]) for row in compiled):
        rows = {row["sm"]: row for row in compiled if (row["launch"], row["kernel"]) == (launch, kernel)}
        name = launch if launch.split()[0] in kernel else f"{launch.split()[0]}: {kernel}"
        registers = "".join(f"{rows[sm]['registers']:>5}" for sm in ARCHITECTURES)
        spilled, shared = (max(row[key] for row in rows.values()) for key in ("spilled", "shared"))
        lines.append(f"{name:72}{registers}{spilled:>9}{shared:>7}")
    return "\n".join(lines)

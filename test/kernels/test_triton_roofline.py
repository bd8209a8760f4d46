"""The machine code of Triton kernels: nothing at the rate of float64 for narrower data, and predicted speeds.

In processes of their own, because compiling wants TRITON_INTERPRET unset.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import pytest
from preloaded_python import preloaded_python

CHAIN = ("clique", "velocity", "acceleration_zoh", "jerk")
SHARES = {**dict.fromkeys(CHAIN, 0.8), "clique_central": 0.6, "bspline": 0.6}

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


@pytest.mark.parametrize(("architectures", "pattern"), [("87 89 90 100 120", "float32"), ("87", "float16")])
def test_kernels_of_narrow_data_have_no_float64_instruction(architectures, pattern, project_root):
    every = ["--all"] if pattern == "float16" else []
    compiled = printed("offline", *every, "--no-amd", "--sm", *architectures.split(), "--", pattern, root=project_root)
    assert {str(row["architecture"]) for row in compiled} == set(architectures.split())
    assert not [row for row in compiled if row["float64"]]


@pytest.mark.parametrize("kernel", SHARES)
def test_kernels_are_predicted_to_be_near_the_memory_limit(kernel, project_root):
    predicted = printed("roofline", "--json", f"^{kernel} ", root=project_root)
    assert len({(one["launch"], one["device"]) for one in predicted}) == 2 * 7
    missed = [one for one in predicted if one["share"] < SHARES[kernel]]
    assert not missed, [f"{one['launch']}, {one['device']}: {one['share']:.2f}, {one['limit']}" for one in missed]


def printed(module: str, *arguments: str, root: Path) -> list[dict[str, object]]:
    finished = subprocess.run(
        [preloaded_python(), "-m", f"benchmarks.{module}", *arguments],
        cwd=root,
        env={name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]

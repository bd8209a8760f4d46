"""Without the C++ extension, the reference computes, and one warning says so."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["traj_integrator_ros.kernels.native._loops"] = None  # as if it had not been built
import torch
from traj_integrator_ros.kernels import Backend, BackendUnavailable, backend_info, clique_step
print("imported", file=sys.stderr)
action, start = torch.randn(2, 5, 3, requires_grad=True), torch.zeros(2, 3)
for _ in range(3):
    trajectory = clique_step(action, start, dt=0.1)
for a, b in zip(trajectory, clique_step(action, start, dt=0.1, backend="reference")):
    assert torch.equal(a, b)
info = backend_info()[0]
assert info.backend is Backend.REFERENCE, info
assert "the C++ extension is not built for this Python" in info.reason, info
try:
    clique_step(action, start, dt=0.1, backend="native")
except BackendUnavailable as error:
    assert "not built" in str(error), error
else:
    raise AssertionError("asking for a backend that is not there has to raise")
"""


def test_the_reference_computes_and_the_import_says_so_once():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line, imported = done.stderr.splitlines()
    assert line.startswith("CPU tensors are computed by the reference kernels") and imported == "imported"
    assert "not built for this Python" in line and "pip install -v" in line

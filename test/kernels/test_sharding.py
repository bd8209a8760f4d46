"""DTensors pass through the maps: two processes hold every check of sharding_checks.py together."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from traj_integrator_ros.kernels import MAPS, CostTerm, QuadraticCost, quadratic_cost

RANKS = 2
TIMEOUT_S = 400
HERE = Path(__file__).parent
# The file is looked up: find_spec would import DTensor, which takes seconds in every worker.
REGISTRATION = Path(torch.__file__).parent / "distributed" / "tensor" / "experimental" / "_register_sharding.py"


@pytest.mark.skipif(
    not (torch.distributed.is_available() and REGISTRATION.is_file()), reason="this torch has no DTensors"
)
def test_every_check_holds_on_every_process(tmp_path: Path, project_root: Path) -> None:
    path = os.pathsep.join([str(project_root), os.environ.get("PYTHONPATH", "")])
    variables = {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GLOO_SOCKET_IFNAME": "lo"}
    variables = {**os.environ, "MASTER_ADDR": "127.0.0.1", **variables}
    command = [sys.executable, __file__, str(tmp_path)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S)
    logs = [path.read_text(encoding="utf-8")[-10_000:] for path in sorted(tmp_path.glob("*.log"))]
    assert done.returncode == 0, "\n".join([done.stderr, *logs])
    assert len(logs) == RANKS and all(" passed" in log for log in logs)


def main(folder: Path) -> int:
    """Import slow modules once, fork a process for each rank, and return the number of failures."""
    torch.set_num_threads(1)
    action = torch.zeros(2, 3, 1, requires_grad=True)
    for kernel in MAPS.values():
        kernel.step(action, torch.zeros(1, 1), dt=0.1, backend="reference")[0].sum().backward()
    quadratic_cost(action, torch.zeros(1, 1), cost=QuadraticCost(CostTerm(1.0)), control_map="jerk", dt=0.1)
    assert "torch.distributed.tensor" not in sys.modules, "loaded before it is needed"
    importlib.import_module("torch.distributed.tensor.debug")
    processes = []
    for rank in range(RANKS):
        processes.append(os.fork())
        if processes[-1] == 0:
            code = 1
            try:
                code = run_rank(rank, folder)
            finally:
                os._exit(code)
    return sum(os.waitpid(process, 0)[1] != 0 for process in processes)


def run_rank(rank: int, folder: Path) -> int:
    """Run the checks as one of the processes."""
    log = os.open(folder / f"{rank}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1), os.dup2(log, 2)
    store = torch.distributed.FileStore(str(folder / "store"), RANKS)
    timeout = timedelta(seconds=30)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=timeout)
    checks = str(HERE / "sharding_checks.py")
    code = pytest.main(["-q", "-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", checks])
    sys.stdout.flush()  # the exit of a forked process does not
    return int(code)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

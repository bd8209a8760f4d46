"""DTensors pass through the maps: two processes compute every case together, and one reports the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sharding_cases import CHECKS, table

from traj_integrator_ros.kernels import MAPS

RANKS = 2
TIMEOUT_S = 120
HERE = Path(__file__).parent
# Looked for as a file: find_spec would import DTensor, which takes seconds of every worker.
REGISTRATION = Path(torch.__file__).parent / "distributed" / "tensor" / "experimental" / "_register_sharding.py"
pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and REGISTRATION.is_file()), reason="this torch has no DTensors"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> dict[str, object]:
    """What each case sent, or what went wrong; the same on both processes."""
    folder = tmp_path_factory.mktemp("sharding")
    path = os.pathsep.join([str(project_root), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1"}
    command = [sys.executable, str(HERE / "sharding_cases.py"), str(RANKS), str(folder)]
    done = subprocess.run(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout
    first, *others = (json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(RANKS))
    for other in others:
        first |= {name: found for name, found in other.items() if isinstance(found, str)}
    return first


@pytest.mark.parametrize("name", MAPS)
def test_a_map_of_dtensors_is_that_of_the_whole_and_sends_nothing_but_sums(
    name: str, results: dict, record_property: pytest.RecordProperty
) -> None:
    cases = [case for case in table() if case.kernel == name and case.batch >= RANKS]
    assert len(cases) > 8
    found = {case.name: results[case.name] for case in cases}
    wrong = [f"{case}: {result}" for case, result in found.items() if isinstance(result, str)]
    assert wrong == []
    for case, sent in found.items():
        assert (sent["forward"], sent["backward"]) == (0, 0), case
        assert sent["sums"] == sent["summed"], case
    sums, summed = (sum(sent[kind] for sent in found.values()) for kind in ("sums", "summed"))
    assert summed >= 3
    record_property(
        "summary",
        f"collectives of DTensors: {name}: {len(found)} cases, 0 forward, 0 backward, "
        f"{sums} for {summed} gradients of what is shared",
    )


def test_a_batch_smaller_than_the_mesh_is_gathered(results: dict) -> None:
    (case,) = [case for case in table() if case.batch < RANKS]
    assert not isinstance(results[case.name], str), results[case.name]
    assert results[case.name]["forward"] > 0


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.replace("_", " "))
def test_of_dtensors(check: str, results: dict) -> None:
    assert not isinstance(results[check], str), results[check]


def test_quadratic_cost_of_dtensors_sends_nothing(results: dict) -> None:
    assert results["a_cost"] == {"forward": 0, "backward": 0}

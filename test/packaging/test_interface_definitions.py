"""The interface package defines exactly the messages and services that planners and optimizers rely on."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from traj_integrator_ros.kernels.retime import RetimeStatus

DEFINITIONS = {
    "msg/StartState.msg": "27eef31c3dbf",
    "msg/ActionSequence.msg": "eba0e63cc0ea",
    "msg/CostTerm.msg": "c566a525ed9d",
    "msg/QuadraticCost.msg": "609dfddd0911",
    "msg/TrajectoryBatch.msg": "84322c4354a2",
    "srv/Integrate.srv": "6b34984116a5",
    "srv/ComputeGradient.srv": "ca7d7f1149e8",
    "srv/Evaluate.srv": "7fe6f4632985",
    "msg/Rejection.msg": "07076868b5b7",
    "srv/Stop.srv": "90d6160fd4f8",
    "srv/Retime.srv": "ace6a4de9cdc",
    "srv/Committed.srv": "0501d62025b0",
}
"""Hashes of the declarations, without comments: whoever changes one breaks planners that were built before."""


@pytest.fixture
def interfaces(project_root: Path) -> Path:
    """The folder of the interface package."""
    return project_root / "traj_integrator_interfaces"


def without_comments(text: str) -> list[list[str]]:
    """The declarations of a definition, by part (request and response of a service)."""
    parts: list[list[str]] = [[]]
    for line in text.splitlines():
        declaration = line.split("#")[0].strip()
        if declaration == "---":
            parts.append([])
        elif declaration:
            parts[-1].append(declaration)
    return parts


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definition_is_what_planners_were_built_with(interfaces: Path, name: str) -> None:
    parts = without_comments((interfaces / name).read_text())
    assert hashlib.sha256(repr(parts).encode()).hexdigest()[:12] == DEFINITIONS[name], parts


def test_statuses_of_retiming_are_those_of_the_kernels(interfaces: Path) -> None:
    request, _ = without_comments((interfaces / "srv" / "Retime.srv").read_text())
    constants = [declaration for declaration in request if "=" in declaration]
    told_as_done = RetimeStatus.WITH_RESTS  # with a reason
    statuses = (*(status.name for status in RetimeStatus if status != told_as_done), "POSITION")
    assert constants == [f"uint8 {name}={value}" for value, name in enumerate(statuses)]


def test_there_are_no_other_definitions_and_all_are_built(interfaces: Path) -> None:
    files = {f"{kind}/{path.name}" for kind in ("msg", "srv") for path in (interfaces / kind).iterdir()}
    built = set(re.findall(r'"((?:msg|srv)/\w+\.\w+)"', (interfaces / "CMakeLists.txt").read_text()))
    assert files == built == set(DEFINITIONS)

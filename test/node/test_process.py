"""The node as a process: its arguments, parameter files and names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from node_fixtures import JOINTS, PARAMETERS, NodeFactory, NodeServer
from preloaded_process import PreloadedNode

from kit.node_process import source_environment

pytestmark = pytest.mark.ros


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess:
    """Run the node in a folder whose packages have precedence."""
    path = os.pathsep.join([str(folder), source_environment()["PYTHONPATH"]])
    return subprocess.run(
        [sys.executable, "-m", "traj_integrator_ros", *arguments],
        capture_output=True, text=True, timeout=60, cwd=folder, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "missing.yaml"),
        ("/**: [not, parameters", "parse"),
        ("/**:\n  ros__parameters:\n    max_batch: 1.5\n", "expecting type 'INTEGER'"),
        ("/**:\n  ros__parameters:\n    dt: -0.02\n", "Parameter dt out of range"),
        ("/**:\n  ros__parameters:\n    device: toaster\n", "device"),
    ],
)
def test_a_wrong_parameter_file_ends_it_with_one_clear_line(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / ("missing.yaml" if content is None else "wrong.yaml")
    if content is not None:
        file.write_text(content)
    process = PreloadedNode(tmp_path, file)
    assert process.wait() == 2, process.output
    assert "Traceback" not in process.output
    assert said in process.output.splitlines()[-1]


def test_wrong_arguments_end_it_with_one_clear_line(tmp_path: Path) -> None:
    ended = run(["franka.yaml"], tmp_path)
    last_line = ended.stderr.splitlines()[-1]
    assert (ended.returncode, last_line) == (2, "integrator_node: unexpected argument 'franka.yaml'")
    unknown = run(["--ros-args", "--nonsense"], tmp_path)
    assert unknown.returncode == 2
    assert unknown.stderr.splitlines()[-1] == "integrator_node: unknown arguments after --ros-args: ['--nonsense']"
    assert run(["--help"], tmp_path).returncode == 0


@pytest.mark.parametrize("library", ["torch", pytest.param("ruckig", marks=pytest.mark.thorough)])
def test_a_library_of_pip_is_named_with_the_command_in_one_line(tmp_path: Path, library: str) -> None:
    (tmp_path / f"{library}.py").write_text(f"raise ModuleNotFoundError('none', name={library!r})")
    ended = run([], tmp_path)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1), ended.stderr
    assert ended.stderr.startswith(f"integrator_node: {library} is missing")
    assert f"pip install {library}" in ended.stderr


def test_a_parameter_that_does_not_exist_is_reported(start_node: NodeFactory) -> None:
    qos = "qos_overrides./joint_state.subscription.depth"
    process = start_node({"state_time_out": 1.0, qos: 1, "chunks.ensemble": "weighted"})
    process.wait_for_output("active")
    assert "parameter 'state_time_out' was given but does not exist" in process.output
    assert f"parameter {qos!r} was given but does not exist" in process.output
    assert re.search(r"'chunks.ensemble' was given .* no effect: .* publish.bandwidth", process.output)
    assert process.output.count("does not exist") == 3


def test_the_wildcard_section_reaches_a_node_in_any_namespace(serve: NodeServer) -> None:
    arguments = ["-r", "__ns:=/deep/down", "-r", "__node:=other"]
    _, client = serve(arguments=arguments, connect_to="/deep/down/other")
    assert client.parameter("joint_names") == list(JOINTS)
    assert client.parameter("max_batch") == PARAMETERS["max_batch"]


def test_interfaces_of_an_older_build_end_the_start_with_one_line(tmp_path: Path) -> None:
    for package in ("", "msg", "srv"):
        (tmp_path / "traj_integrator_interfaces" / package).mkdir()
        (tmp_path / "traj_integrator_interfaces" / package / "__init__.py").touch()
    ended = run([], tmp_path)
    assert ended.returncode == 2
    assert "traj_integrator_interfaces is missing or old" in ended.stderr and ended.stderr.count("\n") == 1

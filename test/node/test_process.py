"""The node as a process: its arguments, parameter files and names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
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


def _policy(prefix: list[str], statements: str) -> tuple[int, int, str]:
    """Return policy, priority and what is printed of a process of Python that is started with a prefix."""
    shows = "print(os.sched_getscheduler(0), os.sched_getparam(0).sched_priority, said)"
    command = [*prefix, sys.executable, "-c", f"import os; said = ''; {statements}; {shows}"]
    policy, priority, said = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=source_environment()
    ).stdout.split(maxsplit=2)  # fmt: skip
    return int(policy), int(priority), said.strip()


_COMES_FIRST = "from traj_integrator_ros.node import priority; said = priority.come_first()"
_MAY_COME_FIRST = "os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))"


@pytest.fixture(scope="module")
def has_right() -> bool:
    """Whether this user may set a real-time priority."""
    try:
        return bool(_policy([], f"{_MAY_COME_FIRST}; said = 1"))
    except subprocess.CalledProcessError:
        return False


def test_the_thread_that_stops_goes_before_those_that_compute(serve: NodeServer, has_right: bool) -> None:
    process, client = serve()
    path = np.linspace([0.0] * len(JOINTS), [0.5] * len(JOINTS), 5)[None]
    client.services.retime(path, velocity_limits=[1.0] * len(JOINTS), acceleration_limits=[8.0] * len(JOINTS), order=2)
    threads = [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]
    found = {(os.sched_getscheduler(one), os.sched_getparam(one).sched_priority) for one in threads}
    if not has_right:
        assert found == {(os.SCHED_OTHER, 0)} and "no right to a priority" in process.output
        return
    assert {(os.SCHED_RR, 2), (os.SCHED_RR, 1)} <= found, process.output
    assert (os.sched_getscheduler(process.pid), os.sched_getparam(process.pid).sched_priority) == (os.SCHED_RR, 2)
    assert "threads go before those of ordinary programs" in process.output


def test_a_policy_that_the_user_has_chosen_is_kept() -> None:
    assert _policy(["chrt", "-b", "0"], _COMES_FIRST)[:2] == (os.SCHED_BATCH, 0)


def test_without_the_right_to_a_priority_the_node_says_so() -> None:
    prefix = ["setpriv", "--bounding-set=-sys_nice"] if os.geteuid() == 0 else ["prlimit", "--rtprio=0"]
    policy, priority, said = _policy(prefix, _COMES_FIRST)
    assert (policy, priority) == (os.SCHED_OTHER, 0) and "no right to a priority" in said


def test_interfaces_of_an_older_build_end_the_start_with_one_line(tmp_path: Path) -> None:
    for package in ("", "msg", "srv"):
        (tmp_path / "traj_integrator_interfaces" / package).mkdir()
        (tmp_path / "traj_integrator_interfaces" / package / "__init__.py").touch()
    ended = run([], tmp_path)
    assert ended.returncode == 2
    assert "traj_integrator_interfaces is missing or old" in ended.stderr and ended.stderr.count("\n") == 1

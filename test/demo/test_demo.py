"""The demo as its user runs it: a process, with the node in another, over real DDS."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from motion_tables import read_plain, write_table
from motions import sine_motion
from preloaded_python import preloaded_python

from traj_integrator_ros.demo.main import main

pytestmark = pytest.mark.ros

ENDS_WITHIN = 100.0


def demo(*arguments: object) -> list[str]:
    return [preloaded_python(), "-m", "traj_integrator_ros.demo", *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(demo(*arguments), capture_output=True, text=True, timeout=ENDS_WITHIN)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """A function that runs the demo in this process: exit code, output and errors of what starts no node."""
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)

    def run_here(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
        return (code, *capsys.readouterr())

    return run_here


def png_size(path: Path) -> tuple[int, int]:
    """Width and height; fails where the file is no PNG."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def assert_passed(report: dict) -> None:
    assert report["failures"] == [] and report["passed"] is True
    assert report["lost"] == report["rejected"] == 0
    assert report["sequences_sent"] == report["trajectories_received"] > 10
    assert report["joint_trajectories_received"] > 10
    assert 0 < report["latency_ms"]["p50"] <= report["latency_ms"]["p99"]
    for optimizer in report["optimizer"].values():
        assert abs(optimizer["cost_at_end"] / optimizer["closed_form_optimum"] - 1) <= 1e-3
        assert 3 < optimizer["iterations"] < 60 and optimizer["service_calls"] > optimizer["iterations"]


@pytest.fixture(scope="module")
def planned(tmp_path_factory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One short run without a recording, for several tests."""
    out = tmp_path_factory.mktemp("planned")
    return run("--seconds", 4, "--out", out), out


@pytest.mark.slow
def test_planned_motion_passes_and_is_reported(planned):
    result, out = planned
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert_passed(report)
    shares = report["share_of_limits"]
    assert shares.keys() == {"velocity", "acceleration"} and 0.3 < max(shares.values()) <= 1.002, "config/franka.yaml"
    assert set(report["received_by_space"]) == {"position", "velocity", "acceleration", "jerk", "bspline"}
    assert "\x1b" not in result.stdout, "no terminal"
    for expected in ("Starting the node /demo_", "Playing and planning (4 s) ...", "sequences", "0 lost", "optimizer"):
        assert expected in result.stdout
    assert "Traceback" not in result.stderr and "FAILED" not in result.stderr


@pytest.mark.slow
def test_figures_and_the_motion_for_the_tools_are_written(planned):
    _, out = planned
    for name in ("trajectories.png", "optimizer.png", "goal.png"):
        width, height = png_size(out / name)
        assert width >= 1500 and height >= 800
        assert (out / name).stat().st_size > 50_000, "hardly anything is drawn"
    table, bag = read_plain(out / "motion.csv"), read_plain(out / "motion_bag")
    assert table.joint_names == bag.joint_names and len(table.time) == len(bag.time) > 1000
    np.testing.assert_allclose(bag.velocity, table.velocity)
    assert table.acceleration is not None


def test_the_motion_alone_is_written_on_request(here, tmp_path):
    table, bag = tmp_path / "new" / "m.csv", tmp_path / "bag"
    for path in (table, bag):
        told = f"written: {path}: 1.0 s, 7 joints, 501 samples\n"
        assert here("--seconds", 1, "--write-motion", path) == (0, told, "")
        assert len(read_plain(path).time) == 501
    suffixes = "expected .csv, .db3, .mcap, or no suffix for a bag"
    for path, told in ((bag, "--write-motion: "), (tmp_path / "m.npz", suffixes)):
        code, _, errors = here("--seconds", 1, "--write-motion", path)
        assert code == 2 and told in errors and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seconds", "0"], "expected a number of at least 1 s"),
        (["--batch", "0"], "expected a whole number, 1 or more"),
        (["a.csv", "--data", "b.csv"], "give the recording once"),
        (["--nonsense"], "unrecognized arguments"),
        (["columns.csv"], "expected columns time, position_<joint>"),
    ],
)
def test_wrong_arguments_and_recordings_are_one_line_and_exit_code_2(here, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "columns.csv").write_text("time,a,b\n0,1,2\n")
    code, output, errors = here(*arguments, "--out", "out")
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert message in errors and not (tmp_path / "out").exists()


def test_a_missing_device_is_reported_at_once(tmp_path):
    result = run("--device", "cuda:99", "--out", tmp_path)
    assert result.returncode == 1
    assert "the node could not configure itself" in result.stderr and "cuda:99" in result.stderr
    assert "Traceback" not in result.stderr


def until(condition, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def node_of(out: Path) -> int:
    """The process id of the command behind which the node of a demo runs, and with which it ends."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"--params-file" in words and any(word.startswith(bytes(out)) for word in words):
                found.append(int(process.name))
    (node,) = found
    return node


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def running(tmp_path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A demo in the middle of its traffic, and the process id of its node."""
    log = (tmp_path / "demo.log").open("w+")
    process = subprocess.Popen(demo("--out", tmp_path / "out"), stdout=log, stderr=log, text=True)
    try:
        until(lambda: "Playing" in (tmp_path / "demo.log").read_text() or process.poll() is not None)
        node = node_of(tmp_path / "out")
        time.sleep(1.0)
        yield process, node
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        log.close()


def test_a_demo_that_is_ended_stops_its_node(running, tmp_path):
    process, node = running
    process.terminate()  # Ctrl-C takes the same way (test/tools/test_command_line.py)
    assert process.wait(20) == 143
    assert not is_running(node)
    assert "Traceback" not in (tmp_path / "demo.log").read_text()


def test_death_of_its_node_ends_the_demo_with_the_nodes_log(running, tmp_path):
    process, node = running
    os.kill(node, signal.SIGKILL)
    code = process.wait(20)
    said = (tmp_path / "demo.log").read_text()
    assert code == 1, said
    assert "the integrator node ended with exit code -9" in said and "configured: 7 joints" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_an_external_node_is_used_and_left_alone(here, tmp_path):
    """With the motion of a recording, which lasts 4 s and is played twice."""
    recording = write_table(tmp_path / "sine.csv", sine_motion(), ("position", "velocity", "acceleration"))
    parameters, out = tmp_path / "params.yaml", tmp_path / "out"
    assert here(recording, "--write-node-params", parameters)[0] == 0
    namespace = ["--ros-args", "-r", "__ns:=/arm"]
    node = subprocess.Popen(
        [preloaded_python(), "-m", "traj_integrator_ros", *namespace, "--params-file", str(parameters)]
    )
    try:
        result = run(recording, "--external-node", "--out", out, *namespace)
        assert result.returncode == 0, result.stdout + result.stderr
        assert node.poll() is None
        node.send_signal(signal.SIGINT)
        assert node.wait(20) == 0
    finally:
        node.kill()
        node.wait()
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert_passed(report)
    assert report["sequences_sent"] > 100 and not (out / "node.log").exists()
    assert report["share_of_limits"] == {}, "nobody knows its limits"

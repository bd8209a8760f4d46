"""The demo as its user runs it: a process, with the node in another, over real DDS."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from motions import sine_motion
from preloaded_process import PreloadedNode, PreloadedProcess, process_with
from recordings import read_plain, write_table

pytestmark = pytest.mark.ros
DEMO = ("-m", "traj_integrator_ros.demo.main")


def run(folder: Path, *arguments: object) -> tuple[int, str]:
    """Exit code, and output and errors together."""
    process = PreloadedProcess([*DEMO, *arguments], folder / "demo.log")
    try:
        return process.wait(100.0), process.output
    finally:
        process.kill()


def passed(out: Path) -> dict:
    """The report of a run in which everything went well."""
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert report["failures"] == [] and report["passed"] is True
    assert report["lost"] == report["rejected"] == 0
    assert report["sequences_sent"] == report["trajectories_received"] > 10
    assert report["joint_trajectories_received"] > 10
    assert 0 < report["latency_ms"]["p50"] <= report["latency_ms"]["p99"]
    for optimizer in report["optimizer"].values():
        assert abs(optimizer["cost_at_end"] / optimizer["closed_form_optimum"] - 1) <= 1e-3
        assert 1 < optimizer["iterations"] < 60 and optimizer["service_calls"] > optimizer["iterations"]
    return report


@pytest.mark.slow
def test_a_planned_motion_passes_and_is_reported_drawn_and_written(tmp_path):
    from matplotlib.image import imread

    out = tmp_path / "out"
    code, said = run(tmp_path, "--seconds", 4, "--out", out)
    assert code == 0, said
    report = passed(out)
    shares = report["share_of_limits"]
    assert shares.keys() == {"velocity", "acceleration"} and 0.3 < max(shares.values()) <= 1.002, "config/franka.yaml"
    assert set(report["received_by_space"]) == {"position", "velocity", "acceleration", "jerk", "bspline"}
    for expected in ("Starting the node /demo_", "Playing and planning (4 s) ...", "sequences", "0 lost", "optimizer"):
        assert expected in said
    assert not [wrong for wrong in ("\x1b", "Traceback", "FAILED") if wrong in said]
    for name in ("trajectories.png", "optimizer.png", "goal.png"):
        height, width, _ = imread(out / name).shape
        assert width >= 1500 and height >= 800
        assert (out / name).stat().st_size > 50_000, "hardly anything is drawn"
    table, bag = read_plain(out / "motion.csv"), read_plain(out / "motion.mcap")
    assert table.joint_names == bag.joint_names and len(table.time) == len(bag.time) > 1000
    np.testing.assert_allclose(bag.velocity, table.velocity)
    assert table.acceleration is not None


@pytest.fixture
def running(tmp_path) -> Iterator[tuple[PreloadedProcess, int]]:
    """A demo in the middle of its traffic, and the process id of its node."""
    process = PreloadedProcess([*DEMO, "--out", tmp_path / "out"], tmp_path / "demo.log")
    try:
        process.wait_for_output("Playing")
        time.sleep(1.0)
        yield process, process_with(str(tmp_path / "out" / "node_params.yaml"))
    finally:
        process.kill()


def test_death_of_its_node_ends_the_demo_with_the_nodes_log(running):
    process, node = running
    os.kill(node, signal.SIGKILL)
    assert process.wait(20) == 1, process.output
    for said in ("the integrator node ended with exit code -9", "configured: 7 joints"):
        assert said in process.output
    assert "Traceback" not in process.output


@pytest.mark.thorough
@pytest.mark.slow
def test_an_external_node_is_used_and_left_alone(tmp_path):
    """With the motion of a recording, which lasts 4 s and is played twice."""
    recording = write_table(tmp_path / "sine.csv", sine_motion(), ("position", "velocity", "acceleration"))
    parameters, out, namespace = tmp_path / "params.yaml", tmp_path / "out", ["-r", "__ns:=/arm"]
    code, said = run(tmp_path, recording, "--write-node-params", parameters)
    assert code == 0, said
    node = PreloadedNode(tmp_path, parameters, namespace)
    try:
        code, said = run(tmp_path, recording, "--external-node", "--out", out, "--ros-args", *namespace)
        assert code == 0, said
        assert node.is_running()
    finally:
        assert node.stop().code == 0
    report = passed(out)
    assert report["sequences_sent"] > 100 and not (out / "node.log").exists()
    assert report["share_of_limits"] == {}, "nobody knows its limits"

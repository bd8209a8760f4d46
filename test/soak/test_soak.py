"""Short soaks with real processes: one that passes, and several that must not."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from preloaded_process import PreloadedProcess, process_with

pytestmark = pytest.mark.ros
# Slow enough for a busy machine; latency must not decide here.
CALM = ("--load", "0.2", "--p99-ratio", "1e6", "--least-rate", "0.1", "--late", "20", "--stop", "5")
SHORT = ("--warmup", "1", "--minutes", "0.05", "--rss-growth", "50")


def start(out: Path, *arguments: str) -> PreloadedProcess:
    # The memory of a preloaded node is its command's: no test here judges it, and each start takes 2 s less.
    return PreloadedProcess(["-m", "soak", "--out", out, *CALM, *SHORT, *arguments], out / "log")


def report(out: Path, process: PreloadedProcess, code: int = 0) -> dict:
    assert process.wait(120) == code, process.output
    return json.loads((out / "soak.json").read_text())


def test_a_short_soak_closes_its_books(tmp_path: Path) -> None:
    process = start(tmp_path)
    told = report(tmp_path, process)
    assert told["passed"] and told["violations"] == []
    clients, node = told["clients"], told["node"]
    assert clients["planner"]["sent"] >= 10 and clients["optimizer"]["sent"] >= 5
    assert clients["planner"]["sent"] == node["sequences"]
    assert clients["planner"]["answered"] >= node["published"] > 0 and clients["controller"]["received"] > 0
    assert clients["optimizer"]["answered"] + clients["optimizer"]["refused"] == node["service_calls"]
    assert len(told["stops_ms"]) == 60
    assert told["latency_ms"]["sequences"]["p99"] > 0 and clients["controller"]["unfit"] == 0
    assert '"passed": true' in process.output


@pytest.mark.thorough
@pytest.mark.parametrize("overload", [("--load", "4"), ("--load", "1", "--beside")], ids=["four times", "beside"])
def test_overload_is_answered_or_refused_and_never_lost(tmp_path: Path, overload: tuple[str, ...]) -> None:
    process = start(tmp_path, *overload, "--minutes", "0.33")
    told = report(tmp_path, process)
    calls, node = told["clients"]["optimizer"], told["node"]
    assert calls["answered"] + calls["refused"] == calls["sent"] == node["service_calls"] > 100
    assert told["clients"]["planner"]["answered"] > 0


@pytest.mark.thorough
def test_what_no_robot_may_be_sent_makes_the_soak_fail(tmp_path: Path) -> None:
    """The clients take the limits from the file; the node warns and publishes nevertheless."""
    loose = ("--set", "limits.action:=warn", "--set", "limits.velocity:=[0.01, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]")
    process = start(tmp_path, *loose)
    told = report(tmp_path, process, code=1)
    beyond = r"joint_trajectory: limits: velocity of panda_joint1 at point \d+: expected at (most |least -)0\.01 rad/s"
    assert re.search(beyond, process.output), process.output
    assert not told["passed"] and told["clients"]["controller"]["unfit"] > 0


def test_a_node_that_ends_makes_the_soak_fail_and_leaves_no_process(tmp_path: Path) -> None:
    process = start(tmp_path, "--minutes", "5")
    process.wait_for_output("Soaking", 100.0)
    node = process_with(str(tmp_path / "node_params.yaml"))
    soak = Path(f"/proc/{node}/stat").read_text().rpartition(")")[2].split()[1]
    children = Path(f"/proc/{soak}/task/{soak}/children").read_text().split()
    os.kill(node, signal.SIGTERM)
    assert process.wait(60) == 1
    assert "soak: FAILED: ended before its time: the integrator node ended with exit code 0" in process.output
    assert len(children) == 3, "robot, operator and node"
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)

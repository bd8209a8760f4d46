"""The demo's failures, its report and its figures."""

from __future__ import annotations

import dataclasses
import json
from unittest.mock import MagicMock

import numpy as np
import pytest
from motions import sine_motion

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

from traj_integrator_interfaces.msg import Rejection
from traj_integrator_ros.client import JointMotion, Trajectories
from traj_integrator_ros.demo.main_job import MainJob
from traj_integrator_ros.demo.optimizer import Result, problems_of
from traj_integrator_ros.demo.planned import LIMITS, PANDA_JOINTS
from traj_integrator_ros.demo.recording import plan_on
from traj_integrator_ros.demo.report import conclude, failures, report_of
from traj_integrator_ros.kernels import ControlSpace


def to_rest(distance: float, *, acceleration: bool = True, names: tuple[str, ...] = ("a", "b")) -> JointMotion:
    """Two points at rest, 1 s apart: a quintic peaks at 1.875 and 5.77, a cubic at 1.5 and 6 times the distance."""
    position = np.zeros((2, len(names)))
    position[1, 0] = distance
    zeros = np.zeros_like(position)
    return JointMotion(names, 0, np.array([0.0, 1.0]), position, zeros, zeros if acceleration else None)


def job(sent: int = 100, answered: int = 100, joint_names: tuple[str, ...] | None = None) -> MainJob:
    """The record of a client that sent so many sequences, answered after 1 ms, 2 ms and so on."""
    motion = sine_motion()
    recording = dataclasses.replace(motion, joint_names=joint_names or motion.joint_names)
    made = MainJob(MagicMock(), recording, plan_on(motion))
    made.sent = dict.fromkeys(range(sent), (ControlSpace.JERK, 0.0))
    for stamp in range(answered):
        rows = np.zeros((1, 4, 3), np.float32)
        made.receive(Trajectories(("a", "b", "c"), stamp, np.arange(4.0), rows, rows, rows, rows))
        made.answers[stamp] = made.answers[stamp]._replace(latency_s=1e-3 * (stamp + 1))
    made.motions.append(to_rest(1.0))
    return made


def report(found: MainJob, gap: float = 1e-6, node_code: int = 0) -> dict:
    costs = 1e3, 10.0, 2.0 * (1 + gap)
    results = [Result(problem, 2.0, costs, 12, 0.3, None) for problem in problems_of(found.planned)]
    return report_of(found, results, node_code, 20.0)


def refused(reason: str, output: str, count: int, sent: int = 100) -> MainJob:
    found = job(sent, 100)
    found.refused(Rejection(reason=reason, output=output, count=count))
    return found


@pytest.mark.parametrize(
    ("found", "gap", "message"),
    [
        (job(100, 98), 0.0, "2 sequences lost"),
        (job(0, 0), 0.0, "no trajectory came back"),
        (refused("queue_overflow", "both", 3, 103), 0.0, "sequences rejected: 3 queue_overflow"),
        (job(), 2e-3, "optimizer over control points: cost 2e-03 from its optimum"),
        (job(), -2e-3, "optimizer over jerks: cost -2e-03 from its optimum"),
        (job(), float("nan"), "optimizer over jerks"),
    ],
)
def test_every_fault_fails_the_run_by_name(found, gap, message):
    told = failures(report(found, gap))
    assert any(message in sentence for sentence in told), told
    assert failures(report(job())) == []


@pytest.mark.parametrize(("code", "failed"), [(0, []), (1, ["the node ended with exit code 1 when interrupted"])])
def test_the_demo_ends_with_1_where_something_failed_and_says_what(tmp_path, capsys, code, failed):
    assert conclude(report(job(), node_code=code), tmp_path, "motion.csv") == bool(failed)
    assert capsys.readouterr().err == "".join(f"demo: FAILED: {failure}\n" for failure in failed)
    written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert written["failures"] == failed and written["passed"] is not bool(failed)
    assert written["latency_ms"]["p50"] == pytest.approx(50.5) and written["received_by_space"] == {"jerk": 100}


@pytest.mark.parametrize(("acceleration", "peaks"), [(True, (1.875, 5.7735)), (False, (1.5, 6.0))])
def test_the_largest_share_of_the_limits_of_all_trajectories_is_told(acceleration, peaks):
    motions = [to_rest(distance, acceleration=acceleration, names=PANDA_JOINTS) for distance in (0.5, 1.0, -0.2)]
    motions.append(dataclasses.replace(motions[0], time_from_start=np.zeros(1)))  # one point moves nothing
    found = job(joint_names=PANDA_JOINTS)
    found.motions = motions
    shares = report(found)["share_of_limits"]
    expected = {name: peak / LIMITS[name][0] for name, peak in zip(("velocity", "acceleration"), peaks, strict=True)}
    assert shares == pytest.approx(expected, rel=1e-3)

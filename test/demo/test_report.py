"""What makes the demo fail, and what it writes down."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from motions import sine_motion

from traj_integrator_ros.demo.goal_problem import Steering, closed_form, integrate_exactly, problem_from
from traj_integrator_ros.demo.metrics import Measured
from traj_integrator_ros.demo.windows import Prepared, prepare
from traj_integrator_ros.kernels import FiniteDifference, Trajectory
from traj_integrator_ros.motions.samples import Nature
from traj_integrator_ros.traffic.ledger import Balance

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

from traj_integrator_ros.demo.main import _conclude
from traj_integrator_ros.demo.optimizer import OptimizerResult
from traj_integrator_ros.demo.report import Outcome, as_json, failures, summary, write_report


def measured(error: float = 1e-4, start_up: float = 1.0) -> Measured:
    result = Measured()
    for scheme in FiniteDifference:
        result.velocity[f"position/{scheme.value}"].append(np.full(100, error))
        result.start_up[f"position/{scheme.value}"] = start_up
        result.batches[f"position/{scheme.value}"] = 50
    return result


def in_degrees() -> Prepared:
    motion = sine_motion()
    return dataclasses.replace(prepare(motion), cleaned=dataclasses.replace(motion, velocity=57.3 * motion.velocity))


def optimized(gap: float = 1e-6, missed: float = 0.0) -> dict[Steering, OptimizerResult]:
    results = {}
    for steering in Steering:
        problem = problem_from(sine_motion(), steering)
        optimum = closed_form(problem)
        motion = Trajectory(*integrate_exactly(problem, optimum.actions))
        motion.position[-1] += missed
        costs = (1e3, 10.0, optimum.cost * (1 + gap))
        results[steering] = OptimizerResult(problem, optimum, costs, len(costs) - 1, 12, 0.3, motion)
    return results


@pytest.fixture
def outcome() -> Outcome:
    """A run in which everything went well."""
    prepared = prepare(sine_motion())
    return Outcome(
        prepared=prepared,
        balance=Balance(sent=101, answered=100, rejected=1, node_down=0, lost=0),
        by_reason={"not_finite": 1},
        refused_on_purpose=1,
        unknown_answers=0,
        latencies=[0.001, 0.002, 0.003],
        measured=measured(),
        faults={},
        joint_states=500,
        joint_trajectories=100,
        restarts=0,
        node={"lifecycle_state": "active", "rejected.not_finite": "1"},
        optimized=optimized(),
        kept=[],
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"balance": Balance(103, 100, 1, 0, 2)}, "2 sequences lost"),
        (
            {"balance": Balance(104, 100, 4, 0, 0), "by_reason": {"not_finite": 4}},
            "3 sequences rejected that are valid",
        ),
        ({"balance": Balance(101, 101, 0, 0, 0), "joint_trajectories": 101}, "NaN was not counted as rejected"),
        ({"measured": measured(error=0.004)}, "velocity error by backward differences 0.0040 rad/s, bound 0.0030"),
        ({"measured": measured(error=float("nan"))}, "velocity error by central differences nan"),
        ({"measured": Measured()}, "no trajectory by central differences came back"),
        ({"measured": dataclasses.replace(measured(), not_finite=2)}, "2 trajectory batches with NaN or Inf"),
        ({"measured": measured(start_up=2.0)}, "start-up acceleration of position/backward"),
        ({"optimized": optimized(gap=2e-3)}, "optimizer over control points: cost 2.00e-03 from its optimum"),
        ({"optimized": optimized(missed=1e-6)}, "the spline's last row misses the goal state by 1.00e-06"),
        ({"optimized": optimized(gap=-2e-3)}, "optimizer over jerks: cost -2.00e-03 from its optimum"),
        ({"prepared": in_degrees()}, "check units, joint order and stamps"),
        ({"unknown_answers": 3}, "3 trajectory batches that answer no sequence of ours"),
        ({"faults": {"joint trajectory: does not end at rest": 2}}, "does not end at rest (2 times)"),
        ({"joint_trajectories": 99}, "99 joint trajectories for 100 answered sequences"),
        ({"node": {"supervision_brakes": "1"}}, "99 joint trajectories for 100 answered sequences"),
        ({"by_reason": {"not_finite": 1, "superseded": 1}}, "101 joint trajectories for 100 answered sequences"),
    ],
)
def test_every_fault_fails_the_run_by_name(outcome, changes, message):
    found = failures(dataclasses.replace(outcome, **changes))
    assert any(message in sentence for sentence in found), found


def test_a_start_up_acceleration_may_be_what_the_sequences_have_themselves_if_they_are_recorded(outcome):
    own = measured()
    outcome = dataclasses.replace(outcome, measured=own)
    largest = outcome.prepared.largest_acceleration
    own.start_up["position/backward"] = 2.0 * largest
    assert outcome.start_up["position/backward"] == pytest.approx((2.0, 1.05))
    assert any("start-up acceleration of position/backward 2.00 x" in failure for failure in failures(outcome))
    recording = dataclasses.replace(outcome.prepared.recording, nature=Nature.MEASURED)
    recorded = dataclasses.replace(outcome, prepared=dataclasses.replace(outcome.prepared, recording=recording))
    assert recorded.start_up["position/backward"][1] == 1.5
    own.own_start_up["position/backward"] = 1.9 * largest
    assert failures(outcome) == []
    assert outcome.start_up["position/backward"][1] == pytest.approx(1.2 * 1.9)


@pytest.mark.parametrize(
    ("node_exit_code", "failures"), [(0, []), (1, ["the node ended with exit code 1 when interrupted"])]
)
def test_the_demo_ends_with_1_where_something_failed_and_says_what(outcome, tmp_path, capsys, node_exit_code, failures):
    assert _conclude(outcome, node_exit_code, tmp_path, "motion.csv", 20.0) == bool(failures)
    assert capsys.readouterr().err == "".join(f"demo: FAILED: {failure}\n" for failure in failures)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["failures"] == failures and report["passed"] is not bool(failures)
    assert report["latency_ms"]["p50"] == pytest.approx(2.0)


def test_report_is_json_even_with_numbers_that_are_none(outcome, tmp_path):
    spoiled = dataclasses.replace(outcome, measured=measured(error=float("nan")), latencies=[])
    write_report(as_json(spoiled, 0, 20.0), tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert report["velocity_error_rad_s"]["central"]["rms"] is None and report["latency_ms"]["p99"] is None
    assert report["optimizer"]["jerks"]["closed_form_optimum"] > 0 and report["wall_s"] == 20.0


def test_summary_shows_losses_and_bounds(outcome):
    lines = dict(summary(dataclasses.replace(outcome, balance=Balance(103, 100, 1, 0, 2))))
    assert lines["sequences"] == "103 sent, 100 answered, 1 rejected, 2 lost"
    assert lines["rejected"] == "1 not_finite (1 on purpose)"
    assert lines["trajectories"] == "100 published, 0 superseded by newer sequences"
    assert "commanded" not in lines, "of another robot, whose limits nobody knows"


def test_answers_whose_trajectory_was_superseded_are_no_rejections_and_sums_add_up(outcome):
    counts = {"not_finite": 1, "superseded": 3}
    some = dataclasses.replace(outcome, by_reason=counts, joint_trajectories=99, node={"supervision_brakes": "2"})
    assert failures(some) == []
    report, lines = as_json(some, 0, 20.0), dict(summary(some))
    assert sum(report["rejected_by_reason"].values()) == report["rejected"] == 1 and report["superseded"] == 3
    assert lines["rejected"] == "1 not_finite (1 on purpose)"
    assert lines["trajectories"] == "97 published, 3 superseded by newer sequences, 2 more are brakes"
    published = report["joint_trajectories_received"] - report["brakes"]
    assert published + report["superseded"] == report["trajectories_received"]
    assert lines["velocity error, central"] == "0.00010 rad/s RMS (bound 0.0030)"

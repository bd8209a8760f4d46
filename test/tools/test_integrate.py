"""The tool integrate: what goes in comes out integrated, in every format."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from pipelines import SimulatedNode
from recordings import JOINT_STATE, read_plain, write_bag, write_table
from tool_runs import JOINTS, Tool

from traj_integrator_ros.kernels import ControlSpace, bspline_step
from traj_integrator_ros.motions.files import read_trajectories
from traj_integrator_ros.motions.samples import QUANTITIES, Nature, Samples, samples_of
from traj_integrator_ros.motions.sequences import STATE, read_sequences
from traj_integrator_ros.motions.trajectories import FIELDS


@pytest.mark.parametrize("control_space", ["position", "acceleration"])
def test_a_quadratic_motion_is_reproduced_from_its_own_actions(
    tool: Tool, tmp_path: Path, table: Path, quadratic: Samples, control_space: str
) -> None:
    arguments = ("integrate", table, "--control-space", control_space, "--out", "out.csv")
    assert "RMS difference from the recording: position" in tool(*arguments).told
    out = read_plain(tmp_path / "out.csv")
    assert out.joint_names == JOINTS
    for quantity in QUANTITIES:  # a brake follows
        np.testing.assert_allclose(getattr(out, quantity)[:30], getattr(quadratic, quantity)[:30], atol=1e-7)
    np.testing.assert_allclose(out.position[30], quadratic.position[30], atol=1e-12)


RATES = ("position", "velocity", "acceleration")


def test_every_action_is_executed_and_a_controller_accepts_the_output(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="the rosbags library is not installed")
    (tmp_path / "actions.csv").write_text("action_a\n0.5\n0.5\n-1.0\n")
    arguments = ("integrate", "actions.csv", "--control-space", "velocity", "--dt", "0.1")
    for out in ("out.csv", "out.npz", "out_bag"):
        assert "note: at rest in the end, after a brake" in tool(*arguments, "--out", out).told
        assert tool("check_trajectory", out).told
    stopped = read_plain(tmp_path / "out.csv")
    np.testing.assert_allclose(stopped.position[:4, 0], [0.0, 0.05, 0.1, 0.0], atol=1e-12)
    assert stopped.velocity[-1] == 0 and stopped.position[-1] < 0


@pytest.mark.parametrize("said_by", ["archive", "parameters"])
def test_control_points_give_the_segments_of_the_kernels_spline(tool: Tool, tmp_path: Path, said_by: str) -> None:
    points = np.array([[0.5, -0.2], [0.5, -0.2], [-1.0, 0.4], [0.3, 0.9]])
    ends = [[0.1, 0.2]], [[0.5, 0.0]], [[1.0, 2.0]], [[0.1, 0.0]]
    *start, goal, rate = (torch.tensor(row, dtype=torch.float64) for row in ends)
    form = {"degree": 5, "steps": 2} if said_by == "archive" else {}
    goals = {"goal_position": goal, "goal_velocity": rate}
    expected = bspline_step(torch.from_numpy(points)[None], *start, dt=0.05, **goals, **form)
    if said_by == "archive":
        given = dict(zip(("start_position", "start_velocity", *goals), ends, strict=True)) | form
        np.savez(tmp_path / "points.npz", actions=points, dt=0.05, control_space="bspline", joint_names=JOINTS, **given)
        arguments = ("integrate", "points.npz", "--out", "out.csv")
    else:
        np.savetxt(tmp_path / "points.csv", points, delimiter=",", header="action_arm_a,action_arm_b", comments="")
        values = {"joint_names": list(JOINTS), "control_space": "bspline", "dt": 0.05}
        (tmp_path / "node.yaml").write_text(json.dumps({"/**": {"ros__parameters": values}}))
        sides = "--start-position 0.1,0.2 --start-velocity 0.5,0 --goal-position 1,2 --goal-velocity 0.1,0"
        arguments = ("integrate", "points.csv", "--params", "node.yaml", *sides.split(), "--out", "out.csv")
    assert tool(*arguments).told
    ends, steps = read_plain(tmp_path / "out.csv"), form.get("steps", 4)
    segments = 0.05 * np.arange(expected.position.shape[1])[::steps]
    np.testing.assert_allclose(ends.time[: len(segments)], segments, atol=1e-12)
    for quantity in RATES[:2]:
        found = getattr(ends, quantity)[: len(segments)]
        np.testing.assert_allclose(found, getattr(expected, quantity)[0, ::steps], rtol=1e-10, atol=1e-9)
    assert tool(*arguments[:-1], "out.npz", "--plot", "out.png").told
    assert tool("check_trajectory", "out.npz").told  # a brake follows the goal's velocity


@pytest.mark.parametrize(
    ("space", "goal"), [("position", (0.06,)), ("bspline", (0.06, 0.02)), ("velocity", ()), ("jerk", ())]
)
def test_a_sequence_becomes_what_the_node_publishes_for_it(
    tool: Tool, tmp_path: Path, space: str, goal: tuple[float, ...]
) -> None:
    """The robot rests where the sequence starts, within limits."""
    share = np.linspace(0, 1, 13)[1:, None]
    way = 0.05 * share**3 * (10 - 15 * share + 6 * share**2)
    rates = {"velocity": 0.1 * np.sin(np.pi * share) ** 2, "jerk": 0.1 * np.sin(2 * np.pi * share)}
    actions = rates.get(space, way)
    (tmp_path / "actions.csv").write_text("\n".join(["action_a", *(f"{value}" for (value,) in actions)]))
    options = [f"--goal-{name}={value}" for name, value in zip(STATE, goal, strict=False)]
    zeros = [f"--start-{name}=0" for name in STATE]
    arguments = ("--control-space", space, "--dt", "0.1", *options, *zeros, "--out", "out.csv")
    assert tool("integrate", "actions.csv", *arguments).told
    node = SimulatedNode(1, publish__lead_time=0.0, limits__assumed_velocity=1.0)
    node.measure(0.0)
    goals = {f"goal_{name}": np.array([value]) for name, value in zip(STATE, goal, strict=False)}
    made = node.send(actions, space=ControlSpace[space.upper()], dt=0.1, start=([0], [0], [0]), **goals)
    planned, out = made.meant, read_plain(tmp_path / "out.csv")
    assert out.time[-1] == pytest.approx(planned.duration, abs=1e-6)
    np.testing.assert_allclose(out.position[:-1], planned.states_at(out.time[:-1])[0], atol=1e-7)


def test_a_batch_of_actions_is_written_to_an_archive_a_bag_and_a_figure(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="the rosbags library is not installed")
    actions = np.random.default_rng(1).normal(size=(3, 5, 2))
    start = np.array([[1.0, 2.0]])
    np.savez(tmp_path / "in.npz", actions=actions, dt=0.1, start_position=start, control_space="velocity")
    for out, *plot in (("out.npz", "--plot", "out.png"), ("out_bag",), ("out.mcap",), ("out.db3",), ("out.mcap",)):
        told = tool("integrate", "in.npz", "--out", out, *plot).told
    assert "3 trajectories, " in told and (tmp_path / "out.png").read_bytes()[:4] == b"\x89PNG"
    second = read_plain(tmp_path / "out.npz", row=1)
    np.testing.assert_allclose(second.position[5], start[0] + 0.1 * actions[1].sum(axis=0), atol=1e-6)
    np.testing.assert_allclose(second.position[0], start[0])
    for bag in ("out_bag", "out.mcap", "out.db3"):
        trajectories = list(read_trajectories(tmp_path / bag, None, print))
        assert len(trajectories) == 3
        for field, quantity in FIELDS.items():
            rows = trajectories[1].rows(field)
            if rows is not None:
                np.testing.assert_allclose(rows, getattr(second, quantity))
        states = read_plain(tmp_path / bag)
        assert len(states.time) == 3 * len(second.time) and states.joint_names == ("joint_0", "joint_1")
    assert (tmp_path / "out.mcap").read_bytes()[:5] == b"\x89MCAP" and not list(tmp_path.glob(".*"))


SEQUENCE = {"joint_names": list(JOINTS), "control_space": 3, "batch": 2, "horizon": 3, "dt": [0.1, 0.2], "dt_per": 1,
            "data": np.arange(12.0).tolist()}  # fmt: skip
SPLINE = {**SEQUENCE, "control_space": 5, "degree": 4, "steps": 2, "goal_index": [1, 0],
          "goal": {"position": [0.0, 1.0, 2.0, 3.0], "velocity": [0.0, 1.0, 2.0, 3.0]}}  # fmt: skip


def test_sequences_of_a_bag_start_as_said_or_at_the_state_before(tmp_path: Path) -> None:
    state = {"name": ["arm_b", "arm_a"], "position": [2.0, 1.0], "velocity": [0.2, 0.1]}
    own, kind = {**SEQUENCE, "start": {"position": [5.0, 6.0]}}, "traj_integrator_interfaces/msg/ActionSequence"
    sequences = [(0, own), (2, SEQUENCE), (3, SPLINE)]
    write_bag(tmp_path / "bag", [("/s", kind, sequences), ("/joint_states", JOINT_STATE, [(1, state)])])
    own, measured, spline = read_sequences(tmp_path / "bag", "position", None, print)
    assert own.control_space == "acceleration" and own.fields["data"].shape == (2, 3, 2) and own.fields["dt_per"] == 1
    np.testing.assert_allclose(own.fields["start_position"], [5, 6])
    np.testing.assert_allclose(measured.measured["start_position"], [1, 2])
    np.testing.assert_allclose(measured.measured["start_velocity"], [0.1, 0.2])
    assert "goal_position" not in own.fields
    assert [spline.fields[name] for name in ("control_space", "degree", "steps")] == [5, 4, 2]
    np.testing.assert_allclose(spline.fields["goal_velocity"], [0, 1, 2, 3])
    np.testing.assert_array_equal(spline.fields["goal_index"], [1, 0])


def test_sequences_of_a_bag_lack_a_start_unless_said_or_measured(tool: Tool, tmp_path: Path) -> None:
    kind = "traj_integrator_interfaces/msg/ActionSequence"
    starting = [(k, {**SEQUENCE, "start": {"position": start}}) for k, start in enumerate(([5.0, 6.0], [7.0, 8.0]))]
    write_bag(tmp_path / "both", [("/s", kind, starting)])
    write_bag(tmp_path / "one", [("/s", kind, [*starting, (2, SPLINE)])])
    refused = tool("integrate", "one", "--out", "out.npz")
    assert refused.returncode == 2 and "it has no start" in refused.stderr
    told = tool("integrate", "both", "--out", "out.csv").told
    assert "4 trajectories of 2 sequences" in told
    assert "note: out.csv has the first trajectory; NPZ and bags take all\n" in told
    assert tool("integrate", "both", "--out", "out.npz").told
    starts = np.load(tmp_path / "out.npz")["position"][:, 0]
    assert starts.tolist() == [[5, 6], [5, 6], [7, 8], [7, 8]]


def test_what_had_to_be_assumed_about_actions_is_said(tool: Tool, tmp_path: Path, table: Path) -> None:
    (tmp_path / "actions.csv").write_text("action_a\n0.5\n0.5\n")
    assert (
        "note: assumed, since neither the file nor an option says otherwise: "
        "actions are of control space position (--control-space), "
        "steps are 0.02 s (--dt), the start is at position 0 (--start-position)\n"
    ) in tool("integrate", "actions.csv", "--out", "out.csv").told
    known = ("actions.csv", "--out", "out.csv", "--control-space", "velocity", "--start-position", "0.1")
    assert "otherwise: steps are 0.02 s (--dt)\n" in tool("integrate", *known).told
    for nothing in ((*known, "--dt", "0.1"), (table, "--out", "out.csv")):
        assert "assumed" not in tool("integrate", *nothing).told
    parameters = "/**: {ros__parameters: {joint_names: [a], dt: 0.3, control_space: jerk}}"
    (tmp_path / "node.yaml").write_text(parameters)
    told = tool("integrate", "actions.csv", "--params", "node.yaml", "--out", "out.csv").told
    assert "actions are of control space jerk (--control-space), steps are 0.3 s (--dt)" in told


@pytest.mark.parametrize("known", [("position",), ("position", "velocity")])
def test_a_motion_without_rates_begins_without_a_jolt(tool: Tool, tmp_path: Path, known: tuple[str, ...]) -> None:
    time = np.arange(200) * 0.005
    angle = 2.0 * time[:, None] + 0.4
    sine = samples_of("made up", ("a",), time, [np.sin(angle), 2 * np.cos(angle)], "test", Nature.MEASURED)
    write_table(tmp_path / "motion.csv", sine, known)
    told = tool("integrate", "motion.csv", "--out", "out.csv").stdout
    assert ("start velocity by differences" in told) == (len(known) == 1)
    found = read_plain(tmp_path / "out.csv")
    np.testing.assert_allclose(found.velocity[0], 2 * np.cos(0.4), atol=1e-4)
    np.testing.assert_allclose(found.acceleration[:2], -4 * np.sin(0.4), atol=0.06)
    assert np.abs(found.jerk[:20]).max() < 9.0  # the motion has 8 cos(...)


def test_units_are_those_of_the_joints_in_the_urdf(tool: Tool, tmp_path: Path, table: Path) -> None:
    joint = '<joint name="arm_{}" type="{}"><limit lower="-9" upper="9" velocity="0.3"/></joint>'
    joints = joint.format("a", "prismatic") + joint.format("b", "revolute")
    (tmp_path / "arm.urdf").write_text(f"<robot>{joints}</robot>")
    told = tool("integrate", table, "--urdf", "arm.urdf", "--out", "out.csv").told
    assert re.search(r"velocity of arm_a exceeds its limit by 6\d\.\d % at 0.6\d* s \(0.50\d* of 0.3 m/s\)", told)
    assert re.search(r"velocity of arm_b exceeds its limit by 3\d\.?\d* % at 0.02 s \(0.39\d* of 0.3 rad/s\)", told)
    assert re.search(r"RMS difference from the recording: position \S+ m and \S+ rad, velocity \S+ m/s and", told)
    told = tool("check_trajectory", table, "--urdf", "arm.urdf", "--moving-end").stdout
    assert "velocity of arm_a: expected at most 0.3 m/s, got 0.5 (66.7 % too much) at 0.6 s" in told
    assert "commanded at most 0.5 rad/s" in tool("check_trajectory", table, "--moving-end").told
    (tmp_path / "arm.urdf").write_text((tmp_path / "arm.urdf").read_text().replace("0.3", "9"))
    told = tool("check_trajectory", table, "--urdf", "arm.urdf", "--moving-end").stdout
    assert "commanded at most 0.5 m/s" in told and "; 0.4 rad/s" in told


def test_integrate_and_check_trajectory_name_the_same_worst_value(tool: Tool, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    time = np.arange(40) * 0.05
    position = np.cumsum(0.05 * random.standard_normal((40, 2)), axis=0)
    samples = samples_of("made up", JOINTS, time, [position], "test", Nature.MEASURED)
    write_table(tmp_path / "motion.csv", samples, ("position",))
    limits = "velocity: [0.5, 0.5], acceleration: [9.0, 9.0], jerk: [90.0, 90.0], position_max: [0.01, 9.0]"
    limits = f"limits: {{{limits}, position_min: [-9.0, -0.01]}}"
    (tmp_path / "robot.yaml").write_text(f"/**:\n  ros__parameters:\n    joint_names: [arm_a, arm_b]\n    {limits}\n")
    integrated = tool("integrate", "motion.csv", "--out", "out.csv", "--params", "robot.yaml")
    checked = tool("check_trajectory", "out.csv", "--params", "robot.yaml", "--moving-end")
    pattern = r"(\w+) of (arm_.) exceeds its limit by (\S+ \S+) at .*\((\S+) of"
    ours = {told[:2]: float(told[3]) for told in re.findall(pattern, integrated.stdout)}
    pattern = r"(\w+)(?: between the points)? of (arm_.).*got (\S+) \((\S+ \S+) too much\)"
    theirs = {told[:2]: float(told[2]) for told in re.findall(pattern, checked.stdout)}
    assert len(ours) >= 6 and ours == pytest.approx(theirs, rel=1e-3)

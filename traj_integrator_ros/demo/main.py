"""The main job from the command line: load or plan a motion, start the node, run, draw, report."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ..motions.extras import require
from ..motions.samples import RecordingError
from ..tools.command_line import EXIT_FAILED, ToolFailure, ToolParser, UserError, natural, note, number, run_tool
from ..tools.progress import Progress
from ..wire.transport import prepare_transport
from .motion import Motion, cut, load_recording, write_motion, write_recordings
from .node import NodeProcess

# Torch and ROS are imported where they are needed, so that a faulty recording is reported at once.
if TYPE_CHECKING:
    from ..client import IntegratorClient
    from .report import Report

MAX_SECONDS = 30.0
"""Longer motions are cut, so that the demo ends within a minute."""
PLAY_AT_LEAST = 8.0
"""Motions shorter than this [s] are played several times, but never longer than requested."""
NAME = "demo"
EXAMPLES = (
    (NAME, "a Panda motion planned on the spot"),
    (f"{NAME} recording.db3 --out build/demo", "a recording of joint states"),
)
RESULTS = REPORT, TRAJECTORIES, OPTIMIZER, GOAL = "report.json", "trajectories.png", "optimizer.png", "goal.png"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns 0 if every sequence is answered and the optimum found, or a code of all tools."""
    begin = time.monotonic()
    parser = ToolParser(
        NAME,
        "Sends a robot's motion through the integrator node over DDS, measures and draws what comes back.",
        EXAMPLES,
        uses_ros=True,
    )
    parser.add_argument("recording", nargs="?", type=Path, metavar="PATH", help="the same as --data PATH")
    kinds = (
        "recording: rosbag2 folder, .db3 or .mcap; CSV (time, position_<joint>, velocity_<joint>, or a UR RTDE log); "
        "YAML of a RobotTrajectory. Default: a Panda motion planned on the spot"
    )
    parser.option("--data", kinds, "PATH", Path)
    parser.option("--topic", "JointState topic of a bag (default: /joint_states, or the only one)")
    parser.option("--out", "default: %(default)s", "DIR", Path, Path("build/demo"))
    parser.option("--seconds", "use the first S seconds of the motion only", "S", _seconds)
    parser.option("--batch", "candidates in a sequence (default: %(default)s)", "B", natural, 32)
    parser.option("--device", "device parameter of the node (default: %(default)s)", default="auto")
    parser.flag("--external-node", "use the node traj_integrator that runs already (started by a launch file)")
    parser.option("--write-node-params", "write the parameter file of a node for this motion, and end", "FILE", Path)
    as_files = "write the motion as a table (.csv) or as a bag (.db3, .mcap, or a folder, no suffix), and end"
    parser.option("--write-motion", as_files, "FILE", Path)
    options = parser.parse(arguments)
    if options.recording is not None and options.data is not None:
        parser.error("give the recording once, as PATH or as --data PATH")
    options.data = options.data or options.recording
    return run_tool(NAME, lambda: _main(options, begin))


def _seconds(text: str) -> float:
    if (value := number(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1 s, got {text!r}")
    return value


def _main(options: argparse.Namespace, begin: float) -> int:
    recording = _recording(options)
    if options.write_motion is not None:
        try:
            write_motion(recording, options.write_motion)
        except (RecordingError, UserError) as error:
            raise UserError(f"--write-motion: {str(error).removeprefix('--out: ')}") from None
        print(f"written: {options.write_motion}: {_size(recording)}")
        return 0
    from .planning import plan_on
    from .windows import write_node_parameters

    planned = plan_on(recording)
    if options.write_node_params is not None:
        write_node_parameters(recording, planned, options.batch, options.device, options.write_node_params)
        return 0
    return _run(options, recording, planned, begin)


def _recording(options: argparse.Namespace) -> Motion:
    require("matplotlib", "drawing", extra="demo")
    if options.data is not None:
        motion = load_recording(options.data, options.topic)
    else:
        require("ruckig", "planning a motion (without --data)", extra="demo")
        from .planned import planned_motion

        motion = planned_motion()
    return cut(motion, min(MAX_SECONDS, options.seconds or MAX_SECONDS))


def _size(motion: Motion) -> str:
    return f"{motion.duration:.1f} s, {motion.dof} joints, {motion.samples} samples"


def _run(options: argparse.Namespace, recording: Motion, planned: Motion, begin: float) -> int:
    """Run, draw and report; returns the exit code."""
    from .windows import horizon_of, write_node_parameters

    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    for name in RESULTS:
        (out / name).unlink(missing_ok=True)
    print(f"Motion: {recording.source} ({recording.kind}), {_size(recording)}", flush=True)
    for told in planned.notes:
        print(f"  {told}")
    recordings = write_recordings(recording, out)
    ros_arguments = options.ros_arguments[1:]
    if not options.external_node:  # nothing reaches another robot, or another machine
        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        ros_arguments += ["-r", f"__ns:=/demo_{os.getpid()}"]
    passes = max(1, math.ceil(min(PLAY_AT_LEAST, options.seconds or PLAY_AT_LEAST) / recording.duration - 0.5))
    largest = options.batch, horizon_of(planned), recording.dof
    with Progress() as progress, _client(ros_arguments, largest) as client:
        from .report import report_of
        from .session import Session

        node = None
        progress.stage(f"{'Waiting for' if options.external_node else 'Starting'} the node {client.integrator}")
        if not options.external_node:
            parameters = out / "node_params.yaml"
            write_node_parameters(recording, planned, options.batch, options.device, parameters)
            node = NodeProcess(parameters, ros_arguments, out / "node.log")
        with node or nullcontext():
            session = Session(client, recording, planned, node.check if node else lambda: None)
            session.wait_for_node()
            session.play_and_plan(passes, options.batch, progress)
            progress.stage("Optimizing over the services")
            optimized = session.optimize()
        progress.stage("Drawing")
        from .drawing import draw_optimizer, draw_trajectories

        draw_trajectories(recording, planned, session.traffic, out / TRAJECTORIES)
        for result, name in zip(optimized, (OPTIMIZER, GOAL), strict=True):
            draw_optimizer(result, out / name)
    report = report_of(recording, options.batch, session.traffic, optimized)
    return _conclude(report, node, out, recordings, begin)


def _client(ros_arguments: list[str], largest: tuple[int, int, int]) -> IntegratorClient:
    """The client of the node, with transports for messages up to the largest: batch, horizon, dof."""
    try:
        transport = prepare_transport(*largest)
    except ValueError as error:
        raise UserError(str(error)) from None
    if transport.is_short:
        note(transport.reason)
    try:  # the environment must be complete before the middleware is loaded
        from ..client import IntegratorClient
    except ImportError as error:
        raise ToolFailure(f"ROS 2 and the messages of traj_integrator_interfaces are needed: {error}") from None
    try:
        return IntegratorClient(name="demo", ros_arguments=ros_arguments)
    except Exception as error:  # rclpy has several kinds for wrong arguments
        raise UserError(f"--ros-args: {error}") from None


def _conclude(report: Report, node: NodeProcess | None, out: Path, recordings: str, begin: float) -> int:
    """Write the report, print the summary, and return the exit code."""
    from .report import failures, summary

    seconds, failed = time.monotonic() - begin, failures(report)
    if node is not None and node.code:
        failed.append(f"the node ended with exit code {node.code} when interrupted")
    written = {"passed": not failed, "failures": failed, "wall_s": seconds, **report}
    (out / REPORT).write_text(json.dumps(written, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    lines = [
        *summary(report),
        ("time", f"{seconds:.0f} s"),
        ("written", f"{', '.join(RESULTS)} in {out}"),
        ("recording", f"{recordings} in {out}, for the tools (docs/tools.md)"),
    ]
    width = max(len(name) for name, _ in lines)
    print("", *(f"  {name:<{width}}  {value}" for name, value in lines), sep="\n")
    for failure in failed:
        print(f"{NAME}: FAILED: {failure}", file=sys.stderr)
    return EXIT_FAILED if failed else 0
